// SPDX-License-Identifier: Apache-2.0
//
// A script of Tests/Python with scenarios, each of which starts brokers of its own, as processes. Rests on Desk.

import Foundation
import Testing

/// A script with scenarios.
struct ScenarioScript {
    private let name: String
    private let environments: [URL]

    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// - Parameters:
    ///   - name: the script's file.
    ///   - environments: folders of `.build`, which `make python-sdks` fills. The first one's Python runs the script, which
    ///     is told the others'.
    init(_ name: String, in environments: String...) {
        self.name = name
        self.environments = environments.map { Self.root.appending(path: ".build/\($0)") }
    }

    var isInstalled: Bool {
        environments.allSatisfy {
            FileManager.default.fileExists(atPath: $0.appending(path: "installed").path)
        }
    }

    /// Runs a scenario.
    func expect(_ scenario: String) throws {
        let (status, text) = try run([scenario])
        #expect(status == 0, "\(text)")
    }

    /// The number of scenarios that the script lists.
    func count() throws -> Int {
        try run(["--list"]).text.split(separator: "\n").count { $0.first != "\t" }
    }

    private func run(_ arguments: [String]) throws -> (status: Int32, text: String) {
        let pythons = environments.map { $0.appending(path: "bin/python") }
        let process = Process()
        process.executableURL = pythons[0]
        process.arguments =
            ["-B", Self.root.appending(path: "Tests/Python/\(name)").path, Desk.executable.path]
            + pythons.dropFirst().map(\.path) + arguments
        process.environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("MARTLET_") || $0.key == "MARTLET_TRANSPORT"
        }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: text, as: UTF8.self))
    }
}
