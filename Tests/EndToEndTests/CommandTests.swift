// SPDX-License-Identifier: Apache-2.0
//
// The `martlet` executable as its users run it: exit codes, what is on which output, a message from
// one process to another, and a broker that is killed. Rests on the executable beside this test.

import Foundation
import Testing

/// A folder with a broker's data, and the commands that work on it.
private struct Desk {
    let folder: URL
    static let executable: URL = {
        // The test's own executable stands in the folder of all products.
        var folder = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
        while !FileManager.default.isExecutableFile(atPath: folder.appending(path: "martlet").path),
            folder.path.count > 1
        {
            folder.deleteLastPathComponent()
        }
        return folder.appending(path: "martlet")
    }()

    struct Output {
        var status: Int32
        var out: String
        var err: String
    }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(
            path: "martlet-command-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    func remove() { try? FileManager.default.removeItem(at: folder) }

    func start(_ arguments: [String]) throws -> Process {
        let process = Process()
        process.executableURL = Self.executable
        process.arguments = arguments
        process.currentDirectoryURL = folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return process
    }

    func run(_ arguments: String...) throws -> Output {
        finish(try start(arguments))
    }

    func finish(_ process: Process) -> Output {
        let out = (process.standardOutput as? Pipe)?.fileHandleForReading.readDataToEndOfFile()
        let err = (process.standardError as? Pipe)?.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Output(
            status: process.terminationStatus, out: String(decoding: out ?? Data(), as: UTF8.self),
            err: String(decoding: err ?? Data(), as: UTF8.self))
    }

    /// The first line of a running process, which says that it is ready.
    func firstLine(_ process: Process) -> String {
        guard let handle = (process.standardOutput as? Pipe)?.fileHandleForReading else {
            return ""
        }
        var bytes = Data()
        while bytes.last != UInt8(ascii: "\n"), let byte = try? handle.read(upToCount: 1),
            !byte.isEmpty
        {
            bytes += byte
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Serves the folder on a free port.
    func serve() throws -> (process: Process, port: String) {
        let process = try start(["serve", "--port", "0", "--json", "--loops", "1"])
        struct Ready: Decodable { var port: Int }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(firstLine(process).utf8))
        return (process, "\(ready.port)")
    }
}

@Suite(.timeLimit(.minutes(2)))
struct CommandTests {
    @Test(
        "OPS-1 commands work on the folder while no broker runs, and refuse with 1, misuse with 64")
    func embedded() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "list").err.contains("NOT_FOUND"))
        #expect(try desk.run("project", "create", "tides").status == 0)
        let again = try desk.run("project", "create", "tides")
        #expect(again.status == 1 && again.out.isEmpty && again.err.contains("ALREADY_EXISTS"))
        #expect(try desk.run("project", "list", "--json").out.contains("\"project\":\"tides\""))
        #expect(try desk.run("project", "create").status == 64)
        #expect(try desk.run("send", "--project", "tides", "--data", "x").status == 64)

        // MSG-1
        for targets in [[], ["--topic", "a", "--token", "b"]] {
            let refused = desk.finish(try desk.start(["send", "--project", "tides"] + targets))
            #expect(refused.status == 1 && refused.err.contains("INVALID_ARGUMENT"))
        }
        // TOP-8
        let sent = try desk.run("send", "--project", "tides", "--topic", "nobody", "--title", "x")
        #expect(sent.out == "projects/tides/messages/1  accepted for 0 instances\n")
        #expect(try desk.run("check").status == 0)
    }

    @Test("CON-6 a caret stands below the byte at fault")
    func caret() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let refused = try desk.run(
            "explain", "--project", "tides", "'a' in topics & 'b' in topics")
        #expect(refused.status == 1)
        #expect(
            refused.err.hasSuffix(
                "\n  'a' in topics & 'b' in topics\n" + "                ^\n"))
        let json = try desk.run(
            "audience", "--project", "tides", "--json", "'a' in topics & 'b' in topics")
        #expect(json.out.isEmpty && json.err.contains("\"byteOffset\":14"))
    }

    @Test("MSG-1 a message file is read strictly: a key that is not known is named")
    func messageFile() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let files = [
            (#"{"message":{"topic":"a","notification":{"title":"t"},"data":{"k":"v"}}}"#, nil),
            (#"{"topic":"a"}"#, nil),
            (#"{"topic":"a","notification":{"titel":"t"}}"#, "notification.titel"),
            (#"{"message":{"topic":"a","colour":"red"}}"#, "message.colour"),
            (#"{"message":{"topic":"a"},"dry":true}"#, "dry"),
            (#"{"topic":"a","data":{"n":1}}"#, "data.n"),
            (#"{"topic":"a","token":"b"}"#, "2 targets"),
            (#"{"topic":"a""#, "no JSON"),
        ]
        for (text, fault) in files {
            try Data(text.utf8).write(to: desk.folder.appending(path: "message.json"))
            let result = try desk.run("send", "--project", "tides", "--file", "message.json")
            #expect(result.status == (fault == nil ? 0 : 1))
            if let fault { #expect(result.err.contains(fault), "\(text)") }
        }
    }

    @Test("OPS-4 serve, listen and send; kill -9 of serve loses nothing; the device resumes")
    func processes() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        var (broker, port) = try desk.serve()
        let listen = [
            "listen", "--project", "tides", "--app", "com.example.tides", "--topic", "tides",
            "--json", "--timeout", "60",
        ]
        let device = try desk.start(listen + ["--port", port, "--count", "1"])
        #expect(desk.firstLine(device).hasPrefix("{\"event\":\"ready\""))
        let condition = "'tides' in topics && !('silent' in topics)"
        let sent = try desk.run(
            "send", "--project", "tides", "--condition", condition, "--title", "High tide",
            "--key", key, "--port", port)
        #expect(sent.out == "projects/tides/messages/1  accepted for 1 instance\n")
        let received = desk.finish(device)
        #expect(received.status == 0 && received.out.contains("\"title\":\"High tide\""))

        // The device is away; the broker dies without a word; one message is sent to the folder itself.
        #expect(try desk.run("send", "--project", "tides", "--topic", "tides").status == 0)
        kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
        #expect(try desk.run("send", "--project", "tides", "--topic", "tides").status == 0)
        #expect(try desk.run("check").status == 0)
        (broker, port) = try desk.serve()
        let resumed = desk.finish(try desk.start(listen + ["--port", port, "--count", "2"]))
        #expect(resumed.status == 0)
        let streamIDs = resumed.out.split(separator: "\n").compactMap { line in
            line.firstRange(of: "\"streamID\":").flatMap { Int(line[$0.upperBound...].dropLast()) }
        }
        #expect(streamIDs == [2, 3])

        let second = try desk.run("serve", "--port", "0")
        #expect(second.status == 1 && second.err.contains("in use"))
        try FileManager.default.createDirectory(
            at: desk.folder.appending(path: "other"), withIntermediateDirectories: true)
        let samePort = try desk.run("serve", "--data", "other", "--port", port)
        #expect(samePort.status == 1 && samePort.err.contains("in use"))
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test("CON-2 the demo's numbers are right")
    func demo() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let demo = try desk.run("demo", "--devices", "100", "--exit")
        #expect(demo.status == 0, "\(demo.out)")
    }
}
