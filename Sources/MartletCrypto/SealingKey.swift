// SPDX-License-Identifier: Apache-2.0
//
// Sealing of secrets at rest: AES-256-GCM of the system's libcrypto, with a random nonce before the sealed bytes and the
// tag behind them. The associated bytes bind a secret to its place, so a sealed secret of one project opens in no other.
// Rests on COpenSSL.
// Source: NIST SP 800-38D.

import COpenSSL

/// A key that seals and opens secrets.
public struct SealingKey: Sendable {
    private static let nonceBytes = 12
    private static let tagBytes = 16

    private let key: [UInt8]

    /// - Parameter secret: any secret of 32 bytes at least. The key is made of the secret and the purpose.
    public init(from secret: [UInt8], for purpose: String) {
        key = AuthenticationKey(secret).code(of: Array(purpose.utf8))
    }

    /// Seals a secret.
    /// - Parameter place: bytes that the opener must present too.
    public func seal(_ secret: [UInt8], at place: [UInt8]) -> [UInt8] {
        var nonce = [UInt8](repeating: 0, count: Self.nonceBytes)
        precondition(RAND_bytes(&nonce, Int32(nonce.count)) == 1, "libcrypto gives random bytes.")
        var sealed = [UInt8](repeating: 0, count: secret.count)
        var tag = [UInt8](repeating: 0, count: Self.tagBytes)
        let context = Self.begin(key, nonce, place, direction: 1)
        defer { EVP_CIPHER_CTX_free(context) }
        var done: Int32 = 0
        let isSealed =
            EVP_EncryptUpdate(context, &sealed, &done, secret, Int32(secret.count)) == 1
            && EVP_EncryptFinal_ex(context, &tag, &done) == 1
            && EVP_CIPHER_CTX_ctrl(
                context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagBytes), &tag) == 1
        precondition(isSealed, "libcrypto seals bytes.")
        return nonce + sealed + tag
    }

    /// Opens a sealed secret.
    /// - Returns: nil for bytes that this key did not seal, or sealed for another place.
    public func open(_ sealed: [UInt8], at place: [UInt8]) -> [UInt8]? {
        let overhead = Self.nonceBytes + Self.tagBytes
        guard sealed.count >= overhead else { return nil }
        let nonce = Array(sealed.prefix(Self.nonceBytes))
        let bytes = Array(sealed.dropFirst(Self.nonceBytes).dropLast(Self.tagBytes))
        var tag = Array(sealed.suffix(Self.tagBytes))
        var secret = [UInt8](repeating: 0, count: bytes.count)
        var rest = [UInt8](repeating: 0, count: Self.tagBytes)
        let context = Self.begin(key, nonce, place, direction: 0)
        defer { EVP_CIPHER_CTX_free(context) }
        var done: Int32 = 0
        let isGenuine =
            EVP_CIPHER_CTX_ctrl(
                context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagBytes), &tag) == 1
            && EVP_DecryptUpdate(context, &secret, &done, bytes, Int32(bytes.count)) == 1
            && EVP_DecryptFinal_ex(context, &rest, &done) == 1
        return isGenuine ? secret : nil
    }

    private static func begin(
        _ key: [UInt8], _ nonce: [UInt8], _ place: [UInt8], direction: Int32
    ) -> OpaquePointer {
        let context = EVP_CIPHER_CTX_new()
        var done: Int32 = 0
        let isReady =
            EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce, direction) == 1
            && EVP_CipherUpdate(context, nil, &done, place, Int32(place.count)) == 1
        guard let context, isReady else { fatalError("OpenSSL has AES-256-GCM.") }
        return context
    }
}
