// SPDX-License-Identifier: Apache-2.0
//
// What an operator reads and asks at night: the log of a start, of a stop and of a recovery, health without a gateway,
// backups that are verified without a restore, and a folder that was mistyped (OPS-2, OPS-3, OPS-11, OPS-12). Rests on
// Desk, with real processes.

import Foundation
import Testing

@Suite("The operator's night", .timeLimit(.minutes(3)))
struct NightTests {
    private struct Ready: Decodable {
        var port: Int
        var isDataNew: Bool
        var metrics: String?
    }

    private func serve(_ desk: Desk, _ more: [String] = []) throws -> (Process, Ready) {
        let process = try desk.start(["serve", "--port", "0", "--json", "--loops", "1"] + more)
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(process).utf8))
        return (process, ready)
    }

    private func stop(_ broker: Process, _ desk: Desk) -> Desk.Output {
        broker.terminate()
        return desk.finish(broker)
    }

    @Test("OPS-11 the log says where a broker serves, how it ended, and what a recovery found")
    func log() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (first, ready) = try serve(desk)
        #expect(ready.isDataNew)
        #expect(try desk.run("project", "create", "tides").status == 0)
        kill(first.processIdentifier, SIGKILL)
        let killed = desk.finish(first).err
        #expect(killed.contains("new=yes") && killed.contains("the broker serves"), "\(killed)")
        #expect(killed.contains("127.0.0.1 \(ready.port)") && !killed.contains("has ended"))

        let (second, again) = try serve(desk)
        #expect(!again.isDataNew)
        let ended = stop(second, desk)
        #expect(ended.status == 0)
        #expect(ended.err.contains("is recovered"), "\(ended.err)")
        #expect(ended.err.contains("the broker has ended"), "\(ended.err)")
        #expect(!ended.err.contains("new=yes"))

        let (third, _) = try serve(desk)
        let clean = stop(third, desk).err
        #expect(!clean.contains("is recovered"), "\(clean)")
    }

    @Test("OPS-12 health is served beside the metrics")
    func health() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, ready) = try serve(desk, ["--metrics", "127.0.0.1:0"])
        let metrics = try #require(ready.metrics.flatMap { URL(string: $0) })
        let client = try HTTPClient(port: UInt16(#require(metrics.port)))
        client.send("GET", "/healthz")
        let answer = try client.answer()
        #expect(answer.hasPrefix("HTTP/1.1 200 OK"), "\(answer)")
        #expect(answer.hasSuffix("\r\n\r\nok\n"), "\(answer)")
        #expect(stop(broker, desk).status == 0)
    }

    @Test("OPS-2 a start that fails leaves no new folder behind")
    func noFolder() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, ready) = try serve(desk)
        let second = try desk.run("serve", "--port", "\(ready.port)", "--data", "mistyped")
        #expect(second.status == 1, "\(second.out)")
        #expect(
            !FileManager.default.fileExists(atPath: desk.folder.appending(path: "mistyped").path))
        #expect(stop(broker, desk).status == 0)
    }

    @Test("OPS-2 a data folder of the environment wins over the file, and the log says so")
    func environmentWins() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("data = other\nport = 0\n".utf8).write(
            to: desk.folder.appending(path: "martlet.conf"))
        let broker = try desk.start(
            ["serve", "--config", "martlet.conf"], environment: ["MARTLET_DATA": "mine"])
        #expect(desk.firstLine(broker).contains("data in mine (by MARTLET_DATA), which is new"))
        let said = stop(broker, desk).err
        #expect(said.contains("the data folder is that of MARTLET_DATA"), "\(said)")
        #expect(said.contains("data=other"), "\(said)")
    }

    @Test("OPS-2 GW-11 pages register by a setting in the file, and by a flag of the gateway")
    func webClients() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("web-clients = yes\nhttp = 127.0.0.1:0\nport = 0\n".utf8).write(
            to: desk.folder.appending(path: "martlet.conf"))
        for arguments in [
            ["serve", "--config", "martlet.conf"],
            ["gateway", "--http", "127.0.0.1:0", "--port", "0", "--web-clients"],
        ] {
            let broker = try desk.start(arguments)
            #expect(desk.firstLine(broker).contains("SDKs at"), "\(arguments)")
            #expect(stop(broker, desk).status == 0)
        }
        let refused = try desk.run("serve", "--port", "0", "--web-clients")
        #expect(refused.status == 64 && refused.err.contains("needs --http"), "\(refused)")
    }

    @Test("OPS-3 a backup is verified without a restore", arguments: [false, true])
    func verification(isStream: Bool) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let copied = try desk.run("backup", "copy")
        #expect(copied.status == 0, "\(copied.err)")
        let rows = desk.folder.appending(path: "copy/rows")
        let place = isStream ? "copy/rows" : "copy"
        let whole = try desk.run("check", "--backup", place)
        #expect(whole.status == 0 && whole.out.contains("is whole"), "\(whole)")
        let told = try desk.run("check", "--backup", place, "--json")
        #expect(told.out.contains("\"sha256\""), "\(told)")

        let bytes = try Data(contentsOf: rows)
        for at in [30, bytes.count / 2, bytes.count - 1] {
            var damaged = bytes
            damaged[at] ^= 1
            try damaged.write(to: rows)
            let found = try desk.run("check", "--backup", place)
            #expect(found.status == 1, "byte \(at): \(found)")
        }
        try bytes.dropLast(40).write(to: rows)
        #expect(try desk.run("check", "--backup", place).status == 1)
        try bytes.write(to: rows)
        let manifest = desk.folder.appending(path: "copy/manifest.json")
        let text = try String(contentsOf: manifest, encoding: .utf8)
        let digit = try #require(text.firstRange(of: "\"sha256\":\"")).upperBound
        var other = text
        other.replaceSubrange(digit...digit, with: text[digit] == "0" ? "1" : "0")
        try Data(other.utf8).write(to: manifest)
        #expect(try desk.run("check", "--backup", place).status == (isStream ? 0 : 1))
    }

    @Test("OPS-1 a device finds the broker that serves its folder")
    func listening() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, _) = try serve(desk)
        #expect(try desk.run("project", "create", "tides").status == 0)
        let device = try desk.run(
            "listen", "--project", "tides", "--app", "a.b", "--state", "phone.json",
            "--send-upstream", "hello", "--count", "0", "--timeout", "60")
        #expect(device.status == 0 && device.out.contains("sent to the project"), "\(device)")
        #expect(stop(broker, desk).status == 0)
    }
}
