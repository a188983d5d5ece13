// SPDX-License-Identifier: Apache-2.0
//
// Quotas of a project as users of the `martlet` executable meet them: limits of `serve`, `martlet
// quotas`, and a device that asks for its topics again. Rests on Desk.

import Foundation
import Testing

private struct Quota: Decodable, Equatable {
    var quota: String
    var limit: UInt64
    var remaining: UInt64
    var untilFullMilliseconds: UInt64?
}

@Suite("martlet quotas", .timeLimit(.minutes(3)))
struct QuotaCommandTests {
    private func quotas(_ desk: Desk, _ more: String...) throws -> [Quota] {
        let output = desk.finish(
            try desk.start(["quotas", "--project", "tides", "--json"] + more))
        #expect(output.status == 0, "\(output.err)")
        return try JSONDecoder().decode([Quota].self, from: Data(output.out.utf8))
    }

    private func key(_ desk: Desk) throws -> String {
        struct Key: Decodable { var key: String }
        let output = try desk.run("key", "create", "--project", "tides", "--json")
        return try JSONDecoder().decode(Key.self, from: Data(output.out.utf8)).key
    }

    @Test(
        "QUO-3 QUO-4 OPS-1 what is left of each quota, from the folder, its broker and as a sender")
    func amounts() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        // Nobody serves it: all of it is there.
        let all = try quotas(desk)
        #expect(
            all.map(\.quota) == [
                "topic-changes-per-second", "registrations-per-second", "upstream-per-minute",
                "sender-connections-per-minute", "sender-connections-max",
                "fanouts-in-progress",
            ])
        #expect(
            all.map(\.limit) == [3000, 3000, 1_500_000, 400, 2500, 1000]
                && all.map(\.remaining) == all.map(\.limit))
        #expect(all.allSatisfy { $0.untilFullMilliseconds == 0 })

        let (broker, port) = try desk.serve([
            "--limit", "sender-connections-per-minute=2", "--limit", "topic-changes-per-second=0",
            "--limit", "upstream-per-minute=0", "--limit", "registrations-per-second=0",
        ])
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        let key = try key(desk)
        #expect(try quotas(desk).map(\.remaining) == [2, 2500, 1000])
        let own = try quotas(desk, "--key", key, "--port", port)
        try #require(own.map(\.limit) == [2, 2500, 1000])
        #expect(own.map(\.remaining) == [1, 2499, 1000])
        #expect(own[1].untilFullMilliseconds == nil)
        let text = try desk.run("quotas", "--project", "tides", "--key", key, "--port", port)
        #expect(text.out.contains("FULL AGAIN") && text.out.contains("when they end"))
        let third = try desk.run("topics", "--project", "tides", "--key", key, "--port", port)
        #expect(third.status == 1 && third.err.contains("RESOURCE_EXHAUSTED"))
        #expect(third.err.contains("sender-connections-per-minute"))
    }

    @Test("DEV-2 a device's topics are in its state, and said again at its next start")
    func remembers() throws {
        struct Kept: Codable {
            struct Topics: Codable {
                var subscriptions: [String]
                var unsubscriptions: [String]
            }
            var project: String
            var app: String
            var platform: String
            var token: String
            var deviceKey: String
            var unconfirmed: [UInt64]
            var topics: Topics?
        }
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        let device = [
            "listen", "--project", "tides", "--app", "com.example.tides", "--port", port,
            "--state", "phone.json", "--json", "--timeout", "60",
        ]
        let first = try desk.start(device + ["--topic", "storms"])
        _ = desk.firstLine(first)
        first.terminate()
        #expect(desk.finish(first).status == 0)
        let path = desk.folder.appending(path: "phone.json")
        var kept = try JSONDecoder().decode(Kept.self, from: try Data(contentsOf: path))
        #expect(kept.topics?.subscriptions == ["storms"])
        // What the broker has not heard by the time the application ends.
        kept.topics = .init(subscriptions: ["tides", "storms"], unsubscriptions: [])
        try JSONEncoder().encode(kept).write(to: path)
        let second = try desk.start(device + ["--topic", "now"])
        _ = desk.firstLine(second)
        second.terminate()
        #expect(desk.finish(second).status == 0)
        // Said before what is asked for now, on one connection.
        let topics = try desk.run("topics", "--project", "tides", "--token", kept.token, "--json")
        for topic in ["now", "storms", "tides"] { #expect(topics.out.contains(topic)) }
    }
}
