// SPDX-License-Identifier: Apache-2.0
//
// What devices send to their project, as users of the `martlet` executable meet it: `listen
// --send-upstream`, `martlet upstream`, and a broker that is killed in between. Rests on Desk.

import Foundation
import Testing

private struct Line: Decodable {
    var number: UInt64
    var token: String
    var app: String
    var messageID: String
    var data: [String: String]
}

@Suite("martlet upstream", .timeLimit(.minutes(3)))
struct UpstreamCommandTests {
    private func lines(_ text: String) throws -> [Line] {
        try text.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
    }

    private func send(_ desk: Desk, _ port: String, _ state: String, _ texts: String...) throws {
        let output = desk.finish(
            try desk.start(
                [
                    "listen", "--project", "tides", "--app", "com.example.tides", "--state", state,
                    "--port", port, "--count", "0",
                ] + texts.flatMap { ["--send-upstream", $0] }))
        #expect(output.status == 0, "\(output.err)")
    }

    private func kill(_ broker: Process) {
        Foundation.kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
    }

    @Test(
        "UPS-1 DEV-4: what devices were answered is there after a kill -9, comes to one sender each, and once taken never again"
    )
    func killed() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (first, firstPort) = try desk.serve()
        try send(desk, firstPort, "a.json", "one", "two")
        try send(desk, firstPort, "b.json", "three")
        // A sender that has them and takes one before the broker dies.
        struct Key: Decodable { var key: String }
        let key = try JSONDecoder().decode(
            Key.self,
            from: Data(try desk.run("key", "create", "--project", "tides", "--json").out.utf8)
        ).key
        let taken = try desk.run(
            "upstream", "--project", "tides", "--key", key, "--port", firstPort, "--count", "1",
            "--json")
        #expect(taken.status == 0, "\(taken.err)")
        #expect(try lines(taken.out).map { $0.data["text"] } == ["one"])
        let holding = try desk.start([
            "upstream", "--project", "tides", "--key", key, "--port", firstPort, "--json",
        ])
        #expect(desk.firstLine(holding).contains("two"))
        kill(first)
        holding.terminate()
        _ = desk.finish(holding)

        // The folder itself, while nobody serves it.
        #expect(try desk.run("check").status == 0)
        let (second, secondPort) = try desk.serve()
        defer { kill(second) }
        try send(desk, secondPort, "a.json", "four")
        // What the dead broker may not have heard of may come again; nothing else does.
        let rest = try desk.run(
            "upstream", "--project", "tides", "--count", "1", "--key", key, "--port", secondPort,
            "--json")
        let next = try #require(try lines(rest.out).first)
        #expect(["two", "three", "four"].contains(next.data["text"]))
        #expect(next.app == "com.example.tides")
        try send(desk, secondPort, "b.json", "five")
        let text = try desk.run(
            "upstream", "--project", "tides", "--count", "1", "--key", key, "--port", secondPort)
        #expect(text.out.contains("com.example.tides") && text.out.contains("text = "))
    }

    @Test("UPS-1 EMB-1: without a broker the folder itself is read, and what was printed is gone")
    func folder() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let (broker, port) = try desk.serve()
        try send(desk, port, "a.json", "one", "two", "three")
        kill(broker)
        let two = try desk.run("upstream", "--project", "tides", "--count", "2", "--json")
        #expect(try lines(two.out).map { $0.data["text"] } == ["one", "two"])
        #expect(try lines(two.out).map(\.number) == [1, 2])
        let last = try desk.run("upstream", "--project", "tides", "--count", "1", "--json")
        #expect(try lines(last.out).map { $0.data["text"] } == ["three"])
        #expect(try desk.run("check").status == 0)
    }

    @Test("DEV-4: what the command line gets wrong is said")
    func usage() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("upstream", "--project", "tides", "--count", "0").status == 64)
        let listen = try desk.run(
            "listen", "--project", "tides", "--app", "com.example.tides", "--count", "0")
        #expect(listen.status == 64)
    }
}
