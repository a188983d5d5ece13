// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about who may register (REG-7, TOP-10): policies, and new ticket keys. Rests on
// ServedRequest and MartletCrypto.

import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows
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
