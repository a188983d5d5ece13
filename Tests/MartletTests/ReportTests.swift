// SPDX-License-Identifier: Apache-2.0
//
// Questions about messages that were sent, over real sockets, by the client library and in this process:
// who may ask, what is refused, and that all are told the same (REP-1, REP-2).

import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("Reports over sockets", .timeLimit(.minutes(2)))
struct ReportSocketTests {
    private static func questions(_ peer: Peer) -> [ClientFrame] {
        [
            .request(ReportRequest(correlation: peer.nextCorrelation(), messageNumber: 1)),
            .request(
                ListDaysRequest(
                    correlation: peer.nextCorrelation(), first: Day(0), last: Day(1),
                    cursor: "",
                    limit: 10)),
            .request(
                ListNotReceivedRequest(
                    correlation: peer.nextCorrelation(), messageNumber: 1, cursor: "", limit: 10
                )),
        ]
    }

    @Test("REP-1 REP-2: a device may not ask, and stays connected")
    func roles() async throws {
        let test = try await TestBroker.open()
        let (device, _) = try test.newDevice()
        for question in Self.questions(device) {
            try device.send(question)
            #expect(try device.error().word == .permissionDenied)
        }
        try device.roundTrip()
        // An administrator without a project has none to ask about.
        let administrator = try test.peer()
        try administrator.send(
            .hello(
                .administrator(
                    administratorKey: test.broker.administratorKey, projectID: "")))
        _ = try administrator.welcome()
        for question in Self.questions(administrator) {
            try administrator.send(question)
            #expect(try administrator.error().word == .permissionDenied)
        }
        try await test.broker.close()
    }

    @Test(
        "REP-1: of a message that nobody sent there is no report, and how long there is one is said"
    )
    func unknown() async throws {
        let test = try await TestBroker.open {
            $0.limits.reportSeconds = 3600
            $0.limits.reportsPerProjectMax = 12
        }
        let sender = MartletSender(
            host: "127.0.0.1", port: Int(test.broker.port!), projectID: TestBroker.project,
            serverKey: test.serverKey)
        let id = "projects/tides/messages/7"
        func check(_ error: MartletError?) {
            #expect(error?.word == .notFound && error?.field == "message_id")
            for part in ["3600 seconds (report-seconds)", "last 12", "time to live of 0"] {
                #expect(error?.message.contains(part) == true)
            }
        }
        check(
            #expect(throws: MartletError.self) {
                try test.broker.report(of: id, in: TestBroker.project)
            })
        check(
            #expect(throws: MartletError.self) {
                try test.broker.notReceived(id, in: TestBroker.project)
            })
        check(await #expect(throws: MartletError.self) { try await sender.report(of: id) })
        check(await #expect(throws: MartletError.self) { try await sender.notReceived("7") })
        await sender.close()
        try await test.broker.close()
    }

    @Test("REP-3: a message that was accepted for nobody has a report")
    func nobody() async throws {
        let test = try await TestBroker.open()
        let sender = try test.sender()
        for condition in [MessageTarget.topic("nobody"), .condition("!('a' in topics)")] {
            let accepted = try sender.send(to: condition)
            #expect(accepted.recipients == 0)
            let report = try test.broker.report(
                of: "\(accepted.messageNumber)", in: TestBroker.project)
            #expect(report.counts.targeted == 0 && report.counts.pending == 0)
        }
        try await test.broker.close()
    }

    @Test("REP-1: where no reports are kept, that is said")
    func turnedOff() async throws {
        let test = try await TestBroker.open { $0.limits.reportSeconds = 0 }
        let error = #expect(throws: MartletError.self) {
            try test.broker.report(of: "7", in: TestBroker.project)
        }
        #expect(error?.word == .notFound && error?.message.contains("report-seconds is 0") == true)
        try await test.broker.close()
    }

    @Test("REP-1 REP-2: what is malformed is refused by its field, and the connection stays")
    func malformed() async throws {
        let test = try await TestBroker.open()
        let (broker, project) = (test.broker, TestBroker.project)
        for text in ["", "x", "0", "projects/other/messages/1", "9223372036854775808"] {
            let errors = [
                #expect(throws: MartletError.self) { try broker.report(of: text, in: project) },
                #expect(throws: MartletError.self) { try broker.notReceived(text, in: project) },
            ]
            for error in errors {
                #expect(error?.word == .invalidArgument && error?.field == "message_id")
            }
            let sent = await #expect(throws: MartletError.self) {
                try await broker.send(
                    OutgoingMessage(to: .topic("a"), Message(), notReceived: text), in: project)
            }
            #expect(sent?.word == .invalidArgument && sent?.field == "not_received")
        }
        let sender = try test.sender()
        func refusal(
            first: UInt32 = 1, last: UInt32 = 2, cursor: String = "", limit: UInt16 = 10
        ) throws -> String {
            try sender.send(
                .request(
                    ListDaysRequest(
                        correlation: sender.nextCorrelation(), first: Day(first),
                        last: Day(last),
                        cursor: cursor, limit: limit)))
            let error = try sender.error()
            #expect(error.word == .invalidArgument)
            return error.field
        }
        #expect(try refusal(first: 3) == "days")
        #expect(try refusal(last: 3661) == "days")
        #expect(try refusal(first: 0, last: .max) == "days")
        for cursor in ["1", "x", "1.x", "1.2.3", "-1.0", "4294967296.0", "."] {
            #expect(try refusal(cursor: cursor) == "cursor", "\(cursor)")
        }
        #expect(try refusal(limit: 0) == "limit")
        #expect(try refusal(limit: 1001) == "limit")
        for (cursor, limit) in [("x", 10), ("", 0), ("", 1001)] as [(String, UInt16)] {
            try sender.send(
                .request(
                    ListNotReceivedRequest(
                        correlation: sender.nextCorrelation(), messageNumber: 1, cursor: cursor,
                        limit: limit)))
            #expect(try sender.error().word == .invalidArgument)
        }
        // The widest there is; nothing was sent in these years.
        try sender.send(
            .request(
                ListDaysRequest(
                    correlation: sender.nextCorrelation(), first: Day(.max - 3659),
                    last: Day(.max), cursor: "", limit: 1000)))
        guard let page = try sender.next().answer(as: DayPage.self) else {
            Issue.record("no page of days")
            return
        }
        #expect(page.entries.isEmpty && page.nextCursor.isEmpty)
        #expect(throws: MartletError.self) { try broker.report(of: "1", in: "nobody") }
        #expect(throws: MartletError.self) {
            try broker.reports(days: Day(0)...Day(1), in: "nobody")
        }
        try await test.broker.close()
    }
}
