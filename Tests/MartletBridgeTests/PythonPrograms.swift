// SPDX-License-Identifier: Apache-2.0
//
// The other side of a sender: a push service in Python, and libraries that read messages. `make python-sdks` installs
// both below `.build`. Rests on Foundation.

import Foundation
import Synchronization

enum PythonPrograms {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    /// The environment with h2 and cryptography, and the one with http_ece and py_vapid.
    private static let services = root.appending(path: ".build/python-sdks")
    private static let readers = root.appending(path: ".build/python-sdks-push")

    static var areInstalled: Bool {
        [services, readers].allSatisfy {
            FileManager.default.fileExists(atPath: $0.appending(path: "installed").path)
        }
    }

    private static func process(_ environment: URL, _ script: String) -> Process {
        let process = Process()
        process.executableURL = environment.appending(path: "bin/python")
        process.arguments = ["-B", root.appending(path: "Tests/Python/\(script)").path]
        return process
    }

    static func service(in folder: URL) -> Process {
        let process = process(services, "push_service.py")
        process.arguments?.append(folder.path)
        return process
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    struct Message: Encodable {
        var `private`: String
        var auth: String
        var body: String
    }

    struct Token: Decodable {
        struct Header: Decodable, Equatable {
            var typ: String
            var alg: String
        }
        struct Claims: Decodable {
            var aud: String
            var exp: Int64
            var sub: String?
        }
        var header: Header
        var claims: Claims
        var key: String
    }

    private struct Asked: Encodable {
        var messages: [Message]
        var tokens: [String]
    }

    private struct Told: Decodable {
        var messages: [String]
        var tokens: [Token]
    }

    /// What http_ece and py_vapid read.
    static func read(
        _ messages: [Message] = [], tokens: [String] = []
    ) throws -> (messages: [String], tokens: [Token]) {
        let process = process(readers, "push_decrypt.py")
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        try input.fileHandleForWriting.write(
            contentsOf: JSONEncoder().encode(Asked(messages: messages, tokens: tokens)))
        try input.fileHandleForWriting.close()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: String(decoding: complaint, as: UTF8.self))
        }
        let told = try JSONDecoder().decode(Told.self, from: text)
        return (told.messages, told.tokens)
    }
}

/// A push service of its own, as a process.
final class PushService: Sendable {
    struct Start: Decodable {
        var port: Int
        var plain: Int
        var authority: String
    }

    struct Request: Decodable, Sendable {
        var method: String
        var path: String
        var headers: [String: String]
        var `protocol`: String
        var connection: Int
        var body: Data
    }

    let start: Start
    private let process: Process
    private let input = Pipe()
    private let folder: URL
    private final class Told: Sendable {
        let requests = Mutex<[Request]>([])
    }
    private let told = Told()

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        process = PythonPrograms.service(in: folder)
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let handle = output.fileHandleForReading
        var line = Data()
        while let byte = try handle.read(upToCount: 1), byte != Data("\n".utf8) { line += byte }
        start = try JSONDecoder().decode(Start.self, from: line)
        Thread.detachNewThread { [told] in
            var rest = Data()
            while let more = try? handle.read(upToCount: 1), !more.isEmpty {
                guard more == Data("\n".utf8) else {
                    rest += more
                    continue
                }
                if let request = try? JSONDecoder().decode(Request.self, from: rest) {
                    told.requests.withLock { $0.append(request) }
                }
                rest = Data()
            }
        }
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: folder)
    }

    /// The requests with a path that ends so, once there are as many.
    func requests(_ name: String, count: Int = 1) async throws -> [Request] {
        while true {
            let found = told.requests.withLock { $0.filter { $0.path.contains("/" + name) } }
            if found.count >= count { return found }
            try await Task.sleep(for: .milliseconds(10))
        }
    }
}
