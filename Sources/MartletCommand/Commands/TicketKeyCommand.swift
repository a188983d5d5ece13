// SPDX-License-Identifier: Apache-2.0
//
// `martlet ticket-key`: adds, lists and revokes the keys that verify tickets (REG-7). Rests on KeyCommands
// and KeyInput.

import ArgumentParser
import Martlet
import MartletAnswers

struct TicketKeyCommand: KeyKindCommand {
    static let configuration = CommandConfiguration(
        commandName: "ticket-key",
        abstract: "Add, list and revoke the keys that verify tickets of devices.",
        subcommands: [Add.self, ListKeys<Self>.self, EndKey<Self>.self])

    struct Add: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a key, read from a file or from standard input.",
            discussion: """
                For HS256 the input is the secret that the app's server signs with, 32 to 2048 bytes; a line \
                end behind a secret of printable ASCII is not part of it. For RS256 and ES256 the input is \
                the server's public key, from BEGIN PUBLIC KEY to END PUBLIC KEY, as `openssl pkey -pubout` \
                writes it. A project asks for tickets while its policy is \
                `martlet project set --registration ticket`.
                """)

        @Argument(help: "The key's ID: the `kid` of its tickets.")
        var id: String

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(parsing: .unconditional, help: "How the tickets are signed: hs256, rs256 or es256.")
        var algorithm: AlgorithmName

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "The file with the secret or the public key (default: standard input).",
                valueName: "file"))
        var file: String?

        @Option(parsing: .unconditional, help: "What people call it.")
        var name = "default"

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        enum AlgorithmName: String, ExpressibleByArgument, CaseIterable {
            case hs256, rs256, es256

            var algorithm: TicketAlgorithm {
                switch self {
                case .hs256: .hs256
                case .rs256: .rs256
                case .es256: .es256
                }
            }
        }

        private struct Added: Encodable {
            var project: String
            var keyID: String
            /// HS256, RS256 or ES256.
            var algorithm: String
        }

        func perform() async throws {
            let input = try KeyInput(path: file)
            let algorithm = algorithm.algorithm
            try await folder.access.administrator(of: project) { administrator in
                switch algorithm {
                case .hs256:
                    try await administrator.addTicketSecret(
                        input.secret, id: id, named: name, in: project)
                case .rs256, .es256:
                    try await administrator.addTicketKey(
                        input.text, for: algorithm, id: id, named: name, in: project)
                }
            }
            try folder.access.note("ticket-key.add", id, in: project)
            if output.json {
                return JSON.print(Added(project: project, keyID: id, algorithm: algorithm.name))
            }
            Terminal.print("Added ticket key \(id) (\(algorithm.name)) to project \(project).")
        }
    }

    static var kind: KeyKind<TicketKeyAnswer> {
        KeyKind(
            listing: "List a project's ticket keys, without their secrets.",
            keys: { try await $0.ticketKeys(in: $1).map { TicketKeyAnswer($0) } },
            ending: "Revoke a ticket key: its tickets are refused, and its secret is removed.",
            endingMore: "Devices that registered with its tickets stay.",
            id: "The key's ID, as `martlet ticket-key list` shows it.", action: "ticket-key.revoke",
            end: { try await $0.revokeTicketKey($1, in: $2) }, ended: "Revoked ticket key")
    }
}
