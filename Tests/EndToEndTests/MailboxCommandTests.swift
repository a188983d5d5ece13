// SPDX-License-Identifier: Apache-2.0
//
// What happens to a message while its device is away, as users of the `martlet` executable see it: each
// option of `send`, then `listen` again. A last, plain message ends each run, so that whatever came
// without being due would have been counted before it. Rests on Desk.

import Foundation
import MartletClient
import MartletWire
import Testing

/// A device of these tests: one state file of `martlet listen`.
private struct Handset {
    var name = "phone"
    var app = "com.example.tides"
    var platform = "android"
    var topics: [String] = []

    var state: String { name + ".json" }
}

/// A line of `martlet listen --json`.
private struct Line: Decodable {
    struct Notification: Decodable {
        var title: String?
    }

    var event: String
    var token: String?
    var messageID: String?
    var stored: Bool?
    var priority: String?
    var accepted: Int64?
    var expires: Int64?
    var notification: Notification?
    var data: [String: String]?
    var options: [String: String]?
    var apns: String?
    var count: UInt64?

    /// What tells the messages of a test apart.
    var n: String { data?["n"] ?? notification?.title ?? event }
}

private struct Answer: Decodable {
    var messageID: String?
    var recipients: UInt64
}

/// A broker with a project `tides`, and devices that come and go.
private final class Harbour {
    let desk: Desk
    let broker: Process
    let port: String

    init(limits: [String] = []) throws {
        desk = try Desk()
        _ = try desk.run("project", "create", "tides")
        (broker, port) = try desk.serve(limits.flatMap { ["--limit", $0] })
    }

    deinit {
        if broker.isRunning {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        desk.remove()
    }

    func start(_ handset: Handset, _ more: [String]) throws -> Process {
        try desk.start(
            [
                "listen", "--project", "tides", "--app", handset.app, "--platform",
                handset.platform, "--state", handset.state, "--port", port, "--json", "--timeout",
                "60",
            ] + handset.topics.flatMap { ["--topic", $0] } + more)
    }

    /// The device registers, subscribes and leaves.
    /// - Returns: its token.
    func install(_ handset: Handset) throws -> String {
        let process = try start(handset, [])
        let ready = try JSONDecoder().decode(
            Line.self, from: Data(desk.firstLine(process).utf8))
        process.terminate()
        #expect(desk.finish(process).status == 0)
        return try #require(ready.token)
    }

    /// What a device prints until it has got so many messages.
    func receive(_ handset: Handset, _ count: Int, _ more: String...) throws -> [Line] {
        let ended = desk.finish(try start(handset, ["--count", "\(count)"] + more))
        #expect(ended.status == 0, "\(ended.err)")
        return try lines(ended.out)
    }

    func lines(_ text: String) throws -> [Line] {
        try text.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }.filter { $0.event != "ready" }
    }

    @discardableResult
    func send(_ arguments: String...) throws -> Answer {
        let output = desk.finish(
            try desk.start(["send", "--project", "tides", "--json"] + arguments))
        #expect(output.status == 0, "\(output.err)")
        return try JSONDecoder().decode(Answer.self, from: Data(output.out.utf8))
    }

    /// What a refused command says on standard error.
    func refusal(_ arguments: String...) throws -> String {
        let output = desk.finish(try desk.start(arguments))
        #expect(output.status == 1 && output.out.isEmpty)
        return output.err
    }

    func cancel(_ id: String?) throws -> String {
        let output = try desk.run("cancel", "--project", "tides", try #require(id))
        return output.out + output.err
    }

    /// Who a device is, as its state file says.
    func kept(_ handset: Handset) throws -> DeviceCredentials {
        struct Kept: Decodable {
            var token: String
            var deviceKey: String
        }
        let kept = try JSONDecoder().decode(
            Kept.self, from: Data(contentsOf: desk.folder.appending(path: handset.state)))
        return DeviceCredentials(
            projectID: "tides", token: kept.token, deviceKey: kept.deviceKey)
    }
}

@Suite(.timeLimit(.minutes(5)))
struct MailboxCommandTests {
    @Test("TTL-2 TTL-3 what has expired is not delivered; now or never is for who is connected")
    func lifespans() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        try harbour.send("--token", token, "--data", "n=short", "--ttl", "1")
        try harbour.send("--token", token, "--data", "n=away", "--ttl", "0")
        Thread.sleep(forTimeInterval: 1.2)
        try harbour.send("--token", token, "--data", "n=last")
        let stored = try harbour.receive(phone, 1)
        #expect(stored.map(\.n) == ["last"] && stored.first?.stored == true)

