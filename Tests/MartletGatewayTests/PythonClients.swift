// SPDX-License-Identifier: Apache-2.0
//
// The official clients in Python, which `make python-sdks` installs below `.build`, and how a test runs
// them. Rests on Foundation.

import Foundation
import Synchronization
import Testing

enum PythonClients {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    /// Which clients a test runs.
    enum Version: String, CaseIterable {
        case pinned = ".build/python-sdks"
        /// The newest of PyPI's when they were installed.
        case newest = ".build/python-sdks-newest"
    }

    /// The newest that these tests have passed with.
    static let newestKnown = "7.7.0"
    @TaskLocal static var version = Version.pinned
    private static var environment: URL { root.appending(path: version.rawValue) }
    static var python: URL { environment.appending(path: "bin/python") }
    static let page = root.appending(path: "Sources/Martlet/Martlet.docc/AdminSDK.md")

    static var areInstalled: Bool {
        Version.allCases.allSatisfy {
            FileManager.default.fileExists(
                atPath: root.appending(path: $0.rawValue).appending(path: "installed").path)
        }
    }

    /// nil before they are installed.
    static var sitePackages: URL? {
        guard areInstalled else { return nil }
        let library = environment.appending(path: "lib")
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: library.path)) ?? []
        return versions.first { $0.hasPrefix("python3") }.map {
            library.appending(path: "\($0)/site-packages")
        }
    }

    static func script(_ name: String) -> String {
        root.appending(path: "Tests/Python/\(name)").path
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// What a script prints.
    /// - Throws: `Failure` with what it complains of if it ends with another status than 0.
    static func run(_ arguments: [String], in folder: URL? = nil) async throws -> String {
        let process = Process()
        let output = Pipe()
        let errors = Pipe()
        process.executableURL = python
        process.arguments = ["-B"] + arguments
        process.currentDirectoryURL = folder
        process.standardOutput = output
        process.standardError = errors
        return try await withCheckedThrowingContinuation { continuation in
            // Waiting blocks, and the gateway that is called runs in tasks of this process.
            Thread.detachNewThread {
                do { try process.run() } catch { return continuation.resume(throwing: error) }
                let said = Mutex(Data())
                let reading = DispatchGroup()
                DispatchQueue.global().async(group: reading) {
                    let data = errors.fileHandleForReading.readDataToEndOfFile()
                    said.withLock { $0 = data }
                }
                let printed = output.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                reading.wait()
                guard process.terminationStatus == 0 else {
                    let complaint = String(decoding: said.withLock { $0 }, as: UTF8.self)
                    return continuation.resume(throwing: Failure(description: complaint))
                }
                continuation.resume(returning: String(decoding: printed, as: UTF8.self))
            }
        }
    }
}
