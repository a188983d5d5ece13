// SPDX-License-Identifier: Apache-2.0
//
// The JSON of keys: a new key once, the keys of a list, and a revocation. Property names are the names in the JSON output.
// Pure.

package import Martlet

package struct NewKeyAnswer: Encodable {
    package var project: String
    package var keyID: String
    /// The secret text of the key. No later answer has it.
    package var key: String

    package init(project: String, keyID: String, key: String) {
        self.project = project
        self.keyID = keyID
        self.key = key
    }
}

package struct RevokedKeyAnswer: Encodable {
    package var keyID: String
    package var revoked = true

    package init(keyID: String) { self.keyID = keyID }
}

package struct KeyAnswer: Encodable, Sendable {
    package var keyID: String
    package var name: String
    package var created: String
    package var revoked: Bool

    package init(_ key: KeySummary) {
        keyID = key.id
        name = key.name
        created = key.created.iso8601
        revoked = key.isRevoked
    }
}

package struct ServiceAccountAnswer: Encodable, Sendable {
    package var keyID: String
    package var name: String
    package var clientEmail: String
    package var created: String
    package var revoked: Bool

    package init(_ key: ServiceAccountSummary) {
        keyID = key.keyID
        name = key.name
        clientEmail = key.clientEmail
        created = key.created.iso8601
        revoked = key.isRevoked
    }
}

package struct TicketKeyAnswer: Encodable, Sendable {
    package var keyID: String
    package var name: String
    /// HS256, RS256 or ES256.
    package var algorithm: String
    package var created: String
    package var revoked: Bool

    package init(_ key: TicketKeySummary) {
        keyID = key.id
        name = key.name
        algorithm = key.algorithm.name
        created = key.created.iso8601
        revoked = key.isRevoked
    }
}

package struct BridgeKeyAnswer: Encodable, Sendable {
    /// `apns` or `webpush`.
    package var service: String
    package var keyID: String
    /// Apple's team ID, or the contact of a pair for Web Push.
    package var owner: String
    package var created: String

    package init(_ key: BridgeKeySummary) {
        service = key.kind.name
        keyID = key.id
        owner = key.owner
        created = key.created.iso8601
    }
}
