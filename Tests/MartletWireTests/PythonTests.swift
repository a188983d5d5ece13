// SPDX-License-Identifier: Apache-2.0
//
// The vectors against a second reader, written in Python from the document alone, and against the description of the protocol
// (NET-1). Needs python3 and nothing else; without it the tests say so and are skipped.

import Foundation
import MartletWire
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

@Suite struct PythonTests {
    @Test(
        "NET-1 the Python codec agrees with every vector and with the comments in it",
        .enabled(if: python != nil, "python3 is not installed"))
    func vectors() throws { try run("Tests/Python/check_vectors.py") }

    @Test(
        "NET-1 codecs and tables are those of the description, which says what every vector says",
        .enabled(if: python != nil, "python3 is not installed"))
    func description() throws { try run("Protocol/generate.py", "--check") }

    /// Runs a script of the repository, which must succeed.
    private func run(_ script: String, _ arguments: String...) throws {
        let root = Vectors.folder.deletingLastPathComponent().deletingLastPathComponent()
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: try #require(python))
        process.arguments = ["-B", root.appending(path: script).path] + arguments
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(
            decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(said)")
    }
}
