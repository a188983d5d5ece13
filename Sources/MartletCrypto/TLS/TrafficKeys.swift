// SPDX-License-Identifier: Apache-2.0
//
// The keys of one direction of a connection: the secret, and key, initialisation vector and record number that follow
// from the secret. A plain value of 104 bytes, because a broker keeps two for each connection. Rests on KeySchedule.

internal import COpenSSL

/// The keys of one direction of a connection.
package struct TrafficKeys {
    /// 32 bytes. A vector would align the value to as many, and a broker has two values for each connection.
    private typealias Words = (UInt64, UInt64, UInt64, UInt64)

    /// The key, `keyBytes` long, and zeros.
    private var key: Words = (0, 0, 0, 0)
    /// The traffic secret, `hashBytes` long, and zeros. The next secret is derived from the secret (RFC 8446 §7.2).
    private var secretHead: Words = (0, 0, 0, 0)
    private var secretTail: (UInt64, UInt64) = (0, 0)
    /// The initialisation vector's first 4 and last 8 bytes, as they lie in memory.
    private var vectorHead: UInt32 = 0
    private var vectorTail: UInt64 = 0
    /// Number of the next record, from 0 for each key (RFC 8446 §5.3).
    var sequence: UInt64 = 0
    /// Number of this key among all keys of the record layer; 0 for no key. A cipher context remembers the number of
    /// the key that is set.
    var number: UInt64 = 0

    static let secretBytesMax = 48
    static let vectorBytes = 12

    init() {}

    init(
        _ suite: TLSCipherSuite, secret: UnsafeRawBufferPointer, sequence: UInt64, number: UInt64
    ) {
        precondition(secret.count == suite.hashBytes, "A secret has the bytes of its hash.")
        withUnsafeMutableBytes(of: &secretHead) {
            $0.copyMemory(from: .init(rebasing: secret[..<32]))
        }
        withUnsafeMutableBytes(of: &secretTail) {
            $0.copyMemory(from: .init(rebasing: secret[32...]))
        }
        derive(suite)
        self.sequence = sequence
        self.number = number
    }

    /// A key and an initialisation vector without a secret, as published test vectors have them.
    package init(
        _ suite: TLSCipherSuite, key given: Span<UInt8>, vector: Span<UInt8>, number: UInt64
    ) {
        precondition(given.count == suite.keyBytes, "A key has the bytes of its cipher.")
        precondition(vector.count == Self.vectorBytes, "A vector has 12 bytes.")
        given.withUnsafeBytes { given in
            withUnsafeMutableBytes(of: &key) { $0.copyMemory(from: given) }
        }
        vector.withUnsafeBytes { vector in
            vectorHead = vector.loadUnaligned(as: UInt32.self)
            vectorTail = vector.loadUnaligned(fromByteOffset: 4, as: UInt64.self)
        }
        self.number = number
    }

    /// RFC 8446 §7.3: key and initialisation vector from the secret.
    private mutating func derive(_ suite: TLSCipherSuite) {
        withSecret(suite) { secret in
            withUnsafeMutableBytes(of: &key) {
                KeySchedule.expandLabel(
                    suite, secret: secret, label: "key",
                    into: .init(rebasing: $0[..<suite.keyBytes]))
            }
            withUnsafeTemporaryAllocation(byteCount: Self.vectorBytes, alignment: 8) { vector in
                KeySchedule.expandLabel(suite, secret: secret, label: "iv", into: vector)
                vectorHead = vector.loadUnaligned(as: UInt32.self)
                vectorTail = vector.loadUnaligned(fromByteOffset: 4, as: UInt64.self)
            }
        }
    }

    /// RFC 8446 §7.2: replaces secret and keys by the next. Records are numbered from 0 again.
    mutating func update(_ suite: TLSCipherSuite, number: UInt64) {
        withUnsafeTemporaryAllocation(byteCount: suite.hashBytes, alignment: 8) { next in
            withSecret(suite) {
                KeySchedule.expandLabel(suite, secret: $0, label: "traffic upd", into: next)
            }
            self = TrafficKeys(
                suite, secret: UnsafeRawBufferPointer(next), sequence: 0, number: number)
            OPENSSL_cleanse(next.baseAddress, next.count)
        }
    }

    private func withSecret<R>(
        _ suite: TLSCipherSuite, _ body: (UnsafeRawBufferPointer) -> R
    ) -> R {
        var secret = (secretHead, secretTail)
        return withUnsafeMutableBytes(of: &secret) { bytes in
            defer { OPENSSL_cleanse(bytes.baseAddress, bytes.count) }
            return body(UnsafeRawBufferPointer(rebasing: bytes[..<suite.hashBytes]))
        }
    }

    /// Calls `body` with the key and the next record's nonce: the vector, with the record's number on its last bytes
    /// (RFC 8446 §5.3).
    @inline(__always)
    mutating func withNonce<R>(
        _ body: (UnsafePointer<UInt8>, UnsafePointer<UInt8>) -> R
    ) -> R {
        let tail = vectorTail ^ sequence.bigEndian
        var nonce = (UInt64(0), UInt64(0))
        return withUnsafeMutableBytes(of: &nonce) { nonce in
            nonce.storeBytes(of: vectorHead, as: UInt32.self)
            nonce.storeBytes(of: tail, toByteOffset: 4, as: UInt64.self)
            return withUnsafeBytes(of: &key) { key in
                body(
                    key.baseAddress!.assumingMemoryBound(to: UInt8.self),
                    nonce.baseAddress!.assumingMemoryBound(to: UInt8.self))
            }
        }
    }
}
