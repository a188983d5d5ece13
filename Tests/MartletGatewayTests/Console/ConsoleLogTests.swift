// SPDX-License-Identifier: Apache-2.0
//
// The log of actions (GW-9): what is in it, what is not, and who can push entries out. Rests on ConsoleWorld.

import Foundation
import Martlet
import MartletAnswers
import MartletGateway
import Testing

import MartletConsole

@Suite("Console: the log of actions")
struct ConsoleLogTests {
    private static func entry(_ who: String, _ action: String, _ what: String = "d") -> AuditEntry {
        AuditEntry(
            at: Instant(millisecondsSince1970: 0), who: who, from: "b", project: nil,
            action: action, what: what)
    }

    private static func newLog() throws -> (AuditLog, URL, TestFolder) {
        let folder = TestFolder()
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        return (
            AuditLog(in: folder.url.path), folder.url.appending(path: "audit.log"), folder
        )
    }

    @Test("GW-9 the log tells who did what, and no key")
    func log() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.administrator)
            let made = try world.json(
                await world.call(
                    .post, "projects/tides/keys/server", body: #"{"name":"<b>till</b>"}"#,
                    as: browser))
            let answer = await world.call(.get, "log", as: browser)
            guard case .array(let entries)? = try world.json(answer)["entries"] else {
                return #expect(Bool(false))
            }
            #expect(entries.first?["action"]?.string == "key.create")
            #expect(entries.first?["what"]?.string == made["keyID"]?.string)
            #expect(entries.first?["who"]?.string == "administrator.all")
            let key = try #require(made["key"]?.string)
            #expect(!String(decoding: answer.body, as: UTF8.self).contains(key))
        }
    }

    @Test("GW-9 a person who acts very often pushes out no entry of another person or action")
    func shares() throws {
        let (log, file, folder) = try Self.newLog()
        defer { withExtendedLifetime(folder) {} }
        try log.append(Self.entry("ann", "key.create"))
        try log.append(Self.entry("till", "message.send"))
        try log.append(Self.entry("till", "topic.subscribe"))
        let lines = try Data(contentsOf: file)
        let line = try #require(lines.split(separator: UInt8(ascii: "\n")).last)
        var full = lines
        while full.count < Limits.auditFileBytesMax { full += line + [UInt8(ascii: "\n")] }
        try full.write(to: file)
        try log.append(Self.entry("till", "topic.subscribe", "the last"))
        let size = try Data(contentsOf: file).count
        #expect((Limits.auditFileBytesMax / 4...Limits.auditFileBytesMax / 2 + 1000).contains(size))
        let newest = log.page(project: nil, before: nil, limit: 1).entries.first
        #expect(newest?.what == "the last" && newest?.number == 4)
        for (who, action) in [("ann", "key.create"), ("till", "message.send")] {
            let found = log.page(project: nil, action: action, before: nil, limit: 10).entries
            #expect(found.map(\.who) == [who])
        }
    }

    @Test("GW-9 an entry that a crash has cut is left out, and the next begins a line of its own")
    func cutLine() throws {
        let (log, file, folder) = try Self.newLog()
        defer { withExtendedLifetime(folder) {} }
        try log.append(Self.entry("ann", "key.create"))
        try (try Data(contentsOf: file) + Data(#"{"number":2,"at"#.utf8)).write(to: file)
        try log.append(Self.entry("ann", "key.revoke"))
        let page = log.page(project: nil, before: nil, limit: 10)
        #expect(page.entries.map(\.action) == ["key.revoke", "key.create"])
        #expect(page.entries.map(\.number) == [2, 1])
    }

    @Test("GW-9 an entry is short, and no character of it turns or hides text")
    func plainText() {
        let turned = Self.entry("ann", "a", "to \u{202E}desrever\u{2066}\n\u{1B}[2J").what
        #expect(turned == "to \u{FFFD}desrever\u{FFFD}\u{FFFD}\u{FFFD}[2J")
        let long = Self.entry("ann", "a", String(repeating: "é", count: 10_000)).what
        #expect(long.utf8.count <= 204 && long.last == "…")
    }

    @Test(
        "GW-9 a call that changes nothing leaves no line, and an audience of everyone has no text")
    func nothing() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.sender, of: "tides")
            let reader = try await world.signedIn(.administrator)
            func actions() async throws -> [String] {
                let log = try world.json(await world.call(.get, "log?limit=1000", as: reader))
                guard case .array(let entries)? = log["entries"] else { return [] }
                return entries.compactMap { $0["action"]?.string }
            }
            let before = try await actions()
            for method in [GatewayCall.Method.post, .delete] {
                let answer = await world.call(
                    method, "projects/tides/topics/rain/subscribers", body: #"{"tokens":["x"]}"#,
                    as: browser)
                #expect(answer.status == 200)
            }
            #expect(try await actions() == before)
            let answer = await world.call(
                .post, "projects/tides/messages",
                body: """
                    {"target": {"kind": "everyone", "text": "wash"}, "message": {"data": {"a": "b"}}}
                    """, as: browser)
            #expect(answer.status == 400)
            #expect(try await actions() == before)
        }
    }

    @Test(
        "GW-9 a session's end is in the log, and how many wrong passwords came before its beginning"
    )
    func sessions() async throws {
        try await ConsoleWorld.with { world in
            let reader = try await world.signedIn(.administrator)
            try world.add("ann", .viewer)
            for _ in 0..<3 {
                _ = await world.call(
                    .post, "session", body: #"{"name":"ann","password":"wrong"}"#, as: .init())
            }
            let ann = try await world.signIn(
                #"{"name":"ann","password":"\#(ConsoleWorld.password)"}"#)
            #expect(await world.call(.delete, "session", as: ann).status == 200)
            let log = try world.json(await world.call(.get, "log?limit=2", as: reader))
            guard case .array(let entries)? = log["entries"] else { return #expect(Bool(false)) }
            #expect(entries.map { $0["action"]?.string } == ["session.end", "session.begin"])
            #expect(entries.map { $0["who"]?.string } == ["ann", "ann"])
            #expect(entries.last?["what"]?.string == "after 3 wrong passwords")
        }
    }

    @Test(
        "GW-9 a page of the log has 1 to 1000 entries",
        arguments: [(0, 400), (1, 200), (1001, 400)])
    func limits(limit: Int, status: Int) async throws {
        try await ConsoleWorld.with { world in
            let reader = try await world.signedIn(.administrator)
            #expect(await world.call(.get, "log?limit=\(limit)", as: reader).status == status)
        }
    }

    @Test(
        "GW-9 a sender finds the messages of the own project again, and those that wait for their time"
    )
    func sent() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.sender, of: "tides")
            func send(_ more: String) async throws -> String {
                let body = """
                    {"target": {"kind": "topic", "text": "rain"}, "message": {"data": {"a": "b"}}\(more)}
                    """
                let answer = await world.call(
                    .post, "projects/tides/messages", body: body, as: browser)
                return try #require(try world.json(answer)["messageID"]?.string)
            }
            let first = try await send("")
            let due = world.broker.now.millisecondsSince1970 + 3_600_000
            let later = try await send(#", "sendAt": \#(due)"#)
            let foreign = try await world.signedIn(.sender)
            _ = await world.call(
                .post, "projects/waves/messages",
                body: """
                    {"target": {"kind": "topic", "text": "rain"}, "message": {"data": {"a": "b"}}}
                    """, as: foreign)
            func entries(_ path: String) async throws -> [JSONValue] {
                let answer = await world.call(.get, "projects/tides/" + path, as: browser)
                guard case .array(let entries)? = try world.json(answer)["entries"] else {
                    return []
                }
                return entries
            }
            let sent = try await entries("sent")
            #expect(
                sent.map { $0["what"]?.string } == [
                    "\(later) to topic rain, scheduled", "\(first) to topic rain, 0 recipients",
                ])
            let scheduled = try await entries("scheduled")
            #expect(scheduled.map { $0["messageID"]?.string } == [later])
            #expect(scheduled.first?["due"] == .integer(due))
            _ = await world.call(.delete, "projects/tides/messages/2", as: browser)
            #expect(try await entries("scheduled").isEmpty)
        }
    }

    @Test(
        "OPS-15 GW-9 a log that cannot be written holds nobody longer than a moment, and gets its entries later"
    )
    func hanging() async throws {
        let (log, file, folder) = try Self.newLog()
        defer { withExtendedLifetime(folder) {} }
        // Another process with the lock holds an append as long as a disk that hangs.
        let lock = open(file.path + ".lock", O_RDWR | O_CREAT, 0o600)
        flock(lock, LOCK_EX)
        let queue = AuditQueue(log, entriesMax: 2, wait: .milliseconds(10))
        for number in 0..<3 {
            let error = await #expect(throws: MartletError.self) {
                try await queue.append(Self.entry("ann", "key.create", "\(number)"))
            }
            #expect(
                error?.message.contains(number < 2 ? "not taken the entry yet" : "dropped") == true)
        }
        close(lock)
        let patient = AuditQueue(log)
        while log.page(project: nil, before: nil, limit: 10).entries.count < 2 {
            try await Task.sleep(for: .milliseconds(5))
        }
        try await patient.append(Self.entry("ann", "key.create", "last"))
        #expect(
            log.page(project: nil, before: nil, limit: 10).entries.map(\.what) == [
                "last", "1", "0",
            ])
    }
}
