// SPDX-License-Identifier: Apache-2.0
//
// A key pair on the curve P-256, for agreeing on the secret of an encrypted message (ECDH). Rests on COpenSSL.
// Source: RFC 5480 (the public key's form), RFC 5915 (the private key's form).

import COpenSSL

/// A key pair on P-256. libcrypto zeroes the private key when it is freed.
package final class P256Key: @unchecked Sendable {
    /// A number or point that isn't on the curve, or a failure of libcrypto.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Bytes of a private key, and of a coordinate.
    package static let scalarBytes = 32
    /// Bytes of a public key: 04, then both coordinates.
    package static let pointBytes = 65

    /// The public key: an uncompressed point.
    package let publicKey: [UInt8]
    /// Several threads may use it at once: agreeing on a secret doesn't change the key.
    private let key: OpaquePointer

    /// Makes a new pair.
    package convenience init() throws(Failure) {
        defer { ERR_clear_error() }
        guard let key = martlet_make_p256_key() else {
            throw Failure(description: "libcrypto could not make a P-256 key.")
        }
        try self.init(taking: key)
    }

    /// Takes a private key.
    /// - Parameter scalar: 32 bytes, the most significant first.
    package convenience init(scalar: [UInt8]) throws(Failure) {
        defer { ERR_clear_error() }
        guard scalar.count == Self.scalarBytes else { throw Self.noScalar }
        let der = Self.privatePrefix + scalar + Self.privateSuffix
        let read = der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_PrivateKey(EVP_PKEY_EC, nil, &position, bytes.count)
        }
        guard let read else { throw Self.noScalar }
        guard Self.isWhole(read) else {
            EVP_PKEY_free(read)
            throw Self.noScalar
        }
        try self.init(taking: read)
    }

    private static let noScalar = Failure(
        description: "The private key is not a 32-byte number on P-256.")

    /// Whether the private key lies between 1 and the curve's order. libcrypto doesn't check that when it reads one.
    private static func isWhole(_ key: OpaquePointer) -> Bool {
        guard let context = EVP_PKEY_CTX_new(key, nil) else { return false }
        defer { EVP_PKEY_CTX_free(context) }
        return EVP_PKEY_private_check(context) == 1
    }

    private init(taking key: OpaquePointer) throws(Failure) {
        var point = [UInt8](repeating: 0, count: Self.pointBytes)
        var count = 0
        let isWritten = EVP_PKEY_get_octet_string_param(
            key, OSSL_PKEY_PARAM_PUB_KEY, &point, point.count, &count)
        guard isWritten == 1, count == Self.pointBytes, point[0] == 4 else {
            EVP_PKEY_free(key)
            throw Failure(description: "libcrypto could not read the public key.")
        }
        publicKey = point
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// The private key: 32 bytes, the most significant first.
    package var scalar: [UInt8] {
        var number: OpaquePointer?
        let isTold = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1
        precondition(isTold, "libcrypto tells the private key of a pair.")
        defer { BN_clear_free(number) }
        return [UInt8](unsafeUninitializedCapacity: Self.scalarBytes) { bytes, count in
            count = Int(BN_bn2binpad(number, bytes.baseAddress, Int32(Self.scalarBytes)))
        }
    }

    /// The secret shared with the holder of another key pair: the first coordinate of the shared point.
    /// - Parameter point: the other public key.
    /// - Throws: if the point isn't on the curve.
    package func agreement(with point: [UInt8]) throws(Failure) -> [UInt8] {
        defer { ERR_clear_error() }
        guard let other = Self.publicKey(point) else {
            throw Failure(description: "The public key is not a point on P-256.")
        }
        defer { EVP_PKEY_free(other) }
        guard let context = EVP_PKEY_CTX_new(key, nil) else { throw Self.noAgreement }
        defer { EVP_PKEY_CTX_free(context) }
        var secret = [UInt8](repeating: 0, count: Self.scalarBytes)
        var count = secret.count
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer(context, other) == 1,
            EVP_PKEY_derive(context, &secret, &count) == 1, count == Self.scalarBytes
        else { throw Self.noAgreement }
        return secret
    }

    private static let noAgreement = Failure(description: "libcrypto could not agree on a secret.")

    /// Whether the bytes are a public key: an uncompressed point on the curve.
    package static func isPoint(_ bytes: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let key = publicKey(bytes) else { return false }
        EVP_PKEY_free(key)
        return true
    }

    private static func publicKey(_ point: [UInt8]) -> OpaquePointer? {
        guard point.count == pointBytes, point[0] == 4 else { return nil }
        return (publicPrefix + point).withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_PUBKEY(nil, &position, bytes.count)
        }
    }

    /// A SubjectPublicKeyInfo on P-256, up to the point.
    private static let publicPrefix: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08,
        0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]
    /// An ECPrivateKey on P-256 without its public key: what comes before the number, and after it.
    private static let privatePrefix: [UInt8] = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20]
    private static let privateSuffix: [UInt8] = [
        0xA0, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
    ]
}
