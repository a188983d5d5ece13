// SPDX-License-Identifier: Apache-2.0
//
// The key pair by which a project identifies itself to the push services of browsers (RFC 8292, GW-11). Pages subscribe with
// the public half. Rests on MartletCrypto.

import MartletBase
import MartletCrypto

/// A key pair of a project for Web Push, before the project has it.
package struct WebPushKey: Sendable {
    /// The public key in Base64URL, as `vapidKey` and `applicationServerKey` of pages.
    package let publicKey: String
    /// PKCS #8, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`.
    package let privateKey: String

    /// Makes a new pair.
    package init() throws(MartletError) {
        let text: String
        do { text = try P256PrivateKey().text } catch {
            throw MartletError(.internal, "No key pair can be made: \(error).")
        }
        try self.init(privateKey: text)
    }

    /// Takes a private key of a pair.
    /// - Throws: `INVALID_ARGUMENT` for any other text.
    package init(privateKey: String) throws(MartletError) {
        guard let key = SigningKey(pkcs8: Array(privateKey.utf8)) else {
            throw MartletError(
                .invalidArgument,
                """
                The private key is an ES256 key as text, from 'BEGIN PRIVATE KEY' to 'END PRIVATE \
                KEY'.
                """, field: "private_key")
        }
        self.privateKey = privateKey
        publicKey = Base64URL.encode(key.publicPoint)
    }
}
