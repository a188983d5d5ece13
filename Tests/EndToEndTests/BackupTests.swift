// SPDX-License-Identifier: Apache-2.0
//
// Backup and restore, as an operator meets them: real processes, a broker under load, a destroyed folder. Rests on
// Desk and on the embedded broker.

import Foundation
import Martlet
import Testing

/// A line of `martlet listen --json`.
private struct Line: Decodable {
    var event: String
    var token: String?
    var messageID: String?
    var data: [String: String]?
}

private struct Manifest: Decodable {
    struct Project: Decodable {
        var project: String
        var lastMessage: UInt64
    }

    var projects: [Project]
    var rows: UInt64
    var bytes: UInt64
    var sha256: String
}

extension Desk {
    fileprivate func path(_ name: String) -> String { folder.appending(path: name).path }

    fileprivate func exists(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: path(name))
    }

    fileprivate func bytes(_ name: String) throws -> Data {
        try Data(contentsOf: folder.appending(path: name))
    }

    fileprivate func write(_ bytes: Data, _ name: String) throws {
        try bytes.write(to: folder.appending(path: name))
    }

    fileprivate func mode(_ name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
        return try #require(attributes[.posixPermissions] as? Int)
    }

    /// Runs a device until it has got so many messages.
    fileprivate func listen(_ state: String, port: String, count: Int = 0) throws -> [Line] {
        let process = try start(
            [
                "listen", "--project", "tides", "--app", "com.example.tides", "--state", state,
                "--port", port, "--json", "--timeout", "60", "--topic", "all",
            ] + (count > 0 ? ["--count", "\(count)"] : []))
        if count == 0 {
            let ready = firstLine(process)
            process.terminate()
            #expect(finish(process).status == 0)
            return [try JSONDecoder().decode(Line.self, from: Data(ready.utf8))]
        }
        let ended = finish(process)
        #expect(ended.status == 0, "\(ended.err)")
        return try ended.out.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }.filter { $0.event == "message" }
    }

    /// Whether a process in the desk's folder has this argument.
    fileprivate func isRunning(_ argument: String) throws -> Bool {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").contains { name in
            guard Int(name) != nil,
                let place = try? FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/\(name)/cwd"),
                URL(filePath: place).resolvingSymlinksInPath() == folder.resolvingSymlinksInPath(),
                let line = try? String(contentsOfFile: "/proc/\(name)/cmdline", encoding: .utf8)
            else { return false }
            return line.split(separator: "\0").contains(Substring(argument))
        }
    }

    fileprivate func end(_ process: Process) {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Sends messages to a topic without end, and makes the file `sent` after the first.
    fileprivate func load(sending data: String, to topic: String) throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.currentDirectoryURL = folder
        process.arguments = [
            "-c",
            """
            while '\(Self.executable.path)' send --project tides --topic \(topic) --data \(data) \
                >load 2>&1; do touch sent; done
            """,
        ]
        try process.run()
        return process
    }

    /// Fills a data folder with some megabytes of messages.
    fileprivate func fill(_ name: String = "martlet-data") async throws {
        let broker = try await Broker.open(BrokerConfiguration(folder: path(name), address: nil))
        _ = try await broker.createProject("tides")
        let body = String(repeating: "y", count: 3500)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    let device = try await broker.register(
                        app: "com.example.tides", platform: .android, in: "tides")
                    for _ in 0..<60 {
                        _ = try await broker.send(
                            OutgoingMessage(to: .token(device.token), Message(data: ["n": body])),
                            in: "tides")
                    }
                }
            }
            try await group.waitForAll()
        }
        try await broker.close()
    }
}

