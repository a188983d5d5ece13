// SPDX-License-Identifier: Apache-2.0
//
// SHA-1 of the system's libcrypto, for the one protocol that prescribes it: the opening handshake of WebSocket (RFC 6455),
// where the digest proves that a request was read and protects nothing. Rests on COpenSSL.
// Source: FIPS 180-4.

import COpenSSL

/// SHA-1. No secret may rest on it.
public enum SHA1 {
    /// Bytes of a digest.
    public static let bytesCount = 20

    /// The digest of the bytes.
    public static func hash(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: bytesCount) { digest, count in
            var written: UInt32 = 0
            let isDone =
                EVP_Digest(bytes, bytes.count, digest.baseAddress, &written, EVP_sha1(), nil) == 1
            precondition(isDone, "libcrypto computes a SHA-1.")
            count = Int(written)
        }
    }
}
