// SPDX-License-Identifier: Apache-2.0
//
// A new pair of RSA keys, as SubjectPublicKeyInfo and as PKCS #8. Rests on KeyForms.

import COpenSSL

/// A new pair of RSA keys.
public struct RSAKeyPair: Sendable {
    /// Bits of a key: 2048, as every reader of RS256 takes them (Source: RFC 7518, section 3.3).
    private static let bits: UInt32 = 2048

    /// The public key: SubjectPublicKeyInfo in DER.
    public let publicKey: [UInt8]
    /// The private key: PKCS #8 as text, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`, and a line's end.
    public let privateKey: String

    /// Makes a pair. The call takes some tenths of a second.
    public init() throws(KeyPairFailure) {
        defer { ERR_clear_error() }
        guard let key = martlet_make_rsa_key(Self.bits) else { throw .last }
        defer { EVP_PKEY_free(key) }
        publicKey = try KeyForms.publicKey(of: key)
        privateKey = try KeyForms.privateKey(of: key)
    }
}
