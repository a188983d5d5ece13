// SPDX-License-Identifier: Apache-2.0
//
// The console in a real browser: `Tests/Python/console_browser.py`, with Chromium and its driver of Debian, and Selenium in
// `.build/python-browser`, where `make console-test` installs these. The test is not for machines of others (CI), and runs
// once, on the transport that the broker chooses. Rests on Desk.

import Foundation
import Testing

@Suite("Console in a browser")
struct ConsoleBrowserTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let environment = root.appending(path: ".build/python-browser")

    private static var hasBrowser: Bool {
        let variables = ProcessInfo.processInfo.environment
        return variables["CI"] == nil && variables["MARTLET_TRANSPORT"] != "epoll"
            && FileManager.default.fileExists(atPath: environment.appending(path: "installed").path)
            && ["chromedriver", "chromium"].allSatisfy {
                FileManager.default.isExecutableFile(atPath: "/usr/bin/" + $0)
            }
    }

    @Test(
        "GW-9 a newcomer opens the link, composes to an exact audience, sees the message arrive, and sends again to the rest",
        .enabled(
            if: hasBrowser,
            "needs Chromium, its driver and Selenium (make console-test), and no CI"))
    func newcomer() throws {
        let process = Process()
        process.executableURL = Self.environment.appending(path: "bin/python")
        process.arguments = [
            "-B", Self.root.appending(path: "Tests/Python/console_browser.py").path,
            Desk.executable.path, Self.root.appending(path: ".build/console-pictures").path,
        ]
        process.environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("MARTLET_") || $0.key == "MARTLET_TRANSPORT"
        }
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        let complaint = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(String(decoding: complaint, as: UTF8.self))")
    }
}
