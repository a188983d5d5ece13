// SPDX-License-Identifier: Apache-2.0
//
// The article Commands is made of what the program says of its commands (OPS-1). Needs python3 and nothing else; without it
// the test says so and is skipped.

import ArgumentParser
import Foundation
import MartletCommand
import Testing

private let python = ["/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

@Suite struct ManualTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    /// What `manual.py` makes of the commands.
    private func made(_ arguments: [String]) throws -> (status: Int32, out: String) {
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: try #require(python))
        let script = Self.root.appending(path: "Packaging/manual.py")
        process.arguments = ["-B", script.path] + arguments
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        // The script reads everything before it writes.
        try input.fileHandleForWriting.write(contentsOf: Data(RootCommand._dumpHelp().utf8))
        try input.fileHandleForWriting.close()
        let out = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: out, as: UTF8.self))
    }

    @Test(
        "DOC the article Commands is what the program says of its commands: `make commands` writes it",
        .enabled(if: python != nil, "python3 is not installed"))
    func article() throws {
        let (status, article) = try made(["article"])
        let path = Self.root.appending(path: "Sources/Martlet/Martlet.docc/Commands.md")
        let committed = try String(contentsOf: path, encoding: .utf8)
        #expect(status == 0)
        let differing = zip(
            article.split(separator: "\n", omittingEmptySubsequences: false),
            committed.split(separator: "\n", omittingEmptySubsequences: false)
        ).first { $0 != $1 }
        #expect(article == committed, "\(differing.map { "\($0)" } ?? "One is longer.")")
    }

    @Test(
        "OPS-1 the manual page and the article have every command and every option",
        .enabled(if: python != nil, "python3 is not installed"),
        arguments: [["page", "0.1.0", "November 1, 2026"], ["article"]])
    func complete(_ form: [String]) throws {
        struct Tool: Decodable { var command: Command }
        struct Command: Decodable {
            struct Argument: Decodable {
                struct Name: Decodable { var kind, name: String }
                var names: [Name]?
                var shouldDisplay: Bool?
            }
            var commandName: String
            var subcommands: [Command]?
            var arguments: [Argument]?

            /// Its own and those of its subcommands, without their hyphens.
            var options: Set<String> {
                let shown = (arguments ?? []).filter { $0.shouldDisplay ?? true }
                let own = shown.flatMap { $0.names ?? [] }.filter { $0.kind == "long" }
                return (subcommands ?? []).filter { $0.commandName != "help" }
                    .reduce(into: Set(own.map(\.name))) { $0.formUnion($1.options) }
            }
        }
        let tool = try JSONDecoder().decode(Tool.self, from: Data(RootCommand._dumpHelp().utf8))
        let (status, text) = try made(form)
        #expect(status == 0)
        let plain = text.replacing("\\-", with: "-")
        for command in tool.command.subcommands ?? [] where command.commandName != "help" {
            #expect(plain.contains(command.commandName))
        }
        for option in tool.command.options.subtracting(["help", "version"]) {
            #expect(plain.contains("--" + option), "--\(option)")
        }
    }
}
