// SPDX-License-Identifier: Apache-2.0
//
// The JSON of commands about keys that are listed by ID and told once: server keys and registration keys. Property
// names are the names in the JSON output. Rests on Lists.

import Martlet

struct NewKeyAnswer: Encodable {
    var project: String
    var keyID: String
    /// The secret text of the key. No later answer has it.
    var key: String
}

struct KeyAnswer: Encodable {
    var keyID: String
    var name: String
    /// Instant of creation, in ISO 8601.
    var created: String
    var revoked: Bool

    init(_ key: ServerKeySummary) {
        keyID = key.id
        name = key.name
        created = key.created.iso8601
        revoked = key.isRevoked
    }

    init(_ key: RegistrationKeySummary) {
        keyID = key.id
        name = key.name
        created = key.created.iso8601
        revoked = key.isRevoked
    }
}

struct RevokedKeyAnswer: Encodable {
    var keyID: String
    var revoked = true
}
