// SPDX-License-Identifier: Apache-2.0
//
// `martlet key`: create, list and revoke server keys. A key's text is printed once, on standard output, and is kept
// nowhere. Rests on DataFolderAccess and KeyAnswers.

import ArgumentParser
import Martlet
import MartletAnswers

struct KeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Create, list and revoke server keys.",
        subcommands: [Create.self, List.self, Revoke.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a server key. It is printed this once.")

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(parsing: .unconditional, help: "What people call it.")
        var name = "default"

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let key = try await folder.access.administrator(of: project) {
                try await $0.createServerKey(named: name, in: project)
            }
            try folder.access.note("key.create", key.id, in: project)
            output.print(
                key, of: project,
                note: "Key \(key.id) of project \(project). It is not shown again; keep it secret.")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's server keys, without their secrets.")

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let keys = try await folder.access.administrator(of: project) {
                try await $0.serverKeys(in: project)
            }
            output.print(keys.map { KeyAnswer($0) })
        }
    }

    struct Revoke: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a server key: its connections end, and no new one is opened with it.")

        @Argument(help: "The key's ID, as `martlet key list` shows it.")
        var id: String

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            try await folder.access.administrator(of: project) {
                try await $0.revokeServerKey(id, in: project)
            }
            try folder.access.note("server-key.revoke", id, in: project)
            output.printRevoked(id, of: project)
        }
    }
}
