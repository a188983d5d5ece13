// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about who may register (REG-7, TOP-10): policies, registration keys and ticket keys. The
// text of a registration key goes from here to the answer and never reaches the store. Rests on ServedRequest and
// MartletTicket.

import MartletBase
import MartletEngine
import MartletRows
import MartletTicket
import MartletWire

// MARK: Policies

extension FindPoliciesRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> PoliciesResult {
        try principal.checkAdministrator()
        return PoliciesResult(
            policies: try answerer.read {
                try $0.registrations.policies(
                    of: try Authentication.project(id: projectID, in: $0).number)
            })
    }
}

extension ChangePoliciesRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(
            .changeRegistry(
                project: projectID, .policies(registration: registration, topics: topics)))
    }
}

// MARK: Registration keys

extension CreateRegistrationKeyRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<RegistrationKeyResult> {
        try principal.checkAdministrator()
        let key = Credentials.serverKey()
        let new = NewKey(id: key.id, name: name, digest: Credentials.digest(key.text))
        return .command(.changeRegistry(project: projectID, .createRegistrationKey(new))) { _ in
            .answer(RegistrationKeyResult(keyID: key.id, registrationKey: key.text))
        }
    }
}

extension RevokeRegistrationKeyRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(.changeRegistry(project: projectID, .revokeRegistrationKey(id: keyID)))
    }
}

extension ListRegistrationKeysRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> RegistrationKeyPage {
        try principal.checkAdministrator()
        let keys = try answerer.read {
            try $0.registrations.registrationKeys(
                of: try Authentication.project(id: projectID, in: $0).number)
        }
        return RegistrationKeyPage(
            keys: keys.map {
                RegistrationKeySummary(
                    id: $0.id, name: $0.name, created: $0.created, isRevoked: $0.isRevoked)
            })
    }
}

// MARK: Ticket keys

extension AddTicketKeyRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        let material = try material()
        _ = try VerificationKey(validating: material, for: algorithm)
        return .command(
            .changeRegistry(
                project: projectID,
                .createTicketKey(
                    NewTicketKey(
                        id: keyID, name: name, algorithm: algorithm, material: material))))
    }

    /// The secret, or the public key in DER. A public key must not become a secret: everybody may read a public key.
    private func material() throws(MartletError) -> [UInt8] {
        switch algorithm {
        case .hs256:
            guard publicKey.isEmpty else {
                throw Self.refusal("HS256 has a secret and no public key.")
            }
            return secret
        case .rs256, .es256:
            guard secret.isEmpty else {
                throw Self.refusal("\(algorithm.name) has a public key and no secret.")
            }
            return try PublicKeyText.der(publicKey)
        }
    }

    private static func refusal(_ text: String) -> MartletError {
        MartletError(.invalidArgument, text, field: "ticket_key")
    }
}

extension RevokeTicketKeyRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(.changeRegistry(project: projectID, .revokeTicketKey(id: keyID)))
    }
}

extension ListTicketKeysRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TicketKeyPage {
        try principal.checkAdministrator()
        let keys = try answerer.read {
            try $0.registrations.ticketKeys(
                of: try Authentication.project(id: projectID, in: $0).number)
        }
        return TicketKeyPage(
            keys: keys.map {
                TicketKeySummary(
                    id: $0.id, name: $0.name, algorithm: $0.algorithm, created: $0.created,
                    isRevoked: $0.isRevoked)
            })
    }
}
