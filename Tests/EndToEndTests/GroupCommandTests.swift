// SPDX-License-Identifier: Apache-2.0
//
// Groups and several targets as users of the `martlet` executable meet them: `martlet group`, `send
// --group`, `send --to-token`. Rests on Desk.

import Foundation
import Testing

private struct Group: Decodable, Equatable {
    var name: String
    var key: String
    var tokens: [String]
}

private struct SendResultLine: Decodable {
    struct Failure: Decodable, Equatable {
        var token: String
        var error: String
    }

    var messageID: String?
    var recipients: Int
    var successes: Int?
    var failures: [Failure]?
}

@Suite("martlet group", .timeLimit(.minutes(3)))
struct GroupCommandTests {
    private func run<Answer: Decodable>(
        _ desk: Desk, _ arguments: [String], as type: Answer.Type = Answer.self
    ) throws -> Answer {
        let output = desk.finish(try desk.start(arguments + ["--project", "tides", "--json"]))
        #expect(output.status == 0, "\(output.err)")
        return try JSONDecoder().decode(Answer.self, from: Data(output.out.utf8))
    }

    private func listen(_ desk: Desk, _ name: String, _ port: String, _ more: String...) throws
        -> Process
    {
        try desk.start(
            [
                "listen", "--project", "tides", "--app", "com.example.tides", "--port", port,
                "--state", name + ".json", "--json", "--timeout", "60",
            ] + more)
    }

    /// A device that registers, and goes.
    private func token(_ desk: Desk, _ name: String, _ port: String, topic: String) throws -> String
    {
        struct Ready: Decodable { var token: String }
        let device = try listen(desk, name, port, "--topic", topic)
        let line = desk.firstLine(device)
        device.terminate()
        #expect(desk.finish(device).status == 0)
        return try JSONDecoder().decode(Ready.self, from: Data(line.utf8)).token
    }

    /// What a device gets that comes back for so many messages, by their `n`.
    private func messages(_ desk: Desk, _ name: String, _ port: String, _ count: Int) throws
        -> [String]
    {
        struct Line: Decodable {
            var event: String
            var data: [String: String]?
        }
        let output = desk.finish(try listen(desk, name, port, "--count", "\(count)"))
        #expect(output.status == 0, "\(output.err)")
        return try output.out.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }.filter { $0.event == "message" }.compactMap { $0.data?["n"] }
    }

    @Test(
        "GRP-1 GRP-2 GRP-3 GRP-4 GRP-5 OPS-1: a group from its first member to its last, and a message to several targets"
    )
    func life() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        let tokens = try ["a", "b", "c"].map { try token(desk, $0, port, topic: "topic-" + $0) }

        let made: Group = try run(
            desk, ["group", "create", "phones", "--token", tokens[0], "--token", tokens[1]])
        #expect(made.tokens == Array(tokens[..<2]))
        let again = try desk.run(
            "group", "create", "phones", "--project", "tides", "--token", tokens[0])
        #expect(again.status == 1 && again.err.contains("ALREADY_EXISTS"))
        let grown: Group = try run(
            desk, ["group", "add", "phones", "--group-key", made.key, "--token", tokens[2]])
        #expect(grown.tokens == tokens)
        let shown: Group = try run(desk, ["group", "show", "phones"])
        #expect(shown == grown)
        let text = try desk.run("group", "list", "--project", "tides")
        #expect(text.out.contains("phones") && text.out.contains(made.key))
        let wrong = try desk.run(
            "group", "add", "phones", "--project", "tides", "--group-key", tokens[0], "--token",
            tokens[2])
        #expect(wrong.status == 1 && wrong.err.contains("INVALID_ARGUMENT"))

        let toGroup: SendResultLine = try run(desk, ["send", "--group", made.key, "--data", "n=1"])
        #expect(toGroup.recipients == 3 && toGroup.successes == 3 && toGroup.failures == [])
        let toAll: SendResultLine = try run(
            desk,
            [
                "send", "--to-token", tokens[0], "--to-token", "nobody", "--to-topic", "topic-b",
                "--to-topic", "topic-a", "--data", "n=2",
            ])
        #expect(toAll.recipients == 2 && toAll.successes == 1)
        #expect(toAll.failures == [.init(token: "nobody", error: "INVALID_ARGUMENT")])
        let said = try desk.run(
            "send", "--project", "tides", "--to-group", made.key, "--to-token", "x", "--data",
            "n=3")
        #expect(said.status == 0 && said.out.contains("accepted for 3 instances; 1 of 1 failed:"))
        #expect(said.out.hasSuffix("x  INVALID_ARGUMENT\n"))
        let two = try desk.run(
            "send", "--project", "tides", "--group", made.key, "--to-token", tokens[0])
        #expect(two.status == 1 && two.err.contains("2 targets"))

        let left: Group = try run(
            desk, ["group", "remove", "phones", "--group-key", made.key, "--token", tokens[2]])
        #expect(left.tokens == Array(tokens[..<2]))
        let few: SendResultLine = try run(desk, ["send", "--group", made.key, "--data", "n=4"])
        #expect(few.successes == 2)
        #expect(try messages(desk, "a", port, 4) == ["1", "2", "3", "4"])
        #expect(try messages(desk, "b", port, 4) == ["1", "2", "3", "4"])
        #expect(try messages(desk, "c", port, 2) == ["1", "3"])

        // GRP-3: what was made outlives the process; the folder itself can be asked.
        kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
        #expect(try desk.run("check").out.contains("1 groups"))
        let kept: Group = try run(desk, ["group", "show", "phones"])
        #expect(kept == left)
        let gone = try desk.run(
            "group", "remove", "phones", "--project", "tides", "--group-key", made.key, "--token",
            tokens[0], "--token", tokens[1])
        #expect(gone.out == "phones  deleted: no member is left\n")
        let none = try desk.run("group", "show", "phones", "--project", "tides")
        #expect(none.status == 1 && none.err.contains("NOT_FOUND"))
        let nobody: SendResultLine = try run(desk, ["send", "--group", made.key, "--data", "n=5"])
        #expect(nobody.successes == 0 && nobody.failures == [])
        #expect(try desk.run("check").status == 0)
    }
}
