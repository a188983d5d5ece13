// SPDX-License-Identifier: Apache-2.0
//
// What all options of all commands have in common (OPS-1). Rests on the description of the commands that ArgumentParser
// prints.

import ArgumentParser
import Foundation
import MartletCommand
import TestSupport
import Testing

@Suite("Options of all commands")
struct OptionTests {
    private struct Command: Decodable {
        struct Name: Decodable { var name: String }

        struct Argument: Decodable {
            var kind: String
            var names: [Name]?
            var abstract: String?
            var valueName: String?
            var parsingStrategy: String
        }

        var commandName: String
        var discussion: String?
        var subcommands: [Command]?
        var arguments: [Argument]?
    }

    private struct Tool: Decodable { var command: Command }

    /// The options of a command and its subcommands, with the words before them.
    private static func options(
        of command: Command, after words: [String] = []
    ) -> [(place: String, parsing: String)] {
        let words = words + [command.commandName]
        let own = (command.arguments ?? []).filter { $0.kind == "option" }.map {
            (
                place: (words + [$0.valueName ?? ""]).joined(separator: " "),
                parsing: $0.parsingStrategy
            )
        }
        return own + (command.subcommands ?? []).flatMap { options(of: $0, after: words) }
    }

    private static func root() throws -> Command {
        try JSONDecoder().decode(Tool.self, from: Data(RootCommand._dumpHelp().utf8)).command
    }

    /// A command and its subcommands, with the words that call them.
    private static func all(
        _ command: Command, after words: [String] = []
    ) -> [(words: [String], command: Command)] {
        [(words, command)]
            + (command.subcommands ?? []).flatMap { all($0, after: words + [$0.commandName]) }
    }

    @Test("OPS-1 what a help text shows to be typed holds when it is copied into a shell")
    func copied() throws {
        for (words, command) in Self.all(try Self.root()) {
            for line in (command.discussion ?? "").split(separator: "\n") where line.first == " " {
                // A terminal breaks longer lines, and the manual page keeps the lines that begin so.
                #expect(line.count < 80 && line.hasPrefix("    "), "\(words): \(line)")
                // Whoever copies the line copies the remark too.
                guard let typed = line.firstRange(of: "martlet ") else { continue }
                let rest = line[typed.upperBound...]
                #expect(!rest.contains("  ") || rest.contains("  # "), "\(words): \(line)")
            }
            let texts =
                (command.arguments ?? []).compactMap(\.abstract) + [command.discussion ?? ""]
            for text in texts {
                // Bash takes it for a line of its history.
                #expect(!text.contains("!("), "\(words): \(text)")
            }
        }
    }

    @Test("OPS-1 an option takes the next word, whatever it begins with: --title '-5 degrees'")
    func hyphens() throws {
        // A broker takes settings, and none of them begins with a hyphen.
        let commands = (try Self.root().subcommands ?? []).filter {
            !["serve", "gateway"].contains($0.commandName)
        }
        #expect(commands.count > 30)
        for option in commands.flatMap({ Self.options(of: $0) }) {
            #expect(option.parsing == "unconditional", "\(option.place)")
        }
    }

    @Test("OPS-1 whoever gives an option what is no number of its range reads the range")
    func ranges() throws {
        let options = Self.all(try Self.root()).flatMap { words, command in
            (command.arguments ?? []).filter { $0.kind == "option" }.map { (words, $0) }
        }
        var count = 0
        // Without optimisation ArgumentParser checks every command that it parses: a part of the options is tried.
        for at in stride(from: 0, to: options.count, by: rounds(50) == 50 ? 1 : 4) {
            let (words, option) = options[at]
            let name = "--" + (option.names?.first?.name ?? "")
            do {
                _ = try RootCommand.parseAsRoot(words + [name, "x"])
            } catch {
                let message = RootCommand.message(for: error)
                // A word of a list is refused with the list.
                guard message.hasPrefix("The value 'x' is invalid for '\(name)"),
                    message.last == "'"
                else { continue }
                count += 1
                #expect(
                    RootCommand.fullMessage(for: error).contains(#/\d (?:to \d|or more)/#),
                    "\(words) \(name): \(option.abstract ?? "")")
            }
        }
        #expect(count > rounds(50))
    }
}
