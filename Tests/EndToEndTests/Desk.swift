// SPDX-License-Identifier: Apache-2.0
//
// Runs the `martlet` executable that stands beside the test, in a folder of its own.

import Foundation

/// A folder with a broker's data, and the commands that work on it.
struct Desk {
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

    /// A broker refuses variables that it does not know, such as those of the tests.
    private static var environment: [String: String] {
        ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("MARTLET_") || $0.key == "MARTLET_TRANSPORT"
        }
    }

    /// Runs a line of a shell, for which `$0` is the executable.
    func shell(_ line: String) throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = ["-c", line, Self.executable.path]
        process.environment = Self.environment
        process.currentDirectoryURL = folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// - Parameters:
    ///   - environment: variables that the test's own environment lacks.
    ///   - input: the text on standard input.
    func start(
        _ arguments: [String], environment: [String: String] = [:], input: String = ""
    ) throws -> Process {
        let process = Process()
        process.executableURL = Self.executable
        process.arguments = arguments
        process.environment = Self.environment.merging(environment) { $1 }
        process.currentDirectoryURL = folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        let pipe = Pipe()
        process.standardInput = input.isEmpty ? FileHandle.nullDevice : pipe
        try process.run()
        if !input.isEmpty {
            try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
            try pipe.fileHandleForWriting.close()
        }
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

    /// The registration key that `martlet project create` left in the data folder.
    func registrationKey(of project: String) throws -> String {
        let file = folder.appending(path: "martlet-data/registration-\(project).key")
        return try String(contentsOf: file, encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Serves the folder on a free port.
    func serve(_ more: [String] = []) throws -> (process: Process, port: String) {
        let port = more.contains("--listen") ? [] : ["--port", "0"]
        let process = try start(["serve", "--json", "--loops", "1"] + port + more)
        struct Ready: Decodable { var port: Int }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(firstLine(process).utf8))
        return (process, "\(ready.port)")
    }
}
