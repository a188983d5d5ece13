// SPDX-License-Identifier: Apache-2.0
//
// Keys to be created: server keys and registration keys, service-account keys, and ticket keys. Pure.

package import MartletBase

/// A server key or registration key to be created. The broker makes ID and digest.
package struct NewKey: Sendable {
    /// ID of the key, made by the broker.
    package var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    package var name: String
    /// Digest of the secret (REG-5). The broker returns the secret once and keeps only the digest.
    package var digest: SecretDigest

    package init(id: String, name: String, digest: SecretDigest) {
        self.id = id
        self.name = name
        self.digest = digest
    }
}

/// The public half of a service-account key to be created.
package struct NewServiceAccountKey: Sendable {
    /// ID of the key, 1 to `Limits.serviceAccountIDBytesMax` bytes (REG-5).
    package var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    package var name: String
    /// E-mail address of the service account, 1 to `Limits.clientEmailBytesMax` bytes (REG-5).
    package var clientEmail: String
    /// SubjectPublicKeyInfo in DER. The engine checks only the form (`RSAPublicKey`).
    package var publicKey: [UInt8]

    package init(id: String, name: String, clientEmail: String, publicKey: [UInt8]) {
        self.id = id
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
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
