// SPDX-License-Identifier: Apache-2.0
//
// `martlet key`: create, list and revoke server keys. A key's text is printed once, on standard
// output, and is kept nowhere. Rests on AdministratorAccess.

import ArgumentParser
import Martlet

struct KeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Create, list and revoke server keys.",
        subcommands: [Create.self, List.self, Revoke.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a server key. It is printed this once.")

        @Option(help: "The project.")
        var project: String

        @Option(help: "What people call it.")
        var name = "default"

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let access = try await folder.access.administrator()
            let key = try await access.createKey(name: name, in: project)
            try await access.close()
            if output.json { return JSON.print(key) }
            Terminal.print(key.key)
            Terminal.printError(
                "Key \(key.keyID) of project \(project). It is not shown again; keep it secret.")
        }
    }

    struct List: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "List a project's server keys, without their secrets.")

        @Option(help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let access = try await folder.access.administrator()
            let keys = try await access.keys(in: project)
            try await access.close()
            if output.json { return JSON.print(keys) }
            var table = Table(
                ("KEY ID", .left), ("NAME", .left), ("CREATED", .left), ("STATE", .left))
            for key in keys {
                table.add(key.keyID, key.name, key.created, key.revoked ? "revoked" : "valid")
            }
            Terminal.print(table.text)
        }
    }

    struct Revoke: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a server key: no new connection is opened with it.")

        @Argument(help: "The key's ID, as `martlet key list` shows it.")
        var id: String

        @Option(help: "The project.")
        var project: String

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        private struct Revoked: Encodable {
            var keyID: String
            var revoked = true
        }

        func perform() async throws {
            let access = try await folder.access.administrator()
            try await access.revokeKey(id, in: project)
            try await access.close()
            if output.json { return JSON.print(Revoked(keyID: id)) }
            Terminal.print("Revoked key \(id) of project \(project).")
        }
    }
}
