// SPDX-License-Identifier: Apache-2.0
//
// Authentication codes: HMAC with SHA-256 of the system's libcrypto. Codes are compared in constant time, and the
// memory of a secret is zeroed at its end. Rests on COpenSSL.
// Source: RFC 2104, RFC 4231.

import COpenSSL

/// A secret that makes and checks authentication codes.
public struct AuthenticationKey: Sendable {
    /// Bytes of a code.
    static let codeBytesCount = 32

    private let secret: ZeroedSecret

    /// - Parameter secret: copied; the copy is zeroed when the last copy of the key ends.
    public init(_ secret: [UInt8]) { self.secret = ZeroedSecret(secret) }

    /// The code of a message.
    public func code(of message: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.codeBytesCount) { code, count in
            var written: UInt32 = 0
            let result = secret.withBytes { key in
                HMAC(
                    EVP_sha256(), key.baseAddress, Int32(key.count), message, message.count,
                    code.baseAddress, &written)
            }
            precondition(result != nil, "libcrypto computes an HMAC.")
            count = Int(written)
        }
    }

    /// Whether the code is the message's. The time does not depend on the number of equal bytes.
    public func isCode(_ code: [UInt8], of message: [UInt8]) -> Bool {
        code.count == Self.codeBytesCount
            && CRYPTO_memcmp(self.code(of: message), code, code.count) == 0
    }
}

/// Memory of a secret, never moved, and zeroed at its end.
private final class ZeroedSecret: @unchecked Sendable {
    private let bytes: UnsafeMutableBufferPointer<UInt8>

    /// HMAC takes no null pointer for an empty secret, so the memory has a byte at least.
    init(_ secret: [UInt8]) {
        let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(secret.count, 1))
        memory.initialize(repeating: 0)
        _ = memory.update(fromContentsOf: secret)
        bytes = UnsafeMutableBufferPointer(rebasing: memory[..<secret.count])
    }

    func withBytes<Result>(_ body: (UnsafeMutableBufferPointer<UInt8>) -> Result) -> Result {
        body(bytes)
    }

    deinit {
        OPENSSL_cleanse(bytes.baseAddress, bytes.count)
        bytes.baseAddress?.deallocate()
    }
}
