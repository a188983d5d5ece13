// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of a project (REG-5, REG-7): the broker serves all kinds of keys in one
// way. The text of a key goes from here to the answer and never reaches the store. Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

/// The answer with a short list: all keys of a kind, or all apps.
protocol ListAnswer: WireAnswer {
    associatedtype Entry
    init(correlation: UInt32, entries: [Entry])
}

extension KeyPage: ListAnswer {}
extension RegistrationKeyPage: ListAnswer {}
extension TicketKeyPage: ListAnswer {}
extension ServiceAccountPage: ListAnswer {}
extension BridgeKeyPage: ListAnswer {}
extension AppPage: ListAnswer {}

/// The question for a short list of a project.
protocol ServedList: ServedQuestion where Answer: ListAnswer {
    var projectID: String { get }
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [Answer.Entry]
}

extension ServedList {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> Answer {
        try principal.checkAdministrator()
        return Answer(
            correlation: 0,
            entries: try answerer.read {
                try Self.entries(of: try Authentication.project(id: projectID, in: $0), in: $0)
            })
    }
}

/// A request of an administrator that is one command, whose outcome is the answer.
protocol ServedCommand: ServedRequest where Answer == Done {
    var command: Command { get }
}

extension ServedCommand {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(command)
    }
}

/// The answer that tells the text of a new key.
protocol IssuedKeyAnswer: WireAnswer {
    init(correlation: UInt32, keyID: String, text: String)
}

extension KeyResult: IssuedKeyAnswer {}
extension RegistrationKeyResult: IssuedKeyAnswer {}

/// The request for a key whose text the broker makes.
protocol ServedKeyCreation: ServedRequest where Answer: IssuedKeyAnswer {
    var name: String { get }
    func creation(of key: NewKey) -> Command
}

extension ServedKeyCreation {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Answer> {
        try principal.checkAdministrator()
        let key = Credentials.serverKey()
        let new = NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))
        return .command(creation(of: new)) { _ in
            .answer(Answer(correlation: 0, keyID: key.id, text: key.text))
        }
    }
}

extension CreateKeyRequest: ServedKeyCreation {
    func creation(of key: NewKey) -> Command { .createKey(project: projectID, key: key) }
}

extension RevokeKeyRequest: ServedCommand {
    var command: Command { .revokeKey(project: projectID, keyID: keyID) }
}

extension ListKeysRequest: ServedList {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [KeySummary] {
        try storage.projects.serverKeys(of: project.number).map {
            KeySummary(id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }
}

extension CreateRegistrationKeyRequest: ServedKeyCreation {
    func creation(of key: NewKey) -> Command {
        .changeRegistry(project: projectID, .createRegistrationKey(key))
    }
}

extension RevokeRegistrationKeyRequest: ServedCommand {
    var command: Command {
        .changeRegistry(project: projectID, .revokeRegistrationKey(id: keyID))
    }
}

extension ListRegistrationKeysRequest: ServedList {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [KeySummary] {
        try storage.registrations.registrationKeys(of: project.number).map {
            KeySummary(id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }
}

extension RevokeTicketKeyRequest: ServedCommand {
    var command: Command { .changeRegistry(project: projectID, .revokeTicketKey(id: keyID)) }
}

extension ListTicketKeysRequest: ServedList {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [TicketKeySummary] {
        try storage.registrations.ticketKeys(of: project.number).map {
            TicketKeySummary(
                id: $0.id, name: $0.name, algorithm: $0.algorithm, created: $0.created,
                isRevoked: $0.isRevoked)
        }
    }
}

extension RevokeServiceAccountRequest: ServedCommand {
    var command: Command { .revokeServiceAccount(project: projectID, keyID: keyID) }
}

extension ListServiceAccountsRequest: ServedList {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [ServiceAccountSummary] {
        try storage.projects.serviceAccountKeys(of: project.number).map {
            ServiceAccountSummary(
                keyID: $0.id, name: $0.name, clientEmail: $0.clientEmail, created: $0.created,
                isRevoked: $0.isRevoked)
        }
    }
}
