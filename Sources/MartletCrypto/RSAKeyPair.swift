// SPDX-License-Identifier: Apache-2.0
//
// A new pair of RSA keys, as SubjectPublicKeyInfo and as PKCS #8. Rests on COpenSSL.
// Source: RFC 5280 (SubjectPublicKeyInfo), RFC 5208 and RFC 7468 (the private key's text).

import COpenSSL

/// A new pair of RSA keys.
public struct RSAKeyPair: Sendable {
    /// A pair that libcrypto could not make, with libcrypto's own words.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Bits of a key: 2048, as every reader of RS256 takes them (Source: RFC 7518, section 3.3).
    private static let bits: UInt32 = 2048

    /// The public key: SubjectPublicKeyInfo in DER.
    public let publicKey: [UInt8]
    /// The private key: PKCS #8 as text, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`, and a line's end.
    public let privateKey: String

    /// Makes a pair. The call takes some tenths of a second.
    public init() throws(Failure) {
        defer { ERR_clear_error() }
        guard let key = martlet_make_rsa_key(Self.bits) else { throw Self.failure }
        defer { EVP_PKEY_free(key) }
        guard let memory = BIO_new(BIO_s_mem()) else { throw Self.failure }
        // The memory of a BIO is zeroed when the BIO is freed.
        defer { BIO_free(memory) }
        guard i2d_PUBKEY_bio(memory, key) == 1 else { throw Self.failure }
        publicKey = Self.contents(of: memory)
        guard PEM_write_bio_PKCS8PrivateKey(memory, key, nil, nil, 0, nil, nil) == 1 else {
            throw Self.failure
        }
        privateKey = String(decoding: Self.contents(of: memory), as: UTF8.self)
    }

    /// Takes everything out of a BIO.
    private static func contents(of memory: OpaquePointer) -> [UInt8] {
        let waiting = BIO_ctrl_pending(memory)
        return [UInt8](unsafeUninitializedCapacity: waiting) { bytes, count in
            count = max(0, Int(BIO_read(memory, bytes.baseAddress, Int32(waiting))))
        }
    }

    private static var failure: Failure {
        var text = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(ERR_get_error(), &text, text.count)
        let words = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return Failure(description: String(decoding: words, as: UTF8.self))
    }
}
