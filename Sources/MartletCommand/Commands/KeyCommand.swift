// SPDX-License-Identifier: Apache-2.0
//
// `martlet key` and `martlet registration-key`: create, list and revoke server keys, and the keys with which devices
// register (REG-7). Rests on KeyCommands.

import ArgumentParser
import Martlet
import MartletAnswers

struct KeyCommand: IssuedKeyCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Create, list and revoke server keys.",
        subcommands: [CreateKey<Self>.self, ListKeys<Self>.self, EndKey<Self>.self])

    static var creating: KeyCreation {
        KeyCreation(
            abstract: "Create a server key. It is printed this once.",
            create: { try await $0.createServerKey(named: $1, in: $2) },
            note: { "Key \($0) of project \($1). It is not shown again; keep it secret." })
    }

    static var kind: KeyKind<KeyAnswer> {
        KeyKind(
            listing: "List a project's server keys, without their secrets.",
            keys: { try await $0.serverKeys(in: $1).map { KeyAnswer($0) } },
            ending: "Revoke a server key: its connections end, and no new one is opened with it.",
            id: "The key's ID, as `martlet key list` shows it.", action: "server-key.revoke",
            end: { try await $0.revokeServerKey($1, in: $2) })
    }
}

struct RegistrationKeyCommand: IssuedKeyCommand {
    static let configuration = CommandConfiguration(
        commandName: "registration-key",
        abstract: "Create, list and revoke the keys with which devices register.",
        subcommands: [CreateKey<Self>.self, ListKeys<Self>.self, EndKey<Self>.self])

    static var creating: KeyCreation {
        KeyCreation(
            abstract: "Create a registration key. It is printed this once.",
            discussion: """
                The key lies in the app and lets devices register, and nothing else. A project asks for one \
                while its policy is `martlet project set --registration key`.
                """,
            create: { try await $0.createRegistrationKey(named: $1, in: $2) },
            note: { "Registration key \($0) of project \($1). It is not shown again." })
    }

    static var kind: KeyKind<KeyAnswer> {
        KeyKind(
            listing: "List a project's registration keys, without their secrets.",
            keys: { try await $0.registrationKeys(in: $1).map { KeyAnswer($0) } },
            ending: "Revoke a registration key: no new device registers with it.",
            endingMore: """
                Devices that registered with it stay. If the data folder has the key in \
                registration-PROJECT.key, the file is removed.
                """,
            id: "The key's ID, as `martlet registration-key list` shows it.",
            action: "registration-key.revoke",
            end: { try await $0.revokeRegistrationKey($1, in: $2) },
            forget: { access, id, project in
                guard let file = access.forgetRegistrationKey(id, of: project) else { return }
                Terminal.printError(
                    "The file '\(file)' had this key and is removed; give `martlet listen` another "
                        + "key with --registration-key.")
            }, ended: "Revoked registration key")
    }
}
