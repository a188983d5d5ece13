// SPDX-License-Identifier: Apache-2.0
//
// The Web Push door of a real `martlet`: pywebpush from PyPI sends, and a user agent in Python receives. Each scenario
// of `push_scenarios.py` has a broker of its own, as a process. Rests on Desk.

import Foundation
import Testing

@Suite("Web Push, against the program", .serialized, .timeLimit(.minutes(5)))
struct WebPushTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let environment = root.appending(path: ".build/python-sdks-push")

    static var isInstalled: Bool {
        FileManager.default.fileExists(atPath: environment.appending(path: "installed").path)
    }

    private func run(_ arguments: [String]) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = Self.environment.appending(path: "bin/python")
        process.arguments =
            ["-B", Self.root.appending(path: "Tests/Python/push_scenarios.py").path]
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
        "GW-12 GW-13 MSG-11 the scenarios of senders and user agents",
        .enabled(if: isInstalled, "make python-sdks installs pywebpush"),
        arguments: [
            "dialects", "rfc8291", "heads", "vapid", "answers", "withdrawals", "absence",
            "repetition", "identities", "registrations", "mailbox", "urgency", "retries", "kills",
            "hostility", "stopping",
        ])
    func scenario(_ name: String) throws {
        let (status, text) = try run([name])
        #expect(status == 0, "\(text)")
    }

    @Test(
        "Each scenario of the script is run",
        .enabled(if: isInstalled, "make python-sdks installs pywebpush"))
    func all() throws {
        let listed = try run(["--list"]).text.split(separator: "\n").compactMap {
            $0.split(separator: "\t").first.map(String.init)
        }
        #expect(listed.count == 16)
    }
}
