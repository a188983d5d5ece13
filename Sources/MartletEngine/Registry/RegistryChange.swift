// SPDX-License-Identifier: Apache-2.0
//
// Changes that an administrator makes to the registrations of a project (REG-7, REG-8), and what a new device proves.
// Rests on the records.

package import MartletBase
import MartletRows

/// A change of a project's policies, keys or apps.
package enum RegistryChange: Sendable {
    /// REG-7, TOP-10: changes the policies. nil leaves a policy unchanged.
    case policies(registration: RegistrationPolicy?, topics: TopicPolicy?)
    case createRegistrationKey(NewKey)
    case revokeRegistrationKey(id: String)
    /// REG-7: adds a key that verifies tickets. The caller has checked that the material is a key of the algorithm.
    case createTicketKey(NewTicketKey)
    case revokeTicketKey(id: String)
    /// REG-8: makes an app.
    case createApp(name: String, platform: Platform)
    /// REG-8: deletes an app. The outcome comes when the deletion has begun. Later transactions unregister the
    /// instances, a bounded number each, and the place of the app is free after the last.
    case deleteApp(name: String, platform: Platform)

    /// OPS-12: whether the change keeps new data.
    var takesRoom: Bool {
        switch self {
        case .policies, .createRegistrationKey, .createTicketKey, .createApp: true
        case .revokeRegistrationKey, .revokeTicketKey, .deleteApp: false
        }
    }
}

/// A ticket key to be created.
package struct NewTicketKey: Sendable {
    /// ID of the key, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`: the `kid` of its tickets.
    package var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    package var name: String
    /// Algorithm of the key's tickets.
    package var algorithm: TicketAlgorithm
    /// The secret of HS256, or a SubjectPublicKeyInfo in DER.
    package var material: [UInt8]

    package init(id: String, name: String, algorithm: TicketAlgorithm, material: [UInt8]) {
        self.id = id
        self.name = name
        self.algorithm = algorithm
        self.material = material
    }
}

/// REG-7: what is known of a new device before its registration.
package enum RegistrationProof: Sendable {
    /// The device presented nothing.
    case none
    /// The embedding program registers the instance itself. No policy applies.
    case trusted
    /// The device presented a registration key. The engine compares the digest.
    case key(id: String, digest: SecretDigest)
    /// The device presented a ticket whose signature, app and platform are verified.
    case ticket(VerifiedTicket)
}

/// REG-7: a ticket with a verified signature.
package struct VerifiedTicket: Sendable {
    /// ID of the ticket key.
    package var keyID: String
    /// Identifies the ticket: two tickets with equal digests are one ticket.
    package var digest: SecretDigest
    /// End of the ticket.
    package var expires: Instant
    /// TOP-10: topics that the device may subscribe itself to beside the project's policy.
    package var topics: [String]

    package init(keyID: String, digest: SecretDigest, expires: Instant, topics: [String] = []) {
        self.keyID = keyID
        self.digest = digest
        self.expires = expires
        self.topics = topics
    }
}
