// SPDX-License-Identifier: Apache-2.0
//
// The cluster of `make cluster`: PostgreSQL with a standby, four processes of the program, SIGKILL and SIGSTOP. The
// script itself compares what was accepted with what has come, and the stores with each other.

import Foundation
import Testing

@Suite(
    "A cluster of processes",
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/lib/postgresql/15/bin/initdb"),
        "PostgreSQL 15 is not installed"),
    .timeLimit(.minutes(2)))
struct ClusterProcessTests {
    @Test("OPS-7 a killed and a frozen active node lose nothing, and a further node joins")
    func survives() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let process = Process()
        process.executableURL = root.appending(path: "Examples/cluster.sh")
        process.arguments = [Desk.executable.path, "40"]
        process.environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("MARTLET_")
        }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(
            decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(text)")
        #expect(text.contains("Accepted 40, received 40"), "\(text)")
        #expect(text.hasSuffix("Done.\n"), "\(text)")
    }
}
