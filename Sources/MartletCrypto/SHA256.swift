// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 of the system's libcrypto. The distribution keeps libcrypto up to date, and a build of the broker compiles
// no copy of a crypto library. Rests on COpenSSL.
// Source: FIPS 180-4.

import COpenSSL

/// SHA-256 of bytes that come in parts.
public struct SHA256: ~Copyable {
    /// Bytes of a digest.
    public static let bytesCount = 32

    /// The algorithm, looked up once, because a look-up costs more than the digest of a short text.
    private nonisolated(unsafe) static let algorithm: OpaquePointer = {
        guard let algorithm = EVP_MD_fetch(nil, "SHA2-256", nil) else {
            preconditionFailure("libcrypto has no SHA-256.")
        }
        return algorithm
    }()

    private let context: OpaquePointer

    /// Begins a digest.
    public init() {
        guard let context = EVP_MD_CTX_new(),
            EVP_DigestInit_ex2(context, Self.algorithm, nil) == 1
        else { preconditionFailure("libcrypto begins no digest: no memory is left.") }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds the next bytes.
    public mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// Adds the next bytes.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) {
        let isDone = EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1
        precondition(isDone, "libcrypto adds bytes to a digest that it began.")
    }

    /// The digest of all added bytes. Called once, after the last bytes.
    public mutating func finish() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.bytesCount) { digest, count in
            var written: UInt32 = 0
            let isDone = EVP_DigestFinal_ex(context, digest.baseAddress, &written) == 1
            precondition(isDone, "libcrypto ends a digest that it began.")
            count = Int(written)
        }
    }

    /// The digest of the bytes.
    public static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finish()
    }
}
