// SPDX-License-Identifier: Apache-2.0
//
// What `martlet listen` keeps between two runs, as its users see it (DEV-1, DEV-2). Rests on Desk.

import Foundation
import MartletClient
import MartletWire
import Testing

private struct Line: Decodable {
    var event: String
    var token: String?
    var data: [String: String]?
}

private func lines(_ text: String) throws -> [Line] {
    try text.split(separator: "\n").map {
        try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
}

@Suite(.timeLimit(.minutes(3)))
struct ListenCommandTests {
    private static let listen = [
        "listen", "--project", "tides", "--app", "com.example.tides", "--state", "phone.json",
        "--json", "--timeout", "60",
    ]

    /// A broker with a project `tides`.
    private func withBroker(_ body: (Desk, _ port: String) async throws -> Void) async throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        try await body(desk, port)
    }

    /// Registers, subscribes and leaves.
    private func install(_ desk: Desk, _ port: String, _ more: String...) throws -> StoredDevice {
        let process = try desk.start(Self.listen + ["--port", port] + more)
        #expect(desk.firstLine(process).hasPrefix("{\"event\":\"ready\""))
        process.terminate()
        #expect(desk.finish(process).status == 0)
        let file = DeviceStateFile(path: desk.folder.appending(path: "phone.json").path)
        return try #require(try file.load())
    }

    @Test("TOP-2 with a topic that cannot be, no device is registered")
    func invalidTopic() async throws {
        try await withBroker { desk, port in
            let refused = desk.finish(
                try desk.start(Self.listen + ["--port", port, "--topic", "high tide"]))
            #expect(refused.status == 1 && refused.err.contains("INVALID_ARGUMENT"), "\(refused)")
            let file = desk.folder.appending(path: "phone.json").path
            #expect(!FileManager.default.fileExists(atPath: file))
            let apps = try desk.run("app", "list", "--project", "tides", "--json")
            #expect(!apps.out.contains("com.example.tides"), "\(apps)")
        }
    }

    @Test("DEV-2 topics of an earlier run are kept, and ensured without being given again")
    func topics() async throws {
        try await withBroker { desk, port in
            var stored = try install(desk, port, "--topic", "storms", "--topic", "tides")
            #expect(stored.topics == AskedTopics(subscriptions: ["storms", "tides"]))
            // As if the run had ended before the broker heard of all it was asked for.
            stored.topics = AskedTopics(
                subscriptions: ["gales", "tides"], unsubscriptions: ["storms"])
            try DeviceStateFile(path: desk.folder.appending(path: "phone.json").path).save(stored)
            let device = try desk.start(Self.listen + ["--port", port, "--count", "1"])
            #expect(desk.firstLine(device).hasPrefix("{\"event\":\"ready\""))
            var told = ""
            while !told.contains("gales") || told.contains("storms") {
                told = try desk.run("topics", "--project", "tides", "--json").out
            }
            let sent = try desk.run(
                "send", "--project", "tides", "--topic", "gales", "--data", "n=1")
            #expect(sent.status == 0, "\(sent.err)")
            let ended = desk.finish(device)
            #expect(ended.status == 0)
            #expect(try lines(ended.out).map(\.data) == [["n": "1"]])
            let kept = try install(desk, port)
            #expect(kept.topics == AskedTopics(subscriptions: ["gales", "tides"]))
            #expect(kept.credentials == stored.credentials)
        }
    }

    @Test("COL-1 of three notifications to a device that is away one comes, and a note says why")
    func collapsed() async throws {
        try await withBroker { desk, port in
            _ = try install(desk, port, "--topic", "tides")
            for title in ["Low", "Rising", "High"] {
                let sent = try desk.run(
                    "send", "--project", "tides", "--topic", "tides", "--title", title)
                #expect(sent.status == 0, "\(sent.err)")
            }
            let text = Self.listen.filter { $0 != "--json" }
            let listened = desk.finish(try desk.start(text + ["--port", port, "--count", "1"]))
            #expect(listened.status == 0, "\(listened.err)")
            let said = listened.out.split(separator: "\n").suffix(2).map(String.init)
            #expect(
                said == [
                    "  title  High",
                    "  note   2 messages of the project before it did not come here: of the notifications "
                        + "that wait for a device only the newest is kept",
                ])
        }
    }

    @Test("MSG-5 names that only look the same are two, from a message file to a device")
    func likeNames() async throws {
        try await withBroker { desk, port in
            let device = try desk.start(Self.listen + ["--port", port, "--count", "1"])
            struct Ready: Decodable { var token: String }
            let ready = try JSONDecoder().decode(
                Ready.self, from: Data(desk.firstLine(device).utf8))
            let data = "{\"e\u{301}\":\"2\",\"\u{E9}\":\"1\"}"
            try Data(#"{"data":\#(data)}"#.utf8).write(to: desk.folder.appending(path: "m.json"))
            let sent = try desk.run(
                "send", "--project", "tides", "--token", ready.token, "--file", "m.json")
            #expect(sent.status == 0, "\(sent.err)")
            let line = desk.finish(device).out
            #expect(Array(line.utf8).firstRange(of: Array(data.utf8)) != nil, "\(line)")
        }
    }

    @Test("DEV-1 a token that the device has not heard of is told, kept and used")
    func tokens() async throws {
        try await withBroker { desk, port in
            let stored = try install(desk, port)
            // Another program asks for a token, and the state file knows nothing of it.
            let other = MartletDevice(
                host: "127.0.0.1", port: try #require(Int(port)),
                credentials: stored.credentials)
            let token = try await other.rotateToken()
            await other.close()
            let known = try install(desk, port)
            #expect(known.credentials.token == token)
            let refused = try desk.run(
                "send", "--project", "tides", "--token", stored.credentials.token)
            #expect(refused.status == 1 && refused.err.contains("UNREGISTERED"))
            let sent = try desk.run("send", "--project", "tides", "--token", token)
            #expect(sent.status == 0, "\(sent.err)")
        }
    }
}
