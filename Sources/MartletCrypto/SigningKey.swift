// SPDX-License-Identifier: Apache-2.0
//
// Private keys of P-256 that sign JSON Web Tokens (ES256), read from PKCS #8. Rests on COpenSSL and EditedText.
// Source: RFC 7518, section 3.4: a signature is r and s, 32 bytes each, big-endian. RFC 5208, RFC 7468: the text.

import COpenSSL
import MartletFiles

/// A private key of P-256.
public final class SigningKey: @unchecked Sendable {
    // The key never changes after its initialization, and libcrypto counts references atomically.
    private let key: OpaquePointer

    private static let coordinateBytes = 32

    /// Reads a key.
    /// - Parameter text: from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`.
    /// - Returns: nil for a text that is no private key of P-256.
    public init?(pkcs8 text: [UInt8]) {
        defer { ERR_clear_error() }
        let found = EditedText(text).bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            // The BIO reads the bytes in place, so it must not outlive the closure.
            let input = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
            defer { BIO_free(input) }
            // Without this callback OpenSSL would ask the terminal for a passphrase.
            return PEM_read_bio_PrivateKey(input, nil, { _, _, _, _ in -1 }, nil)
        }
        guard let read = found else { return nil }
        var name = [CChar](repeating: 0, count: 32)
        var count = 0
        guard EVP_PKEY_get_base_id(read) == EVP_PKEY_EC,
            EVP_PKEY_get_group_name(read, &name, name.count, &count) == 1,
            name.prefix(count).map({ UInt8(bitPattern: $0) }) == Array("prime256v1".utf8)
        else {
            EVP_PKEY_free(read)
            return nil
        }
        key = read
    }

    deinit { EVP_PKEY_free(key) }

    /// The signature of a message with SHA-256: 64 bytes.
    public func signature(of message: [UInt8]) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var size = 80
        var der = [UInt8](repeating: 0, count: size)
        let isSigned =
            EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestSign(context, &der, &size, message, message.count) == 1
        precondition(isSigned, "libcrypto signs with a key of P-256.")
        return Self.raw(Array(der.prefix(size)))
    }

    /// The public key: an uncompressed point, 65 bytes.
    public var publicPoint: [UInt8] {
        var size = 0
        EVP_PKEY_get_octet_string_param(key, "pub", nil, 0, &size)
        var point = [UInt8](repeating: 0, count: size)
        EVP_PKEY_get_octet_string_param(key, "pub", &point, size, &size)
        return point
    }

    /// The two numbers of a DER sequence of two short integers.
    private static func raw(_ der: [UInt8]) -> [UInt8] {
        var rest = der.dropFirst(2)
        var raw: [UInt8] = []
        for _ in 0..<2 {
            let count = Int(rest[rest.startIndex + 1])
            let number = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
            raw += [UInt8](repeating: 0, count: coordinateBytes - number.count) + number
            rest = rest.dropFirst(2 + count)
        }
        return raw
    }
}
