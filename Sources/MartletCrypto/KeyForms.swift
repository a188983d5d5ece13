// SPDX-License-Identifier: Apache-2.0
//
// The forms in which new keys leave libcrypto: SubjectPublicKeyInfo, and PKCS #8 as text. Rests on COpenSSL.
// Source: RFC 5280 (SubjectPublicKeyInfo), RFC 5208 and RFC 7468 (the private key's text).

import COpenSSL

/// A pair of keys that libcrypto could not make, with libcrypto's own words.
public struct KeyPairFailure: Error, CustomStringConvertible {
    public let description: String

    /// The last failure of libcrypto.
    static var last: KeyPairFailure {
        var text = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(ERR_get_error(), &text, text.count)
        let words = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return KeyPairFailure(description: String(decoding: words, as: UTF8.self))
    }
}

enum KeyForms {
    /// SubjectPublicKeyInfo in DER.
    static func publicKey(of key: OpaquePointer) throws(KeyPairFailure) -> [UInt8] {
        try written { i2d_PUBKEY_bio($0, key) }
    }

    /// PKCS #8 as text, from `BEGIN PRIVATE KEY` to `END PRIVATE KEY`, and a line's end.
    static func privateKey(of key: OpaquePointer) throws(KeyPairFailure) -> String {
        let text = try written {
            PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil)
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// What a writer of libcrypto writes.
    private static func written(
        _ write: (OpaquePointer) -> Int32
    ) throws(KeyPairFailure) -> [UInt8] {
        guard let memory = BIO_new(BIO_s_mem()) else { throw .last }
        // The memory of a BIO is zeroed when the BIO is freed.
        defer { BIO_free(memory) }
        guard write(memory) == 1 else { throw .last }
        let waiting = BIO_ctrl_pending(memory)
        return [UInt8](unsafeUninitializedCapacity: waiting) { bytes, count in
            count = max(0, Int(BIO_read(memory, bytes.baseAddress, Int32(waiting))))
        }
    }
}
