// SPDX-License-Identifier: Apache-2.0
//
// Reports as users of the `martlet` executable meet them: `martlet report` of a message and of a project,
// `--missing`, `send --not-received`, and a broker that is killed in between. Rests on Desk.

import Foundation
import Glibc
import Testing

private struct Counts: Decodable {
    var targeted: Int
    var sent: Int
    var displayed: Int
    var opened: Int
    var acknowledged: Int
    var collapsed: Int
    var expired: Int
    var rateLimited: Int
    var discarded: Int
    var discardedTooMany: Int
    var discardedInactive: Int
    var unregistered: Int
    var cancelled: Int
    var nowOrNever: Int
    var handedOver: Int
    var refused: Int
    var pending: Int

    var addsUp: Bool {
        discarded == discardedTooMany + discardedInactive
            && targeted == acknowledged + collapsed + expired + rateLimited + discarded
                + unregistered + cancelled + nowOrNever + handedOver + refused + pending
    }
}

private struct MessageReport: Decodable {
    var messageID: String
    var unsettled: Int
    var counts: Counts
}

private struct ProjectReport: Decodable {
    struct Entry: Decodable {
        var day: String
        var app: String
        var platform: String
        var counts: Counts
    }

    var project: String
    var firstDay: String
    var lastDay: String
    var total: Counts
    var days: [Entry]
}

private struct Missing: Decodable {
    var messageID: String
    var tokens: [String]
    var counts: Counts
    var next: String?
}

private struct Acceptance: Decodable {
    var messageID: String?
    var recipients: Int
    var rateLimited: Int
}

extension Desk {
    fileprivate func json<Answer: Decodable>(
        _ arguments: String..., as type: Answer.Type = Answer.self
    ) throws -> Answer {
        let output = finish(try start(arguments + ["--json"]))
        #expect(output.status == 0, "\(output.err)")
        return try JSONDecoder().decode(Answer.self, from: Data(output.out.utf8))
    }

    /// What a command prints into a terminal.
    fileprivate func screen(_ arguments: String...) throws -> String {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        defer { close(terminal) }
        // TIOCSPTLCK and TIOCGPTN: it is not locked, and its number.
        var isLocked: Int32 = 0
        var number: Int32 = 0
        #expect(ioctl(terminal, 0x4004_5431, &isLocked) == 0)
        #expect(ioctl(terminal, 0x8004_5430, &number) == 0)
        let other = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY)
        let process = Process()
        process.executableURL = Self.executable
        process.arguments = arguments
        process.currentDirectoryURL = folder
        process.standardOutput = FileHandle(fileDescriptor: other, closeOnDealloc: false)
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        close(other)
        var shown: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = read(terminal, &buffer, buffer.count), count > 0 {
            shown += buffer[..<count]
        }
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return String(decoding: shown, as: UTF8.self)
    }
}

@Suite("martlet report", .timeLimit(.minutes(3)))
struct ReportCommandTests {
    private func listen(
        _ desk: Desk, _ name: String, _ port: String, platform: String = "android",
        _ more: String...
    ) throws -> Process {
        try desk.start(
            [
                "listen", "--project", "tides", "--app", "com.example.\(platform)", "--platform",
                platform, "--port", port, "--state", name + ".json", "--json", "--timeout", "60",
            ] + more)
    }

    /// A device that registers, subscribes, and goes.
    private func install(
        _ desk: Desk, _ name: String, _ port: String, platform: String = "android"
    ) throws -> String {
        struct Ready: Decodable { var token: String }
        let device = try listen(desk, name, port, platform: platform, "--topic", "storm")
        let line = desk.firstLine(device)
        device.terminate()
        #expect(desk.finish(device).status == 0)
        return try JSONDecoder().decode(Ready.self, from: Data(line.utf8)).token
    }

