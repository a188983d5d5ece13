// SPDX-License-Identifier: Apache-2.0
//
// The part of TLS 1.3's key schedule that a connection needs after its handshake: keys from a traffic secret, and the
// next secret from a secret (Source: RFC 8446 §7.1 to §7.3; RFC 5869 §2.3). Rests on OpenSSL's HMAC.

internal import COpenSSL

enum KeySchedule {
    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1). All results of the record layer are at most as long as
    /// a hash value, so HKDF-Expand is a single HMAC over the label and the counter 1 (RFC 5869 §2.3).
    static func expandLabel(
        _ suite: TLSCipherSuite, secret: UnsafeRawBufferPointer, label: StaticString,
        into output: UnsafeMutableRawBufferPointer
    ) {
        precondition(output.count <= suite.hashBytes, "A result has at most the bytes of a hash.")
        let labelBytes = label.utf8CodeUnitCount
        withUnsafeTemporaryAllocation(byteCount: 96 + labelBytes + 16, alignment: 8) { scratch in
            // struct HkdfLabel { uint16 length; opaque label<7..255> = "tls13 " + Label; opaque context<0..255>; }
            var count = 0
            func put(_ byte: UInt8) {
                scratch[count] = byte
                count += 1
            }
            put(UInt8(output.count >> 8))
            put(UInt8(truncatingIfNeeded: output.count))
            put(UInt8(6 + labelBytes))
            for byte in "tls13 ".utf8 { put(byte) }
            for index in 0..<labelBytes { put(label.utf8Start[index]) }
            put(0)
            put(1)
            let hash = scratch.baseAddress! + count
            var hashCount: UInt32 = 0
            let result = HMAC(
                suite.digest, secret.baseAddress, Int32(secret.count),
                scratch.baseAddress!.assumingMemoryBound(to: UInt8.self), count,
                hash.assumingMemoryBound(to: UInt8.self), &hashCount)
            precondition(
                result != nil && Int(hashCount) == suite.hashBytes, "OpenSSL computes an HMAC.")
            output.copyMemory(from: UnsafeRawBufferPointer(start: hash, count: output.count))
            OPENSSL_cleanse(hash, Int(hashCount))
        }
    }
}
