// SPDX-License-Identifier: Apache-2.0
//
// Keys of a project. A new key is in the answer of its creation, and never again (REG-5, REG-7). Rests on the embedding
// API.

import Martlet
import MartletAnswers
import MartletGateway

extension ConsoleRoute {
    private static let name = Field("name", .string, "A name for people.")

    static let keys = [
        ConsoleRoute(
            "keys.list", .get, "projects/{project}/keys", .role(.administrator),
            "List the keys of every kind.",
            answer: "`serverKeys`, `registrationKeys`, `serviceAccounts` and `ticketKeys`, each as "
                + "the command's `list --json` prints it.",
            schema: .keys
        ) { call in
            let (broker, project) = (call.broker, call.project)
            return .json(
                AllKeysAnswer(
                    serverKeys: try await broker.serverKeys(in: project).map { KeyAnswer($0) },
                    registrationKeys: try await broker.registrationKeys(in: project)
                        .map { KeyAnswer($0) },
                    serviceAccounts: try await broker.serviceAccounts(in: project)
                        .map { ServiceAccountAnswer($0) },
                    ticketKeys: try await broker.ticketKeys(in: project)
                        .map { TicketKeyAnswer($0) }))
        },
        ConsoleRoute(
            "keys.create", .post, "projects/{project}/keys/server", .role(.administrator),
            "Create a server key.", body: [name],
            answer: "As `martlet key create --json` prints it.",
            schema: .newKey
        ) { call in
            try await created(call, "key.create") { (broker, name, project) in
                try await broker.createServerKey(named: name, in: project)
            }
        },
        ConsoleRoute(
            "registrationKeys.create", .post, "projects/{project}/keys/registration",
            .role(.administrator), "Create a registration key.", body: [name],
            answer: "As `martlet registration-key create --json` prints it.",
            schema: .newKey
        ) { call in
            try await created(call, "registration-key.create") { (broker, name, project) in
                try await broker.createRegistrationKey(named: name, in: project)
            }
        },
        ConsoleRoute(
            "serviceAccounts.create", .post, "projects/{project}/keys/service-account",
            .role(.administrator), "Create a service-account key for SDKs.", body: [name],
            answer: "`keyID`, and in `file` the file for SDKs.",
            schema: .newServiceAccount
        ) { call in
            var call = call
            let name = try call.text(ifThere: "name") ?? ""
            try call.finish()
            let file = try ServiceAccountFile(
                projectID: call.project, tokenURI: call.tokenURL)
            try await call.broker.createServiceAccount(
                keyID: file.keyID, named: name, clientEmail: file.clientEmail,
                publicKey: file.publicKey, in: call.project)
            try await call.note("service-account.create", file.keyID, in: call.project)
            return .json(NewServiceAccountAnswer(keyID: file.keyID, file: file.json))
        },
        ConsoleRoute(
            "keys.revoke", .delete, "projects/{project}/keys/{kind}/{key}", .role(.administrator),
            "Revoke a key; kinds: server, registration, service-account, ticket.",
            answer: "As `martlet key revoke --json` prints it.",
            schema: .revokedKey
        ) { call in
            let (broker, project, key) = (call.broker, call.project, call["key"])
            switch call["kind"] {
            case "server": try await broker.revokeServerKey(key, in: project)
            case "registration": try await broker.revokeRegistrationKey(key, in: project)
            case "service-account": try await broker.revokeServiceAccount(key, in: project)
            case "ticket": try await broker.revokeTicketKey(key, in: project)
            default:
                throw MartletError(
                    .invalidArgument,
                    "A kind is server, registration, service-account or ticket.", field: "kind")
            }
            try await call.note("\(call["kind"])-key.revoke", key, in: project)
            return .json(RevokedKeyAnswer(keyID: key))
        },
    ]

    private static func created(
        _ call: ConsoleCall, _ action: String,
        _ create: (Broker, String, String) async throws -> IssuedKey
    ) async throws -> ConsoleReply {
        var call = call
        let name = try call.text(ifThere: "name") ?? ""
        try call.finish()
        let key = try await create(call.broker, name, call.project)
        try await call.note(action, key.id, in: call.project)
        return .json(NewKeyAnswer(project: call.project, keyID: key.id, key: key.text))
    }
}

private struct AllKeysAnswer: Encodable {
    var serverKeys: [KeyAnswer]
    var registrationKeys: [KeyAnswer]
    var serviceAccounts: [ServiceAccountAnswer]
    var ticketKeys: [TicketKeyAnswer]
}

private struct NewServiceAccountAnswer: Encodable {
    var keyID: String
    /// The text of the file, with the private key.
    var file: String
}