    /// The data `n` of the messages that come to a device.
    private func receive(
        _ desk: Desk, _ name: String, _ port: String, _ count: Int, platform: String = "android"
    ) throws -> [String] {
        struct Line: Decodable {
            var data: [String: String]?
        }
        let output = desk.finish(
            try listen(desk, name, port, platform: platform, "--count", "\(count)"))
        #expect(output.status == 0, "\(output.err)")
        return try output.out.split(separator: "\n").compactMap {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8)).data?["n"]
        }
    }

    /// Asks until what devices and loops have told is counted.
    private func when<Answer>(
        _ ask: () throws -> Answer, _ isThere: (Answer) -> Bool
    ) throws -> Answer {
        for _ in 0..<300 {
            let answer = try ask()
            if isThere(answer) { return answer }
            usleep(50_000)
        }
        let last = try ask()
        Issue.record("still \(last)")
        return last
    }

    private func kill(_ broker: Process) {
        guard broker.isRunning else { return }
        Glibc.kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
    }

    @Test(
        "REP-1 REP-2 OPS-1: one has it, one is away, one is rate-limited; the sums hold, those that miss it get the next, and a kill -9 changes nothing"
    )
    func life() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let limit = ["--limit", "device-messages-per-hour=2"]
        let (first, port) = try desk.serve(limit)
        defer { kill(first) }
        _ = try install(desk, "a", port)
        let away = try install(desk, "b", port, platform: "apple")
        let busy = try install(desk, "c", port)
        for n in ["x", "y"] {
            let sent: Acceptance = try desk.json(
                "send", "--project", "tides", "--token", busy, "--data", "n=\(n)")
            #expect(sent.recipients == 1)
        }
        let sent: Acceptance = try desk.json(
            "send", "--project", "tides", "--topic", "storm", "--data", "n=1")
        #expect(sent.recipients == 2 && sent.rateLimited == 1)
        let id = try #require(sent.messageID)
        #expect(try receive(desk, "a", port, 1) == ["1"])

        let report: MessageReport = try when({ try desk.json("report", id) }) {
            $0.counts.acknowledged == 1
        }
        #expect(report.messageID == id && report.unsettled == 0)
        #expect(report.counts.targeted == 3 && report.counts.rateLimited == 1)
        #expect(report.counts.pending == 1 && report.counts.addsUp)
        let text = try desk.run("report", "3", "--project", "tides")
        #expect(text.out.hasPrefix("projects/tides/messages/3\naccepted "))
        #expect(text.out.contains("\nacknowledged       1   33.3 %\n"))
        #expect(text.out.contains("\nOutcomes 2 + pending 1 = targeted 3. "))
        #expect(!text.out.contains("█"))
        #expect(try desk.screen("report", id).contains("  33.3 %  ████████\r\n"))

        // REP-2
        let missing: Missing = try desk.json("report", id, "--missing")
        #expect(missing.messageID == id && missing.next == nil)
        #expect(missing.tokens == [away, busy])
        #expect(missing.counts.pending == 1 && missing.counts.rateLimited == 1)
        let page: Missing = try desk.json("report", id, "--missing", "--limit", "1")
        #expect(page.tokens == [away])
        let rest = try desk.run("report", id, "--missing", "--after", try #require(page.next))
        #expect(rest.out == busy + "\n")
        #expect(rest.err == "Without the message: 1 pending; 1 rate-limited.\n")
        let again: Acceptance = try desk.json(
            "send", "--project", "tides", "--topic", "storm", "--data", "n=2", "--not-received",
            id)
        #expect(again.recipients == 1 && again.rateLimited == 1)
        #expect(try receive(desk, "b", port, 2, platform: "apple") == ["1", "2"])
        let last: Acceptance = try desk.json(
            "send", "--project", "tides", "--topic", "storm", "--data", "n=3")
        #expect(last.recipients == 1 && last.rateLimited == 2)
        #expect(try receive(desk, "a", port, 1) == ["3"])

        // Two to one device, to three, to two, to three.
        let days: ProjectReport = try when({ try desk.json("report", "tides", "--days", "2") }) {
            $0.total.acknowledged == 4 && $0.total.sent == 4
        }
        #expect(days.project == "tides" && days.total.targeted == 10)
        #expect(days.total.rateLimited == 4 && days.total.pending == 2 && days.total.addsUp)
        #expect(days.days.allSatisfy { $0.counts.addsUp })
        #expect(Set(days.days.map(\.app)) == ["com.example.android", "com.example.apple"])
        let apple: ProjectReport = try desk.json(
            "report", "tides", "--days", "2", "--app", "com.example.apple")
        #expect(apple.total.targeted == 3 && apple.total.acknowledged == 2)
        #expect(apple.days.allSatisfy { $0.platform == "apple" })
        let table = try desk.run("report", "--project", "tides", "--by", "platform")
        #expect(table.out.contains("\nPLATFORM  TARGETED  ACKNOWLEDGED  RATE-LIMITED  PENDING"))
        #expect(table.out.contains("\nandroid          7             2             3        2"))
        #expect(table.out.contains("Outcomes 8 + pending 2 = targeted 10."))
        let screen = try desk.screen("report", "tides", "--by", "app")
        #expect(screen.contains("com.example.apple") && screen.contains("PER DAY"))

        // A crash, the folder by itself, and the next broker.
        func told() throws -> [String] {
            try [
                ["report", id], ["report", id, "--missing"], ["report", "tides", "--days", "2"],
            ]
            .map { desk.finish(try desk.start($0 + ["--json"])).out }
        }
        let before = try told()
        #expect(before.allSatisfy { !$0.isEmpty })
        kill(first)
        #expect(try told() == before)
        #expect(try desk.run("check").status == 0)
        let (second, secondPort) = try desk.serve(limit)
        defer { kill(second) }
        #expect(try told() == before)
        struct Key: Decodable { var key: String }
        let key: Key = try desk.json("key", "create", "--project", "tides")
        let asSender = try desk.run(
            "report", id, "--json", "--key", key.key, "--port", secondPort)
        #expect(asSender.out == before[0])
    }

    @Test("REP-1 OPS-1: what the command line gets wrong is said, and what is not known too")
    func usage() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let id = "projects/tides/messages/1"
        for wrong in [
            [], ["messages/1"], ["projects/tides/messages"], [id, "--days", "3"],
            [id, "--by", "app"], [id, "--app", "a"], [id, "--limit", "5"],
            [id, "--missing", "--limit", "0"], ["tides", "--missing"], ["tides", "--days", "0"],
            ["tides", "--days", "3661"], ["tides", "--by", "hour"], ["tides", "--after", "1"],
        ] {
            #expect(desk.finish(try desk.start(["report"] + wrong)).status == 64, "\(wrong)")
        }
        for (arguments, part) in [
            ([id], "NOT_FOUND (message_id)"), ([id, "--missing"], "report-seconds"),
            (["x", "--project", "tides"], "INVALID_ARGUMENT (message_id)"),
            ([id, "--project", "harbour"], "NOT_FOUND"),
            (["harbour"], "NOT_FOUND"),
        ] {
            let refused = desk.finish(try desk.start(["report"] + arguments))
            #expect(refused.status == 1 && refused.out.isEmpty)
            #expect(refused.err.contains(part), "\(refused.err)")
        }
        let sent = try desk.run(
            "send", "--project", "tides", "--topic", "a", "--not-received", "x")
        #expect(sent.status == 1 && sent.err.contains("INVALID_ARGUMENT (not_received)"))
        let none = try desk.run("report", "tides")
        #expect(none.status == 0 && none.out.hasSuffix("(UTC)\nNothing was sent.\n"))
        let empty: ProjectReport = try desk.json("report", "tides")
        #expect(empty.days.isEmpty && empty.total.targeted == 0 && empty.total.addsUp)
        #expect(empty.firstDay < empty.lastDay)
    }
}