@Suite("Backup and restore", .timeLimit(.minutes(5)))
struct BackupTests {
    @Test("OPS-3 a destroyed folder comes back from a backup that was made under load")
    func roundTrip() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        var (broker, port) = try desk.serve()
        defer { desk.end(broker) }
        let token = try #require(try desk.listen("phone.json", port: port)[0].token)
        for number in 1...5 {
            let sent = try desk.run(
                "send", "--project", "tides", "--token", token, "--data", "n=\(number)")
            #expect(sent.status == 0, "\(sent.err)")
        }
        let load = try desk.load(sending: "n=load", to: "others")
        defer { desk.end(load) }
        while !desk.exists("sent") { usleep(1000) }
        let backup = try desk.run("backup", "saved", "--json")
        #expect(backup.status == 0, "\(backup.err)")
        let check = try desk.run("check")
        #expect(check.status == 0 && check.out.hasSuffix("Everything agrees.\n"), "\(check)")
        desk.end(load)
        let manifest = try JSONDecoder().decode(Manifest.self, from: Data(backup.out.utf8))
        try #require(manifest.projects.map(\.project) == ["tides"])
        #expect(manifest.projects[0].lastMessage >= 5)
        #expect(try desk.bytes("saved/manifest.json") == Data(backup.out.utf8))
        #expect(try UInt64(desk.bytes("saved/rows").count) == manifest.bytes)
        for (name, mode) in [
            ("saved", 0o700), ("saved/rows", 0o600), ("saved/manifest.json", 0o600),
        ] {
            #expect(try desk.mode(name) == mode, "\(name)")
        }
        // What comes after the backup is gone: this device, and this message.
        let late = try #require(try desk.listen("late.json", port: port)[0].token)
        let after = try desk.run(
            "send", "--project", "tides", "--token", token, "--data", "n=after", "--json")
        #expect(after.status == 0)
        let key = try desk.bytes("martlet-data/admin.key")

