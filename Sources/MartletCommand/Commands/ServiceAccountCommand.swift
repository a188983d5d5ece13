// SPDX-License-Identifier: Apache-2.0
//
// `martlet service-account`: creates, lists and revokes service-account keys. The command makes the pair of keys: the
// printed file has the private key, and the broker gets the public key. Rests on KeyCommands.

import ArgumentParser
import Martlet
import MartletAnswers

struct ServiceAccountCommand: KeyKindCommand {
    static let configuration = CommandConfiguration(
        commandName: "service-account",
        abstract: "Create, list and revoke the keys that SDKs authenticate with.",
        subcommands: [Create.self, ListKeys<Self>.self, EndKey<Self>.self])

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a key, and print the JSON file that SDKs are given.",
            discussion: """
                The file is printed on standard output this once, or written with --output so that only \
                its owner can read it. Keep it secret. SDKs exchange what it holds for access tokens at \
                the gateway's /token.
                """)

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(parsing: .unconditional, help: "What people call it.")
        var name = "default"

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "The address of the gateway's /token, as SDKs reach it (default: where the gateway of "
                    + "this data folder serves, else \(Self.usualTokenURI)).", valueName: "url"))
        var tokenURI: String?

        @Option(
            name: .customLong("output"), parsing: .unconditional,
            help: ArgumentHelp(
                "Write the JSON to a new file that its owner alone can read.", valueName: "file"))
        var path: String?

        private static let usualTokenURI = "http://127.0.0.1:\(Limits.httpPort)/token"

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func perform() async throws {
            let file = try ServiceAccountFile(
                projectID: project,
                tokenURI: tokenURI ?? folder.access.tokenURI ?? Self.usualTokenURI)
            // The file comes first, because without a file nobody would have the registered key.
            let destination = try path.map {
                try SecretFile(creating: $0, holding: file.json + "\n", field: "output")
            }
            do {
                try await folder.access.administrator(of: project) {
                    try await register(file, $0)
                }
            } catch {
                // Otherwise the next attempt would find the file of a key that is not registered.
                destination?.remove()
                throw error
            }
            try folder.access.note("service-account.create", file.keyID, in: project)
            if destination == nil { Terminal.print(file.json) }
            Terminal.printError(
                "Key \(file.keyID) of project \(project). It is not shown again; keep it secret.")
        }

        private func register(
            _ file: ServiceAccountFile, _ administrator: any AdministratorInterface
        ) async throws {
            do {
                try await administrator.createServiceAccount(
                    keyID: file.keyID, named: name, clientEmail: file.clientEmail,
                    publicKey: file.publicKey, in: file.projectID)
            } catch {
                // The key may be registered if the answer was lost.
                if (error as? MartletError)?.word == .unavailable {
                    try? await administrator.revokeServiceAccount(file.keyID, in: project)
                }
                throw error
            }
        }
    }

    static var kind: KeyKind<ServiceAccountAnswer> {
        KeyKind(
            listing: "List a project's service-account keys.",
            keys: { try await $0.serviceAccounts(in: $1).map { ServiceAccountAnswer($0) } },
            ending: "Revoke a key, and at once every access token that was minted from it.",
            id: "The key's ID, as `martlet service-account list` shows it.",
            action: "service-account-key.revoke",
            end: { try await $0.revokeServiceAccount($1, in: $2) })
    }
}
