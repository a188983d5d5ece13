// SPDX-License-Identifier: Apache-2.0
//
// Pages that use FCM's web SDK, against a real `martlet`: each scenario of `web_clients.py` has
// brokers of its own, as processes, and a push service of others in Python. Rests on Desk.

import Foundation
import Testing

@Suite("GW-11 Web clients, against the program", .serialized, .timeLimit(.minutes(5)))
struct WebClientTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let readers = root.appending(path: ".build/python-sdks-push")
    private static let services = root.appending(path: ".build/python-sdks")

    static var areInstalled: Bool {
        [readers, services].allSatisfy {
            FileManager.default.fileExists(atPath: $0.appending(path: "installed").path)
        }
    }

    private func run(_ arguments: [String]) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = Self.readers.appending(path: "bin/python")
        process.arguments =
            ["-B", Self.root.appending(path: "Tests/Python/web_clients.py").path]
            + [Desk.executable.path, Self.services.appending(path: "bin/python").path] + arguments
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
        "GW-11 REG-3 REG-7 REP-1 the scenarios of pages",
        .enabled(if: areInstalled, "make python-sdks installs http_ece and h2"),
        arguments: ["door", "registrations", "services", "kills", "addresses"])
    func scenario(_ name: String) throws {
        let (status, text) = try run([name])
        #expect(status == 0, "\(text)")
    }

    @Test(
        "Each scenario of the script is run",
        .enabled(if: areInstalled, "make python-sdks installs http_ece and h2"))
    func all() throws {
        let listed = try run(["--list"]).text.split(separator: "\n").compactMap {
            $0.split(separator: "\t").first.map(String.init)
        }
        #expect(listed.count == 5)
    }
}
