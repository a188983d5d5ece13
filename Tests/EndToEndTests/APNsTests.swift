// SPDX-License-Identifier: Apache-2.0
//
// The bridge of a real `martlet` to a server that behaves as Apple documents its push service, in Python with h2 from PyPI.
// aioapns from PyPI sends the same messages. Each scenario of `apns_scenarios.py` has a broker of its own, as a process.
// Rests on Desk.

import Foundation
import Testing

@Suite("APNs, against the program", .serialized, .timeLimit(.minutes(10)))
struct APNsTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let environment = root.appending(path: ".build/python-sdks-apns")

    static var isInstalled: Bool {
        FileManager.default.fileExists(atPath: environment.appending(path: "installed").path)
    }

    private func run(_ arguments: [String]) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = Self.environment.appending(path: "bin/python")
        process.arguments =
            ["-B", Self.root.appending(path: "Tests/Python/apns_scenarios.py").path]
            + [Desk.executable.path] + arguments
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

    @Test(
        "GW-11 GW-17 REG-3 MSG-5 the scenarios of the bridge to Apple's push service",
        .enabled(if: isInstalled, "make python-sdks installs aioapns and h2"),
        arguments: [
            "headers", "imports", "answers", "keys", "live", "silent", "kinds", "sending", "poison",
            "streams",
            "trust", "outages", "kills",
        ])
    func scenario(_ name: String) throws {
        let (status, text) = try run([name])
        #expect(status == 0, "\(text)")
    }

    @Test(
        "Each scenario of the bridge's script is run",
        .enabled(if: isInstalled, "make python-sdks installs aioapns and h2"))
    func all() throws {
        let listed = try run(["--list"]).text.split(separator: "\n").compactMap {
            $0.split(separator: "\t").first.map(String.init)
        }
        #expect(listed.count == 13)
    }
}