        let process = try harbour.start(phone, ["--count", "1"])
        _ = harbour.desk.firstLine(process)
        try harbour.send("--token", token, "--data", "n=now", "--ttl", "0")
        let live = try harbour.lines(harbour.desk.finish(process).out)
        #expect(live.map(\.n) == ["now"] && live.first?.stored == false)
    }

    @Test("COL-1 COL-2 the last message of a key is left, and the last notification of an app")
    func collapsing() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        for number in 1...3 {
            try harbour.send(
                "--token", token, "--data", "n=key \(number)", "--collapse-key", "level")
            try harbour.send("--token", token, "--title", "title \(number)")
        }
        try harbour.send("--token", token, "--data", "n=last")
        #expect(try harbour.receive(phone, 3).map(\.n) == ["key 3", "title 3", "last"])
    }

    @Test("STO-1 101 stored messages are discarded, which the device is told once")
    func discards() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        let key = try harbour.desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let client = try WireClient(port: try #require(UInt16(harbour.port)))
        #expect(try client.hello(.sender(projectID: "tides", serverKey: key)))
        for number in 1...101 as ClosedRange<UInt32> {
            client.send(
                SendRequest(
                    correlation: number, target: .token(token),
                    message: try Message(data: ["n": "\(number)"]).encoded()))
            guard case .accepted = try client.receive() else {
                Issue.record("message \(number) was not accepted")
                return
            }
        }
        try harbour.send("--token", token, "--data", "n=102")
        let lines = try harbour.receive(phone, 1)
        #expect(lines.map(\.n) == ["deleted", "102"])
        #expect(lines.first?.count == 101)
        try harbour.send("--token", token, "--data", "n=103")
        #expect(try harbour.receive(phone, 1).map(\.n) == ["103"])
    }

    @Test("STO-1 OPS-2 a limit of serve holds; a name or a value that is none is refused")
    func limits() throws {
        let harbour = try Harbour(limits: ["stored-per-instance-max=2"])
        let phone = Handset()
        let token = try harbour.install(phone)
        for number in 1...4 { try harbour.send("--token", token, "--data", "n=\(number)") }
        let lines = try harbour.receive(phone, 1)
        #expect(lines.map(\.n) == ["deleted", "4"] && lines.first?.count == 3)
        for wrong in [
            "stored=2", "stored-per-instance-max", "stored-per-instance-max=",
            "stored-per-instance-max=-1", "stored-per-instance-max=many", "=2",
        ] {
            let refused = try harbour.desk.run("serve", "--port", "0", "--limit", wrong)
            // A wrong value gets the bounds of its limit, a wrong name the list of names.
            let hint =
                wrong.hasPrefix("stored-per-instance-max")
                ? "takes a whole number from 0 to" : "collapsible-burst"
            #expect(refused.status == 64 && refused.err.contains(hint), "\(wrong)")
        }
    }

    @Test("PRI-1 PRI-2 a dozing device gets what is urgent at once, the rest when it wakes")
    func dozes() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        try harbour.send("--token", token, "--data", "n=normal", "--priority", "normal")
        try harbour.send("--token", token, "--data", "n=high", "--priority", "high")
        let urgent = try harbour.receive(phone, 1, "--device-state", "doze")
        #expect(urgent.map(\.n) == ["high"] && urgent.first?.priority == "high")
        try harbour.send("--token", token, "--data", "n=urgent", "--priority", "high")
        let lines = try harbour.receive(phone, 2, "--doze-seconds", "1")
        #expect(lines.map(\.n) == ["urgent", "normal"])
    }

    private static let blocks = #"""
        {"message": {"topic": "storms", "notification": {"title": "Storm"}, "data": {"level": "3"},
          "android": {"ttl": "4500s", "priority": "high", "notification": {"icon": "wave"}},
          "apns": {"headers": {"apns-priority": "5"}, "payload": {
            "aps": {"badge": 2, "alert": {"title": "Sturm"}}, "harbour": {"pier": 7}}},
          "webpush": {"headers": {"Urgency": "high", "TTL": "60"}, "data": {"level": "4"},
            "fcm_options": {"link": "https://example.com/"}}}}
        """#

    @Test("MSG-5 TTL-1 PRI-1 each platform gets the message with its own block, and no other's")
    func platforms() throws {
        let harbour = try Harbour()
        let handsets = ["android", "apple", "web"].map {
            Handset(name: $0, platform: $0, topics: ["storms"])
        }
        for handset in handsets { _ = try harbour.install(handset) }
        try Data(Self.blocks.utf8).write(to: harbour.desk.folder.appending(path: "message.json"))
        #expect(try harbour.send("--file", "message.json").recipients == 3)
        let got = try handsets.map { try #require(try harbour.receive($0, 1).first) }
        let (android, apple, web) = (got[0], got[1], got[2])

        #expect(android.notification?.title == "Storm" && android.data == ["level": "3"])
        #expect(android.options == ["icon": "wave"] && android.apns == nil)
        #expect(android.priority == "high")
        #expect(try #require(android.expires) - #require(android.accepted) == 4_500_000)

        struct Payload: Decodable, Equatable {
            struct Aps: Decodable, Equatable {
                struct Alert: Decodable, Equatable {
                    var title: String
                }
                var alert: Alert
                var badge: Int
            }
            struct Place: Decodable, Equatable {
                var pier: Int
            }
            var aps: Aps
            var harbour: Place
            var level: String
        }
        #expect(apple.notification?.title == "Sturm" && apple.priority == "normal")
        #expect(apple.options == nil && apple.data == ["level": "3"])
        let payload = try JSONDecoder().decode(
            Payload.self, from: Data(try #require(apple.apns).utf8))
        #expect(
            payload
                == Payload(
                    aps: .init(alert: .init(title: "Sturm"), badge: 2), harbour: .init(pier: 7),
                    level: "3"))

        #expect(web.notification?.title == "Storm" && web.data == ["level": "4"])
        #expect(web.options == ["link": "https://example.com/"] && web.apns == nil)
        #expect(web.priority == "high")
        #expect(try #require(web.expires) - #require(web.accepted) == 60_000)
    }

    @Test("MSG-8 a restricted package name leaves out every other app")
    func restricts() throws {
        let harbour = try Harbour()
        let tides = Handset(name: "tides", topics: ["storms"])
        let ferries = Handset(name: "ferries", app: "com.example.ferries", topics: ["storms"])
        _ = try harbour.install(tides)
        _ = try harbour.install(ferries)
        let sent = try harbour.send(
            "--topic", "storms", "--data", "n=ferries", "--restricted-package-name", ferries.app)
        #expect(sent.recipients == 1)
        try harbour.send("--topic", "storms", "--data", "n=last")
        #expect(try harbour.receive(tides, 1).map(\.n) == ["last"])
        #expect(try harbour.receive(ferries, 2).map(\.n) == ["ferries", "last"])
    }

    @Test("MSG-9 a key that is repeated is one message, with one ID")
    func repeats() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        let ids = try (1...2).map { _ in
            try harbour.send(
                "--token", token, "--data", "n=once", "--idempotency-key", "k1"
            ).messageID
        }
        #expect(ids[0] != nil && ids[0] == ids[1])
        #expect(
            try harbour.refusal(
                "send", "--project", "tides", "--token", token, "--data", "n=other",
                "--idempotency-key", "k1"
            ).contains("idempotency_key"))
        try harbour.send("--token", token, "--data", "n=last")
        #expect(try harbour.receive(phone, 2).map(\.n) == ["once", "last"])
    }

    @Test("MSG-10 a message for later comes then, and one that was cancelled does not")
    func schedules() throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        let cancelled = try harbour.send("--token", token, "--data", "n=cancelled", "--at", "+4s")
        #expect(try harbour.cancel(cancelled.messageID) == "cancelled; it had not been sent\n")
        #expect(try harbour.cancel(cancelled.messageID).contains("NOT_FOUND"))
        let before = Date.now.timeIntervalSince1970 * 1000
        let later = try harbour.send("--token", token, "--data", "n=later", "--at", "+4s")
        let lines = try harbour.receive(phone, 1)
        #expect(lines.map(\.n) == ["later"] && lines.first?.messageID == later.messageID)
        #expect(Double(try #require(lines.first?.accepted)) >= before + 4000)
        try harbour.send("--token", token, "--data", "n=last")
        #expect(try harbour.receive(phone, 1).map(\.n) == ["last"])
    }

    @Test("MSG-10 cancelling says how many have the message; the others do not get it")
    func cancels() throws {
        let harbour = try Harbour()
        let here = Handset(name: "here", topics: ["storms"])
        let away = Handset(name: "away", topics: ["storms"])
        _ = try harbour.install(here)
        _ = try harbour.install(away)
        let sent = try harbour.send("--topic", "storms", "--data", "n=wrong")
        #expect(try harbour.receive(here, 1).map(\.n) == ["wrong"])
        #expect(try harbour.cancel(sent.messageID) == "cancelled; 1 instance has it already\n")
        try harbour.send("--topic", "storms", "--data", "n=last")
        for handset in [here, away] {
            #expect(try harbour.receive(handset, 1).map(\.n) == ["last"])
        }
    }

    @Test("RCP-1 RCP-2 receipts that were told while no sender was there are printed, once")
    func receipts() throws {
        struct Told: Decodable, Equatable {
            var messageID: String
            var token: String
            var kind: String
        }
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        for number in 1...2 {
            let sent = try harbour.send("--token", token, "--data", "n=\(number)", "--receipts")
            try harbour.send("--token", token, "--data", "n=silent")
            _ = try harbour.receive(phone, 2)
            let printed = try harbour.desk.run(
                "receipts", "--project", "tides", "--count", "2", "--json")
            #expect(printed.status == 0, "\(printed.err)")
            let told = try printed.out.split(separator: "\n").map {
                try JSONDecoder().decode(Told.self, from: Data($0.utf8))
            }
            let id = try #require(sent.messageID)
            #expect(
                told
                    == ["received", "displayed"].map {
                        Told(messageID: id, token: token, kind: $0)
                    })
        }
    }

    @Test("REG-4 after a rotation the old token is UNREGISTERED, and the mailbox is still there")
    func rotates() throws {
        struct Rotated: Decodable {
            var token: String
        }
        let harbour = try Harbour()
        let phone = Handset(topics: ["storms"])
        let old = try harbour.install(phone)
        try harbour.send("--token", old, "--data", "n=before")
        let rotated = try harbour.desk.run(
            "rotate", phone.state, "--port", harbour.port, "--json")
        #expect(rotated.status == 0, "\(rotated.err)")
        let new = try JSONDecoder().decode(Rotated.self, from: Data(rotated.out.utf8)).token
        #expect(new != old)
        #expect(try harbour.kept(phone).token == new)
        #expect(
            try harbour.refusal("send", "--project", "tides", "--token", old)
                .contains("UNREGISTERED"))
        try harbour.send("--token", new, "--data", "n=token")
        try harbour.send("--topic", "storms", "--data", "n=topic")
        #expect(try harbour.receive(phone, 3).map(\.n) == ["before", "token", "topic"])
    }

    @Test("REG-3 who is unregistered is UNREGISTERED to senders and to itself")
    func unregisters() async throws {
        let harbour = try Harbour()
        let phone = Handset()
        let token = try harbour.install(phone)
        let device = MartletDevice(
            host: "127.0.0.1", port: try #require(Int(harbour.port)),
            credentials: try harbour.kept(phone))
        try await device.unregister()
        #expect(
            try harbour.refusal("send", "--project", "tides", "--token", token)
                .contains("UNREGISTERED"))
        let ended = harbour.desk.finish(try harbour.start(phone, []))
        #expect(ended.status == 1 && ended.err.contains("UNREGISTERED"))
        // What to do about it.
        #expect(ended.err.contains("phone.json"))
    }

    @Test("REG-6 another project's token is SENDER_ID_MISMATCH")
    func mismatches() throws {
        let harbour = try Harbour()
        let token = try harbour.install(Handset())
        _ = try harbour.desk.run("project", "create", "other")
        #expect(
            try harbour.refusal("send", "--project", "other", "--token", token)
                .contains("SENDER_ID_MISMATCH"))
    }
}
