// SPDX-License-Identifier: Apache-2.0
//
// A new private key on the curve P-256, as PKCS #8. Rests on KeyForms.

import COpenSSL

/// A new private key on P-256.
public struct P256PrivateKey: Sendable {
    /// PKCS #8 as text, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`, and a line's end.
    public let text: String

    /// Makes a key.
    public init() throws(KeyPairFailure) {
        defer { ERR_clear_error() }
        guard let key = martlet_make_p256_key() else { throw .last }
        defer { EVP_PKEY_free(key) }
        text = try KeyForms.privateKey(of: key)
    }
}
