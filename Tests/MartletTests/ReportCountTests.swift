// SPDX-License-Identifier: Apache-2.0
//
// What is told of messages that were sent (REP-1, REP-2), over real sockets, by the client library and in
// this process: all are told the same, the sums hold, and pages are complete.

import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("Reports of what was sent", .timeLimit(.minutes(2)))
struct ReportCountTests {
    private let project = TestBroker.project

    private func client(_ test: TestBroker) -> MartletSender {
        MartletSender(
            host: "127.0.0.1", port: Int(test.broker.port!), projectID: project,
            serverKey: test.serverKey)
    }

    private func addsUp(_ counts: DeliveryCounts) -> Bool {
        counts.targeted == counts.outcomes + counts.pending
    }

    /// Asks until what connections have told is counted.
    private func report(
        _ test: TestBroker, _ id: String, _ isThere: (DeliveryCounts) -> Bool
    ) async throws -> DeliveryReport {
        var report = try test.broker.report(of: id, in: project)
        while !isThere(report.counts) {
            try await Task.sleep(for: .milliseconds(20))
            report = try test.broker.report(of: id, in: project)
        }
        return report
    }

    @Test("REP-1 REG-3: what a device acknowledges with its last breath was delivered")
    func leaves() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let sent = try sender.send(to: .token(credentials.token))
        let message = try device.message()
        var writer = WireWriter()
        ClientFrame.acknowledge(Acknowledge(through: message.streamID)).encode(into: &writer)
        ClientFrame.unregister(UnregisterRequest(correlation: 9)).encode(into: &writer)
        try device.send(raw: writer.bytes)
        try device.waitForEnd()
        let counts = try test.broker.report(
            of: MessageID.text(sent.messageNumber, projectID: project), in: project
        ).counts
        #expect(counts.acknowledged == 1 && counts.unregistered == 0 && addsUp(counts))
        sender.close()
        try await test.broker.close()
    }

    @Test("REP-1 RCP-2: no report has more that displayed or opened a message than it was sent to")
    func sentFirst() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open(loops: 1) { $0.clock = { clock.instant } }
        let today = Day(of: clock.instant)
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        for index in 1...20 as ClosedRange<UInt32> {
            let isStored = index % 2 == 0
            let day = try test.broker.reports(days: today...today, in: project)
                .entries.first?.counts
            let sent = try sender.send(
                to: .token(credentials.token), timeToLiveSeconds: isStored ? nil : 0,
                wantsReceipts: true)
            let message = try device.message()
            for kind in [ReceiptKind.displayed, .opened] {
                try device.send(
                    .receipt(
                        ReceiptRequest(
                            correlation: index, kind: kind, streamID: message.streamID)))
                try device.done()
            }
            let after = try #require(
                try test.broker.reports(days: today...today, in: project)
                    .entries.first?.counts)
            #expect(after.sent == (day?.sent ?? 0) + 1, "message \(index) of the day")
            #expect(after.displayed <= after.sent && after.sent <= after.targeted && addsUp(after))
            guard isStored else { continue }
            #expect(after.displayed == (day?.displayed ?? 0) + 1)
            let counts = try test.broker.report(
                of: MessageID.text(sent.messageNumber, projectID: project), in: project
            ).counts
            #expect(counts.sent == 1 && counts.displayed == 1 && counts.opened == 1)
        }
        try await test.broker.close()
    }

    @Test(
        "REP-1 REP-2: one has it, one is away, one is rate-limited; those that miss it get the next one, and nobody else does"
    )
    func life() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open {
            $0.clock = { clock.instant }
            $0.limits.deviceMessagesPerMinute = 2
        }
        let devices = try (0..<3).map { _ in try test.newDevice() }
        let tokens = devices.map(\.credentials.token)
        for device in devices { #expect(try device.peer.subscribe("storm").successes == 1) }
        devices[1].peer.close()
        let sender = try test.sender()
        for _ in 0..<2 {
            try sender.send(to: .token(tokens[2]))
            let message = try devices[2].peer.message()
            try devices[2].peer.acknowledge(through: message.streamID)
        }
        let sent = try sender.send(to: .topic("storm"), n: "storm")
        #expect(sent.recipients == 2 && sent.rateLimited == 1)
        let id = MessageID.text(sent.messageNumber, projectID: project)
        let message = try devices[0].peer.message()
        #expect(try test.broker.report(of: id, in: project).counts.pending == 2)
        try devices[0].peer.acknowledge(through: message.streamID)

        let told = try await report(test, id) { $0.acknowledged == 1 && $0.sent == 1 }
        #expect(told.messageID == id && told.accepted == clock.instant)
        #expect(told.counts.targeted == 3 && told.counts.rateLimited == 1)
        #expect(told.counts.pending == 1 && told.unsettledCount == 0 && addsUp(told.counts))
        let remote = client(test)
        #expect(try await remote.report(of: "\(sent.messageNumber)") == told)

        let missing = [tokens[1], tokens[2]]
        var paged: [String] = []
        var cursor: String? = ""
        while let after = cursor {
            let page = try test.broker.notReceived(id, in: project, after: after, limit: 1)
            #expect(page.entries.count == 1)
            paged += page.entries
            cursor = page.next
        }
        #expect(paged == missing)
        let page = try await remote.notReceived(id)
        #expect(page.entries == missing && page.next == nil)

        clock.advance(seconds: 60)
        var again = OutgoingMessage(
            to: .topic("storm"), Message(data: ["n": "again"]), notReceived: id)
        #expect(try await remote.send(again).recipientCount == 2)
        #expect(try devices[2].peer.number() == "again")
        let back = try test.connect(devices[1].credentials)
        #expect(try back.number() == "storm")
        #expect(try back.number() == "again")
        #expect(!devices[0].peer.hasMore(milliseconds: 50))
        // Whoever comes later was not meant by the first one.
        let late = try test.newDevice()
        #expect(try late.peer.subscribe("storm").successes == 1)
        again.validateOnly = true
        #expect(try await test.broker.send(again, in: project).recipientCount == 2)
        // REG-3
        try await test.broker.unregister(tokens[2], in: project)
        #expect(try test.broker.notReceived(id, in: project).entries == [tokens[1]])
        await remote.close()
        try await test.broker.close()
    }

    @Test(
        "REP-1 RCP-2: what is displayed and opened counts once, also if nobody asked for receipts")
    func told() async throws {
        let test = try await TestBroker.open()
        let device = try test.newDevice()
        let sender = try test.sender()
        let sent = try sender.send(to: .token(device.credentials.token))
        let id = MessageID.text(sent.messageNumber, projectID: project)
        let message = try device.peer.message()
        for kind in [ReceiptKind.displayed, .displayed, .opened] {
            try device.peer.send(
                .receipt(ReceiptRequest(correlation: 7, kind: kind, streamID: message.streamID)))
            try device.peer.done()
        }
        let counts = try test.broker.report(of: id, in: project).counts
        #expect(counts.displayed == 1 && counts.opened == 1 && addsUp(counts))
        try await test.broker.close()
    }

    @Test("REP-2: after a message without a report nobody is asked again")
    func noReport() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        let credentials = try await test.broker.register(
            app: "com.example.tides", platform: .web, in: project)
        let none = try await test.broker.send(
            OutgoingMessage(to: .token(credentials.token), Message(), timeToLiveSeconds: 0),
            in: project)
        for earlier in ["99", try #require(none.messageID)] {
            let error = await #expect(throws: MartletError.self) {
                try await test.broker.send(
                    OutgoingMessage(
                        to: .token(credentials.token), Message(), notReceived: earlier),
                    in: project)
            }
            #expect(error?.word == .notFound && error?.field == "not_received")
        }
        #expect(throws: MartletError.self) {
            try test.broker.report(of: none.messageID ?? "", in: project)
        }
        // It is counted in its day all the same.
        let today = Day(of: clock.instant)
        let days = try test.broker.reports(days: today.before(1)...today, in: project)
        #expect(days.entries.map(\.counts.nowOrNever) == [1])
        try await test.broker.close()
    }

    @Test(
        "REP-1: days and apps come in order, in pages of any size, and by the wire as in this process"
    )
    func days() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        for app in ["com.example.b", "com.example.a"] {
            for platform in Platform.allCases {
                let credentials = try await test.broker.register(
                    app: app, platform: platform, in: project)
                _ = try await test.broker.subscribe([credentials.token], to: "storm", in: project)
            }
        }
        let first = Day(of: clock.instant)
        for day in 0..<3 {
            for _ in 0...day {
                _ = try await test.broker.send(
                    OutgoingMessage(to: .topic("storm"), Message(data: ["n": "1"])), in: project)
            }
            // The second day after has none.
            clock.advance(seconds: day == 0 ? 2 * 86_400 : 86_400)
        }
        let last = Day(of: clock.instant)
        let all = try test.broker.reports(days: first...last, in: project)
        #expect(all.next == nil && all.entries.count == 18)
        #expect(all.entries.allSatisfy { addsUp($0.counts) })
        #expect(
            all.entries.map { $0.day.rawValue - first.rawValue }
                == [0, 2, 3].flatMap { [UInt32](repeating: $0, count: 6) })
        #expect(
            all.entries.map(\.counts.targeted)
                == [1, 2, 3].flatMap { [UInt64](repeating: $0, count: 6) })
        #expect(Set(all.entries.map { $0.app + $0.platform.name }).count == 6)
        let remote = client(test)
        for limit in [1, 5, 18, 19] {
            var entries: [DailyCounts] = []
            var cursor: String? = ""
            while let after = cursor {
                let page = try await remote.reports(
                    days: first...last, after: after, limit: limit)
                #expect(page.entries.count <= limit)
                entries += page.entries
                cursor = page.next
            }
            #expect(entries == all.entries)
        }
        let one = try test.broker.reports(days: first...first, in: project)
        #expect(one.entries == Array(all.entries[..<6]))
        await remote.close()
        try await test.broker.close()
    }

    @Test("REP-1: so many reports are kept, the latest ones; days lose nothing by that")
    func latest() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open {
            $0.clock = { clock.instant }
            $0.limits.reportsPerProjectMax = 2
        }
        let token = try await test.broker.register(
            app: "com.example.tides", platform: .web, in: project
        ).token
        for n in ["1", "2", "3"] {
            _ = try await test.broker.send(
                OutgoingMessage(to: .token(token), Message(data: ["n": n])), in: project)
        }
        let error = #expect(throws: MartletError.self) {
            try test.broker.report(of: "1", in: project)
        }
        #expect(error?.word == .notFound && error?.message.contains("the last 2") == true)
        for number in ["2", "3"] {
            #expect(try test.broker.report(of: number, in: project).counts.pending == 1)
            #expect(try test.broker.notReceived(number, in: project).entries == [token])
        }
        let today = Day(of: clock.instant)
        let days = try test.broker.reports(days: today...today, in: project)
        #expect(days.entries.map(\.counts.targeted) == [3])
        try await test.broker.close()
    }

    @Test("REP-1 NET-3: a page of the longest names fits into a frame, and says that there is more")
    func longNames() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        let first = Day(of: clock.instant)
        var tokens: [String] = []
        for index in 0..<200 {
            let name = "a\(index)" + String(repeating: "-", count: 250)
            tokens.append(
                try await test.broker.register(
                    app: String(name.prefix(Limits.appNameBytesMax)), platform: .apple, in: project
                ).token)
        }
        _ = try await test.broker.subscribe(tokens, to: "storm", in: project)
        for _ in 0..<4 {
            _ = try await test.broker.send(
                OutgoingMessage(to: .topic("storm"), Message()), in: project)
            clock.advance(seconds: 86_400)
        }
        let remote = client(test)
        let days = first...Day(of: clock.instant)
        let page = try await remote.reports(days: days)
        #expect((500..<800).contains(page.entries.count))
        let rest = try await remote.reports(days: days, after: try #require(page.next))
        #expect(rest.next == nil && page.entries.count + rest.entries.count == 800)
        await remote.close()
        try await test.broker.close()
    }
}
