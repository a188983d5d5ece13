// SPDX-License-Identifier: Apache-2.0
//
// `martlet registration-key`: creates, lists and revokes the keys with which devices register (REG-7). A key's text is
// printed once, on standard output, and is kept nowhere. Rests on DataFolderAccess and KeyAnswers.

import ArgumentParser
import Martlet
import MartletAnswers

struct RegistrationKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "registration-key",
        abstract: "Create, list and revoke the keys with which devices register.",
        subcommands: [Create.self, List.self, Revoke.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a registration key. It is printed this once.",
            discussion: """
                The key lies in the app and lets devices register, and nothing else. A project asks for one \
                while its policy is `martlet project set --registration key`.
                """)

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(parsing: .unconditional, help: "What people call it.")
        var name = "default"

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let key = try await folder.access.administrator(of: project) {
                try await $0.createRegistrationKey(named: name, in: project)
            }
            try folder.access.note("registration-key.create", key.id, in: project)
            output.print(
                key, of: project,
                note: "Registration key \(key.id) of project \(project). It is not shown again.")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's registration keys, without their secrets.")

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let keys = try await folder.access.administrator(of: project) {
                try await $0.registrationKeys(in: project)
            }
            output.print(keys.map { KeyAnswer($0) })
        }
    }

    struct Revoke: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a registration key: no new device registers with it.",
            discussion: """
                Devices that registered with it stay. If the data folder has the key in \
                registration-PROJECT.key, the file is removed.
                """)

        @Argument(help: "The key's ID, as `martlet registration-key list` shows it.")
        var id: String

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            try await folder.access.administrator(of: project) {
                try await $0.revokeRegistrationKey(id, in: project)
            }
            try folder.access.note("registration-key.revoke", id, in: project)
            if let file = try folder.access.forgetRegistrationKey(id, of: project) {
                Terminal.printError(
                    "The file '\(file)' had this key and is removed; give `martlet listen` another key "
                        + "with --registration-key.")
            }
            output.printRevoked(id, of: project, kind: "registration key")
        }
    }
}
