// SPDX-License-Identifier: Apache-2.0
//
// Secrets, made from the system's random source. Device keys and server keys are told once, and the store has
// only SHA-256 digests of them. The keys have 256 random bits, so guessing is hopeless, and a fast hash is as
// good as a slow hash. Rests on MartletCrypto.

package import MartletBase
import MartletCrypto

/// Makes tokens and keys, and hashes presented secrets.
package enum Credentials {
    static func token() -> Token { Token(bytes: random(Limits.tokenRandomBytes)) }

    /// GRP-1: makes the notification key of a group.
    static func groupKey(of project: ProjectNumber) -> GroupKey {
        GroupKey(random: random(Limits.groupKeyRandomBytes), of: project)
    }

    static func deviceKey() -> String { Base64URL.encode(random(Limits.deviceKeyRandomBytes)) }

    static func tokenSecret() -> String {
        Base64URL.encode(random(Limits.accessTokenSecretBytes))
    }

    /// Makes a server key, `ID.SECRET`. The ID finds the record, and the digest is made of the whole text.
    static func serverKey() -> (id: String, text: String) {
        let id = Base64URL.encode(random(9))
        return (id, id + "." + Base64URL.encode(random(Limits.serverKeyRandomBytes)))
    }

    /// The ID part of a presented server key.
    static func keyID(of serverKey: String) -> String {
        String(serverKey.prefix { $0 != "." })
    }

    package static func digest(_ secret: String) -> SecretDigest {
        SecretDigest(bytes: SHA256.hash(Array(secret.utf8)))
    }

    /// Makes the numeric sender ID of a project: 12 digits.
    static func senderID() -> UInt64 { UInt64.random(in: 100_000_000_000...999_999_999_999) }

    /// Random bytes with a text that does not begin with a hyphen. A command would take such a text for an
    /// option.
    private static func random(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        var bytes: [UInt8]
        repeat {
            bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        } while bytes.first.map { $0 >> 2 == 62 } ?? false
        return bytes
    }
}
