// SPDX-License-Identifier: Apache-2.0
//
// Secrets: made from the system's random source, told once, kept only as SHA-256 digests. They have
// 256 random bits, so a fast hash is as good as a slow one: there is nothing to guess.
// Rests on swift-crypto.

import Crypto
package import MartletBase

/// Makes tokens and keys, and hashes what is presented.
package enum Credentials {
    static func token() -> Token { Token(bytes: random(Limits.tokenRandomBytes)) }

    /// A group's (GRP-1).
    static func groupKey(of project: ProjectNumber) -> GroupKey {
        GroupKey(random: random(Limits.groupKeyRandomBytes), of: project)
    }

    static func deviceKey() -> String { Base64URL.encode(random(Limits.deviceKeyRandomBytes)) }

    static func tokenSecret() -> String {
        Base64URL.encode(random(Limits.accessTokenSecretBytes))
    }

    /// `ID.SECRET`: the ID finds the record, the digest is of the whole text.
    static func serverKey() -> (id: String, text: String) {
        let id = Base64URL.encode(random(9))
        return (id, id + "." + Base64URL.encode(random(Limits.serverKeyRandomBytes)))
    }

    /// The ID part of a server key as a sender presents it.
    static func keyID(of serverKey: String) -> String {
        String(serverKey.prefix { $0 != "." })
    }

    package static func digest(_ secret: String) -> SecretDigest {
        SecretDigest(bytes: Array(SHA256.hash(data: Array(secret.utf8))))
    }

    /// A project's numeric sender ID: 12 digits.
    static func senderID() -> UInt64 { UInt64.random(in: 100_000_000_000...999_999_999_999) }

    /// Bytes whose text does not begin with a hyphen: a command would take it for an option.
    private static func random(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8]
        repeat {
            bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        } while bytes.first.map { $0 >> 2 == 62 } ?? false
        return bytes
    }
}
