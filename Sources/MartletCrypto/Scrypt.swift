// SPDX-License-Identifier: Apache-2.0
//
// Digests of passwords: scrypt of the system's libcrypto. The digest needs much memory on purpose, so that a thief of the
// digests can try few passwords at a time. Rests on COpenSSL.
// Source: RFC 7914.

import COpenSSL

/// The digest of a password, slow and memory-hard.
public enum Scrypt {
    /// Bytes of a digest.
    public static let bytesCount = 32
    /// The block size r of RFC 7914. With cost 15 a digest takes 128 · r · 2^15 bytes: 32 MiB.
    private static let blockSize: UInt64 = 8
    /// Memory that libcrypto may take, in bytes: the 32 MiB of cost 15, the 64 MiB of cost 16, and the rest of the state.
    private static let bytesMax: UInt64 = 80 << 20

    /// The digest of a password.
    /// - Parameters:
    ///   - salt: random bytes, another 16 for each password.
    ///   - cost: the binary logarithm of N, 10 to 16.
    /// - Returns: nil for a cost outside the range, and without memory.
    public static func hash(_ password: String, salt: [UInt8], cost: Int) -> [UInt8]? {
        guard (10...16).contains(cost) else { return nil }
        var digest = [UInt8](repeating: 0, count: bytesCount)
        let count = password.utf8.count
        let isDone = EVP_PBE_scrypt(
            password, count, salt, salt.count, 1 << UInt64(cost), blockSize, 1, bytesMax, &digest,
            digest.count)
        return isDone == 1 ? digest : nil
    }

    /// Whether two digests are equal. The time does not depend on the number of equal bytes.
    public static func isEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0
    }
}
