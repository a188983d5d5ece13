// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of a project (REG-5, REG-7): the broker serves all kinds of keys in one
// way. The text of a key goes from here to the answer and never reaches the store. Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

/// A kind of short lists that the broker reads.
protocol ServedListKind: ListedKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [Entry]
}

/// A kind of keys that the broker revokes.
protocol ServedKeyKind: KeyKind, ServedListKind {
    static func revocation(of id: String, in projectID: String) -> Command
}

/// A kind of keys whose text the broker makes.
protocol ServedIssuedKeyKind: IssuedKeyKind, ServedKeyKind {
    static func creation(of key: NewKey, in projectID: String) -> Command
}

extension ListRequest: ServedRequest, ServedQuestion where Kind: ServedListKind {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> ListResult<Kind> {
        try principal.checkAdministrator()
        return ListResult(
            entries: try answerer.read {
                try Kind.entries(of: try Authentication.project(id: projectID, in: $0), in: $0)
            })
    }
}

extension RevokeKey: ServedRequest where Kind: ServedKeyKind {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(Kind.revocation(of: keyID, in: projectID))
    }
}

extension CreateKey: ServedRequest where Kind: ServedIssuedKeyKind {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<IssuedKeyResult<Kind>> {
        try principal.checkAdministrator()
        let key = Credentials.serverKey()
        let new = NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))
        return .command(Kind.creation(of: new, in: projectID)) { _ in
            .answer(IssuedKeyResult(keyID: key.id, text: key.text))
        }
    }
}

extension ServerKeys: ServedIssuedKeyKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [KeySummary] {
        try storage.projects.serverKeys(of: project.number).map {
            KeySummary(id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }

    static func creation(of key: NewKey, in projectID: String) -> Command {
        .createKey(project: projectID, key: key)
    }

    static func revocation(of id: String, in projectID: String) -> Command {
        .revokeKey(project: projectID, keyID: id)
    }
}

extension RegistrationKeys: ServedIssuedKeyKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [KeySummary] {
        try storage.registrations.registrationKeys(of: project.number).map {
            KeySummary(id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
        }
    }

    static func creation(of key: NewKey, in projectID: String) -> Command {
        .changeRegistry(project: projectID, .createRegistrationKey(key))
    }

    static func revocation(of id: String, in projectID: String) -> Command {
        .changeRegistry(project: projectID, .revokeRegistrationKey(id: id))
    }
}

extension TicketKeys: ServedKeyKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [TicketKeySummary] {
        try storage.registrations.ticketKeys(of: project.number).map {
            TicketKeySummary(
                id: $0.id, name: $0.name, algorithm: $0.algorithm, created: $0.created,
                isRevoked: $0.isRevoked)
        }
    }

    static func revocation(of id: String, in projectID: String) -> Command {
        .changeRegistry(project: projectID, .revokeTicketKey(id: id))
    }
}

extension ServiceAccounts: ServedKeyKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [ServiceAccountSummary] {
        try storage.projects.serviceAccountKeys(of: project.number).map {
            ServiceAccountSummary(
                keyID: $0.id, name: $0.name, clientEmail: $0.clientEmail, created: $0.created,
                isRevoked: $0.isRevoked)
        }
    }

    static func revocation(of id: String, in projectID: String) -> Command {
        .revokeServiceAccount(project: projectID, keyID: id)
    }
}
