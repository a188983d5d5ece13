// SPDX-License-Identifier: Apache-2.0
//
// What a new device presents, checked on the thread of its loop (REG-7): a ticket's signature is verified here, and
// strangers are refused on a snapshot, so that they do not reach the committer. Rests on MartletCrypto and the
// engine's authentication.

import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows
import MartletStore

extension NewInstance {
    /// Makes a new instance of a device that may register.
    /// - Throws: `PERMISSION_DENIED` if the device lacks what the project's policy wants, or there is no such project;
    ///   `StorageError`.
    init(
        admitting credential: RegistrationCredential, to project: String, app: String,
        platform: Platform, token: Token = Credentials.token(), deviceKey: String, now: Instant,
        store: Store, channel: AgentChannel? = nil
    ) throws {
        self.init(
            project: project, app: app, platform: platform, token: token,
            keyDigest: Credentials.digest(deviceKey), channel: channel)
        // Before a look at the project, so that the answer does not tell whether there is one.
        if let fault = Authentication.fault(inAppName: app) { throw fault }
        let new = self
        proof = try store.read { (transaction) throws in
            var admitted = new
            switch credential {
            case .none: break
            case .key(let text):
                admitted.proof = .key(
                    id: Credentials.keyID(of: text), digest: Credentials.digest(text))
            case .ticket(let text):
                admitted.proof = try RegistrationProof.ticket(text, of: new, now, transaction)
            }
            if let refusal = try Authentication.refusal(of: admitted, at: now, in: transaction) {
                throw refusal
            }
            return admitted.proof
        }
    }
}

extension RegistrationProof {
    /// REG-10: what is wrong with the text of a ticket is told whatever the project, so it does not tell whether there is
    /// one.
    /// - Returns: `none` if the project wants no ticket, because an unused ticket stays good.
    fileprivate static func ticket(
        _ text: String, of new: NewInstance, _ now: Instant, _ storage: borrowing Transaction
    ) throws -> RegistrationProof {
        let project = try storage.projects.project(id: new.project)
        let policy = try project.map {
            try storage.registrations.policies(of: $0.number).registration
        }
        guard policy != .open else { return .none }
        let ticket = try Ticket(parsing: text)
        guard let project, policy == .ticket else { return .none }
        let keys = try storage.registrations.ticketKeys(of: project.number).filter {
            !$0.isRevoked
        }
        // A ticket without `kid` has one key alone to be tried, so a stranger's ticket costs one verification.
        let key = keys.first { $0.id == ticket.keyID ?? keys[0].id }
        guard let key, ticket.keyID != nil || keys.count == 1,
            ticket.verifies(with: VerificationKey(key.algorithm, material: key.material))
        else { throw MartletError.notAdmitted }
        let claims = try ticket.accepted(
            for: Ticket.Purpose(project: new.project, app: new.app, platform: new.platform),
            at: now)
        return .ticket(
            VerifiedTicket(
                keyID: key.id, digest: Credentials.digest(key.id + " " + claims.identity),
                expires: claims.expires, topics: claims.topics))
    }
}
