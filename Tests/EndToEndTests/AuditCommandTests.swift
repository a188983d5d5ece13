// SPDX-License-Identifier: Apache-2.0
//
// Commands that change something are in the log of administrators' actions (GW-9), whether a broker serves the folder or not.
// Rests on Desk.

import Foundation
import Testing

@Suite("Commands: the log of actions")
struct AuditCommandTests {
    private struct Page: Decodable {
        struct Entry: Decodable {
            var who: String
            var from: String
            var project: String?
            var action: String
            var what: String
        }

        var entries: [Entry]
    }

    private struct Key: Decodable {
        var keyID: String
        var key: String
    }

    private struct Group: Decodable {
        var key: String
    }

    private func decoded<Value: Decodable>(
        _ kind: Value.Type, _ desk: Desk, _ arguments: String...
    ) throws -> Value {
        let done = desk.finish(try desk.start(arguments + ["--json"]))
        #expect(done.status == 0, "\(arguments): \(done.err)")
        return try JSONDecoder().decode(kind, from: Data(done.out.utf8))
    }

    private func must(_ desk: Desk, _ arguments: String...) throws {
        let done = desk.finish(try desk.start(arguments))
        #expect(done.status == 0, "\(arguments): \(done.err)")
    }

    private func end(_ process: Process) {
        process.terminate()
        process.waitUntilExit()
    }

    /// Actions since the beginning, the oldest first.
    private func actions(_ desk: Desk) throws -> [Page.Entry] {
        try decoded(Page.self, desk, "audit", "--limit", "1000").entries.reversed()
    }

    @Test(
        "GW-9 each changing command writes a line, and questions and senders with a key write none",
        arguments: [false, true])
    func lines(isServed: Bool) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let inTides = ["--project", "tides"]
        try must(desk, "project", "create", "tides")
        let served = isServed ? try desk.serve() : nil
        defer { if let served { end(served.process) } }
        try must(desk, "project", "set", "tides", "--weight", "3", "--registration", "open")
        try must(
            desk, "app", "create", "com.example.tides", "--platform", "web", "--project", "tides")
        let key = try decoded(Key.self, desk, "key", "create", "--project", "tides")
        let other = try decoded(Key.self, desk, "registration-key", "create", "--project", "tides")
        try must(desk, "registration-key", "revoke", other.keyID, "--project", "tides")
        try must(
            desk, "service-account", "create", "--project", "tides", "--output", "account.json")
        try must(
            desk, "send", "--project", "tides", "--topic", "rain", "--title", "Secret words")
        try must(
            desk, "send", "--project", "tides", "--topic", "rain", "--title", "x", "--validate-only"
        )
        for question in [["topics"], ["quotas"], ["audience", "'rain' in topics"]] {
            let done = desk.finish(try desk.start(question + inTides))
            #expect(done.status == 0, "\(done.err)")
        }
        var expected = [
            "project.create", "project.change", "app.create", "key.create",
            "registration-key.create", "registration-key.revoke", "service-account.create",
            "message.send",
        ]
        if let served {
            // A sender with a key is no administrator.
            try must(
                desk, "send", "--key", key.key, "--port", served.port, "--project", "tides",
                "--topic", "rain", "--title", "x")
        }
        try must(desk, "key", "revoke", key.keyID, "--project", "tides")
        try must(
            desk, "app", "delete", "com.example.tides", "--platform", "web", "--project", "tides")
        expected += ["server-key.revoke", "app.delete"]
        let entries = try actions(desk)
        try #require(entries.map(\.action) == expected)
        #expect(entries.allSatisfy { $0.who == "command" && $0.from == "this machine" })
        #expect(entries.allSatisfy { $0.project == "tides" })
        #expect(entries[1].what == "weight 3, registration open")
        let text = try String(
            contentsOf: desk.folder.appending(path: "martlet-data/audit.log"), encoding: .utf8)
        for secret in [key.key, other.key, "Secret words"] { #expect(!text.contains(secret)) }
    }

    @Test("GW-9 changes of devices, topics and groups by commands are in the log")
    func devices() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try must(desk, "project", "create", "tides")
        let (broker, port) = try desk.serve()
        defer { end(broker) }
        let listening = try desk.start([
            "listen", "--project", "tides", "--app", "com.example.tides", "--port", port, "--state",
            "device.json",
        ])
        let line = desk.firstLine(listening)
        let token = String(line.split(whereSeparator: \.isWhitespace).last ?? "")
        end(listening)
        try must(desk, "subscribe", "rain", "--token", token, "--project", "tides")
        try must(desk, "unsubscribe", "rain", "--token", token, "--project", "tides")
        let group = try decoded(
            Group.self, desk, "group", "create", "few", "--token", token, "--project", "tides")
        try must(
            desk, "group", "add", "few", "--group-key", group.key, "--token", token, "--project",
            "tides")
        try must(
            desk, "group", "remove", "few", "--group-key", group.key, "--token", token, "--project",
            "tides")
        try must(desk, "unregister", "--token", token, "--project", "tides")
        let refused = desk.finish(
            try desk.start(["unregister", "--token", token, "--project", "tides"]))
        #expect(refused.status == 1)
        let entries = try actions(desk).dropFirst()
        #expect(
            entries.map(\.action) == [
                "topic.subscribe", "topic.unsubscribe", "group.create", "group.add",
                "group.remove", "device.unregister",
            ])
        #expect(entries.last?.what == token)
    }
}
