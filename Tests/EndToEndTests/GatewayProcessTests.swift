// SPDX-License-Identifier: Apache-2.0
//
// `martlet gateway` as a process: killed between a send and its answer, and with few descriptors. Rests on
// Desk and HTTPClient.

import Foundation
import Glibc
import Testing

@Suite("The gateway's process", .serialized, .timeLimit(.minutes(5)))
struct GatewayProcessTests {
    private struct Ready: Decodable { var http: String }

    /// The port of a gateway that is ready.
    private func port(_ process: Process, _ desk: Desk) throws -> UInt16 {
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(process).utf8))
        return try #require(ready.http.split(separator: ":").last.flatMap { UInt16($0) })
    }

    private func newKey(_ desk: Desk) throws -> String {
        struct Key: Decodable { var key: String }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let made = try desk.run("key", "create", "--project", "tides", "--json")
        return try JSONDecoder().decode(Key.self, from: Data(made.out.utf8)).key
    }

    @Test(
        "GW-8 killed at any moment between a send and its answer: the repetition is no second message, and what follows an answer is"
    )
    func kills() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let key = try newKey(desk)
        let arguments = [
            "gateway", "--port", "0", "--http", "127.0.0.1:0", "--loops", "1", "--json",
        ]
        func number(_ answer: String) -> Int? {
            guard let name = answer.firstMatch(of: #/messages\/(\d+)"/#) else { return nil }
            return Int(name.output.1)
        }
        var (messageCount, unansweredCount, swallowedCount) = (0, 0, 0)
        for round in 0..<25 {
            let body = #"{"message":{"topic":"t","data":{"round":"\#(round)"}}}"#
            let path = "/v1/projects/tides/messages:send"
            let killed = try desk.start(arguments)
            let first = try HTTPClient(port: try port(killed, desk))
            first.send("POST", path, key: key, body)
            usleep(UInt32.random(in: 0...6000))
            kill(killed.processIdentifier, SIGKILL)
            killed.waitUntilExit()
            let isAnswered = (try? first.answer()).flatMap { number($0) } != nil
            if !isAnswered { unansweredCount += 1 }

            let next = try desk.start(arguments)
            let nextPort = try port(next, desk)
            func repeated() throws -> Int {
                let client = try HTTPClient(port: nextPort)
                client.send("POST", path, key: key, body)
                return try #require(number(try client.answer()))
            }
            let second = try repeated()
            // Nothing makes the answer's last byte and the note of it one step: a kill in the
            // microseconds between them leaves an answered send that looks unanswered.
            if isAnswered, second == messageCount + 1 {
                swallowedCount += 1
            } else {
                #expect(second == messageCount + (isAnswered ? 2 : 1), "round \(round)")
            }
            #expect(try repeated() == second + 1, "round \(round)")
            messageCount = second + 1
            next.terminate()
            #expect(desk.finish(next).status == 0)
        }
        #expect(unansweredCount > 0, "no kill came before an answer")
        #expect(swallowedCount < 3)
        #expect(try desk.run("check").status == 0)
    }

    @Test(
        "OPS-5 GW-15 with few descriptors the gateway takes fewer connections, rests, and serves on"
    )
    func descriptors() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = [
            "-c",
            "ulimit -n 96 && exec \"$0\" gateway --port 0 --http 127.0.0.1:0 --json --loops 1",
            Desk.executable.path,
        ]
        process.currentDirectoryURL = desk.folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let port = try port(process, desk)
        var held = try (0..<120).map { _ in try HTTPClient(port: port) }
        usleep(300_000)
        let before = try cpuTicks(process)
        usleep(2_000_000)
        let spent = try cpuTicks(process) - before
        // Of 200 ticks of a hundredth of a second that a core has in this time.
        #expect(spent < 60, "\(spent) ticks")
        withExtendedLifetime(held) {}
        held.removeAll()
        var answer = ""
        // The gateway sees the end of the held connections a little later.
        for _ in 0..<500 where !answer.contains(" 200 ") {
            usleep(10_000)
            let late = try HTTPClient(port: port)
            late.send("GET", "/healthz")
            answer = (try? late.answer()) ?? ""
        }
        #expect(answer.contains(" 200 "))
        process.terminate()
        let end = desk.finish(process)
        #expect(end.status == 0)
        let told = end.err.split(separator: "\n").filter {
            $0.contains("fewer HTTP connections are possible than configured")
        }
        #expect(told.count == 1, "\(end.err)")
    }

    /// Source: proc(5), `utime` and `stime` behind the name in parentheses.
    private func cpuTicks(_ process: Process) throws -> Int {
        let text = try String(
            contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8)
        let fields = (text.split(separator: ")").last ?? "").split(separator: " ")
        return try #require(Int(fields[11])) + #require(Int(fields[12]))
    }
}
