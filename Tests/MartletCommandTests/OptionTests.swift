// SPDX-License-Identifier: Apache-2.0
//
// What all options of all commands have in common (OPS-1). Rests on the description of the commands that ArgumentParser
// prints.

import ArgumentParser
import Foundation
import MartletCommand
import Testing

@Suite("Options of all commands")
struct OptionTests {
    private struct Command: Decodable {
        struct Argument: Decodable {
            var kind: String
            var valueName: String?
            var parsingStrategy: String
        }

        var commandName: String
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

    @Test("OPS-1 an option takes the next word, whatever it begins with: --title '-5 degrees'")
    func hyphens() throws {
        let tool = try JSONDecoder().decode(
            Tool.self, from: Data(RootCommand._dumpHelp().utf8))
        // A broker takes settings, and none of them begins with a hyphen.
        let commands = (tool.command.subcommands ?? []).filter {
            !["serve", "gateway"].contains($0.commandName)
        }
        #expect(commands.count > 30)
        for option in commands.flatMap({ Self.options(of: $0) }) {
            #expect(option.parsing == "unconditional", "\(option.place)")
        }
    }
}