        desk.end(broker)
        try FileManager.default.removeItem(atPath: desk.path("martlet-data"))
        let restored = try desk.run("restore", "saved", "martlet-data")
        #expect(restored.status == 0, "\(restored.err)")
        #expect(!desk.exists("martlet-data/restoring"))
        #expect(try desk.bytes("martlet-data/admin.key") == key)
        for name in ["admin.key", "token.key", "data.mdb", "registration-tides.key"] {
            #expect(try desk.mode("martlet-data/" + name) == 0o600, "\(name)")
        }
        #expect(try desk.run("check").status == 0)
        (broker, port) = try desk.serve()
        let next = try desk.run(
            "send", "--project", "tides", "--token", token, "--data", "n=new", "--json")
        #expect(next.status == 0, "\(next.err)")
        let received = try desk.listen("phone.json", port: port, count: 6)
        #expect(received.map { $0.data?["n"] } == ["1", "2", "3", "4", "5", "new"])
        #expect(try desk.run("send", "--project", "tides", "--token", late).status == 1)
        // Nothing has the number of a message that was lost, so that no device takes it for a repetition.
        let numbers = received.compactMap { $0.messageID?.split(separator: "/").last }
            .compactMap { UInt64($0) }
        #expect(try #require(numbers.last) > manifest.projects[0].lastMessage + 1_000_000_000)
        #expect(try desk.run("check").status == 0)
    }

    @Test("OPS-3 a stream of a folder that nobody serves is restored from a file and from a pipe")
    func stream() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        let process = try desk.start(["backup", "-"])
        let pipe = try #require(process.standardOutput as? Pipe)
        let bytes = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        try desk.write(bytes, "stream")
        #expect(try desk.run("restore", "stream", "one").status == 0)
        #expect(try desk.run("check", "--data", "one").status == 0)
        let reading = Process()
        reading.executableURL = URL(filePath: "/bin/sh")
        reading.currentDirectoryURL = desk.folder
        reading.arguments = [
            "-c", "cat stream | '\(Desk.executable.path)' restore - two >out 2>err",
        ]
        try reading.run()
        reading.waitUntilExit()
        #expect(reading.terminationStatus == 0)
        #expect(try desk.run("check", "--data", "two").status == 0)
    }

    @Test("OPS-3 a changed, cut or unfinished backup is refused, and the folder stays as it was")
    func damage() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        #expect(try desk.run("backup", "saved").status == 0)
        let (rows, manifest) = (try desk.bytes("saved/rows"), try desk.bytes("saved/manifest.json"))
        func expectRefused(_ what: String) throws {
            let output = try desk.run("restore", "saved", "restored")
            #expect(output.status == 1 && output.err.contains("damaged"), "\(what): \(output)")
            #expect(!desk.exists("restored"), "\(what)")
        }
        for step in 0..<40 {
            var changed = rows
            changed[step * (rows.count - 1) / 39] ^= UInt8(1 << (step % 8))
            try desk.write(changed, "saved/rows")
            let output = try desk.run("restore", "saved", "restored")
            #expect(output.status == 1, "\(step): \(output)")
            #expect(!desk.exists("restored"), "\(step)")
        }
        for count in [0, 1, 23, 24, 100, rows.count / 2, rows.count - 1] {
            try desk.write(rows.prefix(count), "saved/rows")
            try expectRefused("\(count) bytes")
        }
        try desk.write(rows + Data([0]), "saved/rows")
        try expectRefused("one byte more")
        try desk.write(rows, "saved/rows")
        try desk.write(Data(manifest.dropLast(3)), "saved/manifest.json")
        try expectRefused("another manifest")
        try FileManager.default.removeItem(atPath: desk.path("saved/manifest.json"))
        try expectRefused("no manifest")
        try desk.write(manifest, "saved/manifest.json")
        #expect(try desk.run("restore", "saved", "restored").status == 0)
    }

    @Test(
        "OPS-3 a backup with a right digest and a number that no store gives is refused",
        arguments: [UInt64.max, UInt64(1) << 63, UInt64(1) << 63 - 1])
    func forged(number: UInt64) async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        #expect(try desk.run("backup", "saved").status == 0)
        // The project's row has the number of its last message, 20 times 60, and later its ID.
        let forger = """
            import hashlib, sys
            rows = open('saved/rows', 'rb').read()[:-32]
            old = (1200).to_bytes(8, 'little')
            places = [at for at in range(len(rows) - 120)
                      if rows[at:at + 8] == old and b'tides' in rows[at:at + 120]]
            at = places[0]
            rows = rows[:at] + int(sys.argv[1]).to_bytes(8, 'little') + rows[at + 8:]
            open('forged', 'wb').write(rows + hashlib.sha256(rows).digest())
            """
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", forger, "\(number)"]
        process.currentDirectoryURL = desk.folder
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        let output = try desk.run("restore", "forged", "restored")
        #expect(output.status == 1 && !output.err.contains("crashed"), "\(output)")
        #expect(!desk.exists("restored"))
    }

    @Test("OPS-3 neither a backup nor a restore takes a folder that is in use or not empty")
    func occupied() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        #expect(try desk.run("backup", "saved").status == 0)
        let again = try desk.run("backup", "saved")
        #expect(again.status == 1 && again.err.contains("not empty"), "\(again)")
        let inside = try desk.run("backup", "martlet-data/new/saved")
        #expect(inside.status == 1 && inside.err.contains("lies in the data folder"), "\(inside)")
        let old = try desk.run("restore", "saved", "martlet-data")
        #expect(old.status == 1 && old.err.contains("not empty"), "\(old)")
        let (broker, _) = try desk.serve()
        defer { desk.end(broker) }
        let used = try desk.run("restore", "saved", "martlet-data")
        #expect(used.status == 1 && used.err.contains("in use"), "\(used)")
        try FileManager.default.createDirectory(
            atPath: desk.path("own"), withIntermediateDirectories: true)
        try desk.write(Data("x".utf8), "own/letter")
        #expect(try desk.run("restore", "saved", "own").status == 1)
        let left = try FileManager.default.contentsOfDirectory(atPath: desk.path("own"))
        #expect(left == ["letter"])
    }

    @Test("OPS-3 a backup that was killed is no backup, and its snapshot holds no pages for ever")
    func killedBackup() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        let (broker, _) = try desk.serve()
        defer { desk.end(broker) }
        for number in 0..<4 {
            let process = try desk.start(
                ["backup", "saved\(number)", "--mebibytes-per-second", "1"])
            while !desk.exists("saved\(number)/rows") { usleep(1000) }
            usleep(UInt32(number) * 300_000)
            desk.end(process)
            // The command has a process that reads, and ends with it.
            while try desk.isRunning("saved\(number)") { usleep(1000) }
            #expect(!desk.exists("saved\(number)/manifest.json"))
            let output = try desk.run("restore", "saved\(number)", "restored")
            #expect(output.status == 1 && output.err.contains("never finished"), "\(output)")
        }
        #expect(try desk.run("backup", "whole").status == 0)
        #expect(try desk.run("restore", "whole", "restored").status == 0)
    }

    @Test(
        "OPS-3 a restore that was killed leaves no folder that a broker serves, and can be repeated"
    )
    func killedRestore() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        #expect(try desk.run("backup", "saved").status == 0)
        let rows = try desk.bytes("saved/rows")
        for part in 0..<4 {
            // Fed half of the stream, the restore waits for the rest.
            let feeding = Process()
            feeding.executableURL = Desk.executable
            feeding.currentDirectoryURL = desk.folder
            feeding.arguments = ["restore", "-", "restored"]
            let pipe = Pipe()
            feeding.standardInput = pipe
            try feeding.run()
            let piece = rows.prefix(rows.count * (part + 1) / 5)
            try pipe.fileHandleForWriting.write(contentsOf: piece)
            while !desk.exists("restored/restoring/data.mdb") { usleep(1000) }
            desk.end(feeding)
            try pipe.fileHandleForWriting.close()
            for command in [["serve", "--port", "0"], ["check"], ["project", "create", "x"]] {
                let output = desk.finish(try desk.start(command + ["--data", "restored"]))
                #expect(output.status == 1, "\(command): \(output)")
            }
        }
        let again = try desk.run("restore", "saved", "restored")
        #expect(again.status == 0, "\(again)")
        #expect(try desk.run("check", "--data", "restored").status == 0)
    }

    @Test("OPS-3 a check beside a broker tells when another broker has taken the folder")
    func restarted() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        var (broker, _) = try desk.serve()
        defer { desk.end(broker) }
        let backup = try desk.start(
            ["backup", "saved", "--mebibytes-per-second", "1"])
        while !desk.exists("saved/rows") { usleep(1000) }
        desk.end(broker)
        (broker, _) = try desk.serve()
        let output = desk.finish(backup)
        #expect(output.status == 1 && output.err.contains("started again"), "\(output)")
        #expect(!desk.exists("saved"))
        #expect(try desk.run("check").status == 0)
    }

    @Test("OPS-3 a snapshot whose pages another broker has used again is not called damaged")
    func overwritten() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        try await desk.fill()
        let (broker, _) = try desk.serve()
        defer { desk.end(broker) }
        #expect(try desk.run("project", "create", "other").status == 0)
        // Nobody reads the pipe, so the backup waits in the middle of its rows as soon as the pipe has bytes.
        let backup = try desk.start(["backup", "-", "--mebibytes-per-second", "0"])
        let pipe = try #require(backup.standardOutput as? Pipe).fileHandleForReading.fileDescriptor
        var isReadable = pollfd(fd: pipe, events: Int16(POLLIN), revents: 0)
        #expect(poll(&isReadable, 1, 60_000) == 1)
        desk.end(broker)
        let next = try await Broker.open(
            BrokerConfiguration(folder: desk.path("martlet-data"), address: nil))
        let body = String(repeating: "z", count: 3500)
        for _ in 0..<8 {
            let device = try await next.register(
                app: "com.example.tides", platform: .android, in: "tides")
            for _ in 0..<60 {
                _ = try await next.send(
                    OutgoingMessage(to: .token(device.token), Message(data: ["n": body])),
                    in: "tides")
            }
        }
        try await next.close()
        let output = desk.finish(backup)
        #expect(output.status == 1 && output.err.contains("started again"), "\(output.err)")
        #expect(try desk.run("check").status == 0)
    }
}
