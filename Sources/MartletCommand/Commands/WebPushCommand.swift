// SPDX-License-Identifier: Apache-2.0
//
// `martlet webpush`: the key pairs with which a project sends to pages that use the web SDK (GW-11). Rests on
// KeyCommands and KeyInput.

import ArgumentParser
import Martlet
import MartletAnswers

struct WebPushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webpush",
        abstract: "Look after the keys with which a project sends to pages in browsers.",
        subcommands: [Key.self])

    struct Key: KeyKindCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create, list and remove key pairs.",
            subcommands: [Create.self, ListKeys<Self>.self, EndKey<Self>.self])

        static var kind: KeyKind<Answer> {
            KeyKind(
                listing: "List a project's key pairs by their public halves.",
                keys: { administrator, project in
                    try await administrator.bridgeKeys(in: project).filter { $0.kind == .webPush }
                        .map {
                            Answer(
                                project: project, key: $0.id, contact: $0.owner,
                                created: $0.created.iso8601)
                        }
                },
                ending: "Remove a key pair. Pages that subscribed with it get no more messages.",
                endingCommand: "remove",
                id: ArgumentHelp(
                    "The public half, as `martlet webpush key list` shows it.", valueName: "key"),
                action: "webpush.key.remove",
                end: { try await $0.removeBridgeKey(.webPush, $1, in: $2) },
                ended: "Revoked key pair")
        }
    }

    /// A key pair, without its private half.
    struct Answer: ListedKeyAnswer {
        var project: String
        var key: String
        var contact: String
        /// Instant of creation, in ISO 8601; nil for a key that was just added.
        var created: String?

        static var titles: [String] { ["PUBLIC KEY", "CONTACT", "CREATED"] }
        var cells: [String] { [key, contact, created ?? ""] }
    }

    struct Create: ReportingCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a project a key pair, and print its public half.",
            discussion: """
                A page subscribes with the public half: `getToken(messaging, {vapidKey: …})`. The private half \
                stays in the data folder, sealed.
                """)

        @Option(parsing: .unconditional, help: "The project.")
        var project: String

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "How operators of push services reach the sender: mailto:… or https:…. Some refuse "
                    + "messages without it.", valueName: "uri"))
        var contact = ""

        @Option(
            parsing: .unconditional,
            help: ArgumentHelp(
                "A file with a private key to take, from BEGIN PRIVATE KEY to END PRIVATE KEY "
                    + "(default: a new pair).", valueName: "file"))
        var file: String?

        @OptionGroup var folder: FolderOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard contact.isEmpty || contact.hasPrefix("mailto:") || contact.hasPrefix("https:")
            else { throw ValidationError("--contact begins with mailto: or https:.") }
        }

        func perform() async throws {
            let pair =
                if let file { try WebPushKey(privateKey: try KeyInput(path: file).text) } else {
                    try WebPushKey()
                }
            try await folder.access.administrator(of: project) {
                try await $0.addWebPushKey(
                    pair.privateKey, id: pair.publicKey, contact: contact, in: project)
            }
            try folder.access.note("webpush.key.create", pair.publicKey, in: project)
            if output.json {
                return JSON.print(
                    Answer(project: project, key: pair.publicKey, contact: contact, created: nil))
            }
            Terminal.print(pair.publicKey)
        }
    }
}
