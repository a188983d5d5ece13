// SPDX-License-Identifier: Apache-2.0
//
// `martlet apns key`: a project's keys for Apple's push service (GW-11). Rests on KeyCommands and KeyInput.

import ArgumentParser
import Martlet
import MartletAnswers

struct APNsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns", abstract: "Reach Apple devices through Apple's push service.",
        subcommands: [Key.self])

    struct Key: KeyKindCommand {
        static let configuration = CommandConfiguration(
            commandName: "key",
            abstract: "Add, list and remove a project's keys for Apple's push service.",
            subcommands: [Add.self, ListKeys<Self>.self, EndKey<Self>.self])

        static var kind: KeyKind<BridgeKeyAnswer> {
            KeyKind(
                listing: "List a project's keys for Apple's push service, without their secrets.",
                keys: {
                    try await $0.bridgeKeys(in: $1).filter { $0.kind == .apns }
                        .map { BridgeKeyAnswer($0) }
                },
                ending: "Remove a key: without another key, messages wait for devices to connect.",
                endingCommand: "remove",
                id: "The key ID, as `martlet apns key list` shows it.", action: "apns-key.remove",
                end: { try await $0.removeBridgeKey(.apns, $1, in: $2) }, ended: "Removed key",
                endAnswer: { Removed(keyID: $0) })
        }
    }

    struct Add: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a key, read from a file or from standard input.",
            discussion: """
                The file is AuthKey_….p8, as Apple's developer account gives it once. The data folder keeps \
                the key sealed. A key with a known ID is replaced; of several keys the newest is tried \
                first. A broker with `serve --apns` takes the key at once.
                """)

        @Argument(help: "The key ID: 10 characters.")
        var id: String

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp("The team ID: 10 characters.", valueName: "team"))
        var team: String

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "The file with the key (default: standard input).", valueName: "file"))
        var file: String?

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Added: Encodable {
            var project: String
            var keyID: String
            var team: String
        }

        func perform() async throws {
            let input = try KeyInput(path: file)
            try await folder.access.administrator(of: project) {
                try await $0.addAPNsKey(input.text, id: id, teamID: team, in: project)
            }
            try folder.access.note("apns-key.add", id, in: project)
            if output.json { return JSON.print(Added(project: project, keyID: id, team: team)) }
            Terminal.print("Added key \(id) of team \(team) to project \(project).")
        }
    }

    private struct Removed: Encodable {
        var keyID: String
        var removed = true
    }
}

extension BridgeKeyAnswer: ListedKeyAnswer {
    static var titles: [String] { ["KEY", "TEAM", "ADDED"] }
    var cells: [String] { [keyID, owner, created] }
}
