// SPDX-License-Identifier: Apache-2.0
//
// The cipher suites of TLS 1.3 that the device port speaks (Source: RFC 8446 §9.1, B.4). Rests on OpenSSL for the
// hash functions.

internal import COpenSSL

/// A cipher suite by its registered number.
public enum TLSCipherSuite: UInt16, Sendable, CaseIterable {
    case aes128GCM = 0x1301
    case aes256GCM = 0x1302
    case chaCha20Poly1305 = 0x1303

    /// Bytes of a key (Source: RFC 5116 §5.1 and §5.2, RFC 8439 §2.8).
    public var keyBytes: Int { self == .aes128GCM ? 16 : 32 }

    /// Bytes of a hash value, and so of a secret (Source: RFC 8446 §7.1).
    public var hashBytes: Int { self == .aes256GCM ? 48 : 32 }

    /// Place in tables with an entry per suite.
    var number: Int { Int(rawValue - 0x1301) }

    /// The hash function of the suite.
    var digest: OpaquePointer? { self == .aes256GCM ? EVP_sha384() : EVP_sha256() }

    /// The cipher's name at OpenSSL.
    var cipherName: String {
        switch self {
        case .aes128GCM: "AES-128-GCM"
        case .aes256GCM: "AES-256-GCM"
        case .chaCha20Poly1305: "ChaCha20-Poly1305"
        }
    }
}
