// SPDX-License-Identifier: Apache-2.0
//
// An instance to be registered, and what its device proves (REG-7). Pure.

package import MartletBase
package import MartletRows

/// An instance to be registered. The broker makes the token and the device key.
package struct NewInstance: Sendable {
    /// ID of the project.
    package var project: String
    /// Package name or bundle ID, 1 to `Limits.appNameBytesMax` bytes (REG-1).
    package var app: String
    /// Platform of the app.
    package var platform: Platform
    /// Token of the new instance.
    package var token: Token
    /// Digest of the device key (REG-1). The device keeps the key.
    package var keyDigest: SecretDigest
    /// What is known of the device (REG-7).
    package var proof: RegistrationProof
    /// The channel of a user agent that the instance stands for; nil for other instances (GW-13).
    package var channel: AgentChannel?
    /// Where a push service reaches the instance; nil for other instances (GW-11).
    package var bridging: Bridging?

    package init(
        project: String, app: String, platform: Platform, token: Token, keyDigest: SecretDigest,
        proof: RegistrationProof = .none, channel: AgentChannel? = nil, bridging: Bridging? = nil
    ) {
        self.project = project
        self.app = app
        self.platform = platform
        self.token = token
        self.keyDigest = keyDigest
        self.proof = proof
        self.channel = channel
        self.bridging = bridging
    }
}

/// What is known of a new device before its registration (REG-7).
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

/// A ticket with a verified signature (REG-7).
package struct VerifiedTicket: Sendable {
    /// ID of the ticket key.
    package var keyID: String
    /// Identifies the ticket: two tickets with equal digests are one ticket.
    package var digest: SecretDigest
    /// End of the ticket.
    package var expires: Instant
    /// Topics that the device may subscribe itself to beside the project's policy (TOP-10).
    package var topics: [String]

    package init(keyID: String, digest: SecretDigest, expires: Instant, topics: [String] = []) {
        self.keyID = keyID
        self.digest = digest
        self.expires = expires
        self.topics = topics
    }
}
