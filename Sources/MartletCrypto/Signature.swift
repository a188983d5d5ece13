// SPDX-License-Identifier: Apache-2.0
//
// Verifies the signatures of tickets with the system's libcrypto. The broker's core takes libcrypto and not a copy of
// BoringSSL, because the distribution keeps libcrypto up to date. Rests on AuthenticationKey and COpenSSL.
// Source: RFC 7518, sections 3.2 to 3.4.

import COpenSSL
public import MartletBase

/// A key that verifies signatures.
public struct VerificationKey: Sendable {
    /// Bounds of an RSA key, in bits (Source: RFC 7518, section 3.3, for the lower bound). The upper bound limits the time
    /// that a stranger's ticket takes: some 0.1 ms, and four times as much with 8192 bits.
    private static let rsaBits: ClosedRange<Int32> = 2048...4096
    /// Bytes of a coordinate on P-256.
    private static let coordinateBytes = 32

    /// Algorithm of the signatures.
    public let algorithm: TicketAlgorithm
    private let material: [UInt8]

    /// Takes a key. A key that does not fit the algorithm verifies nothing.
    /// - Parameter material: the secret of HS256, or a SubjectPublicKeyInfo in DER.
    public init(_ algorithm: TicketAlgorithm, material: [UInt8]) {
        self.algorithm = algorithm
        self.material = material
    }

    /// Takes a key of an administrator.
    /// - Throws: `INVALID_ARGUMENT` if the material is no key of the algorithm.
    public init(validating material: [UInt8], for algorithm: TicketAlgorithm) throws(MartletError) {
        self.init(algorithm, material: material)
        if let fault { throw MartletError(.invalidArgument, fault, field: "ticket_key") }
    }

    private var fault: String? {
        switch algorithm {
        case .hs256:
            return (Limits.ticketSecretBytesMin...Limits.ticketKeyBytesMax)
                .contains(material.count)
                ? nil
                : """
                The secret of HS256 has \(Limits.ticketSecretBytesMin) to \
                \(Limits.ticketKeyBytesMax) bytes.
                """
        case .rs256:
            return withPublicKey { _ in true } ?? false
                ? nil : "RS256 takes a public RSA key of 2048 to 4096 bits: 'BEGIN PUBLIC KEY'."
        case .es256:
            return withPublicKey { _ in true } ?? false
                ? nil : "ES256 takes a public key on the curve P-256: 'BEGIN PUBLIC KEY'."
        }
    }

    /// Whether the signature is the key's, over the message.
    public func verifies(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        switch algorithm {
        case .hs256: return AuthenticationKey(material).isCode(signature, of: message)
        case .rs256: return hasSignature(signature, message)
        case .es256:
            guard signature.count == 2 * Self.coordinateBytes else { return false }
            return hasSignature(Self.derSignature(signature), message)
        }
    }

    private func hasSignature(_ signature: [UInt8], _ message: [UInt8]) -> Bool {
        withPublicKey { key in
            guard let context = EVP_MD_CTX_new() else { return false }
            defer { EVP_MD_CTX_free(context) }
            guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else {
                return false
            }
            return EVP_DigestVerify(
                context, signature, signature.count, message, message.count) == 1
        } ?? false
    }

    /// - Returns: nil if the material is not one public key that fits the algorithm, and nothing else.
    private func withPublicKey<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
        defer { ERR_clear_error() }
        return material.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            guard let key = d2i_PUBKEY(nil, &position, bytes.count) else { return nil }
            defer { EVP_PKEY_free(key) }
            guard let start = bytes.baseAddress, position == start + bytes.count, fits(key) else {
                return nil
            }
            return body(key)
        }
    }

    /// Keys of service accounts are stored without a check of their kind and size, so each use checks both.
    private func fits(_ key: OpaquePointer) -> Bool {
        switch algorithm {
        case .hs256: false
        case .rs256:
            EVP_PKEY_is_a(key, "RSA") == 1 && Self.rsaBits.contains(EVP_PKEY_get_bits(key))
        case .es256: Self.isOnP256(key)
        }
    }

    private static func isOnP256(_ key: OpaquePointer) -> Bool {
        guard EVP_PKEY_is_a(key, "EC") == 1 else { return false }
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return false }
        return name.prefix(count).elementsEqual("prime256v1".utf8.map { CChar($0) })
    }

    /// The two numbers of a signature as the DER that libcrypto reads: a sequence of two integers.
    static func derSignature(_ raw: [UInt8]) -> [UInt8] {
        let both =
            integer(raw.prefix(coordinateBytes)) + integer(raw.dropFirst(coordinateBytes))
        return [0x30, UInt8(both.count)] + both
    }

    /// A number in DER: without leading zeros, but for one before a set highest bit.
    private static func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var digits = Array(bytes.drop { $0 == 0 })
        if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
        return [0x02, UInt8(digits.count)] + digits
    }
}
