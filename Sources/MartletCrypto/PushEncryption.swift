// SPDX-License-Identifier: Apache-2.0
//
// Encrypts a message for a subscription, so that no push service on the way can read it:
//
//   secret   = HKDF(authentication, ECDH(own key, subscription's key), "WebPush: info" ‖ 0 ‖ both public keys)
//   key      = HKDF(salt, secret, "Content-Encoding: aes128gcm" ‖ 0), and the nonce likewise
//   body     = salt 16 ‖ record size 4 ‖ 65 ‖ own public key 65 ‖ AES-128-GCM(text ‖ 02) ‖ code 16
//
// Each message gets a fresh key pair and salt, and is a single record. Rests on P256Key and COpenSSL.
// Source: RFC 8291, RFC 8188, RFC 5869.

import COpenSSL

/// The keys of a subscription, as the browser gives them to the page.
package struct PushRecipient: Sendable, Hashable {
    /// Bytes of the authentication secret.
    package static let authenticationBytes = 16

    /// `p256dh`: an uncompressed point on P-256.
    package let publicKey: [UInt8]
    /// `auth`: a secret that the push service doesn't know.
    package let authentication: [UInt8]

    /// - Returns: nil if the key isn't a point on the curve or the secret has the wrong length.
    package init?(publicKey: [UInt8], authentication: [UInt8]) {
        guard P256Key.isPoint(publicKey), authentication.count == Self.authenticationBytes else {
            return nil
        }
        self.publicKey = publicKey
        self.authentication = authentication
    }
}

/// The content coding `aes128gcm` of a Web Push message.
package enum PushEncryption {
    /// Longest body that every push service takes, in bytes. Source: RFC 8030, section 7.2.
    package static let bodyBytesMax = 4096
    /// Longest text: a body less its head (86 bytes), the mark of the last record (1) and the code (16).
    package static let textBytesMax = bodyBytesMax - headBytes - 1 - codeBytes

    package static let saltBytes = 16
    private static let headBytes = saltBytes + 4 + 1 + P256Key.pointBytes
    private static let codeBytes = 16
    private static let recordBytes: UInt32 = 4096
    private static let keyBytes = 16
    private static let nonceBytes = 12
    /// Follows the text of the last record (RFC 8188).
    private static let lastRecord: UInt8 = 2

    /// The body of a message.
    /// - Parameter text: at most `textBytesMax` bytes.
    package static func encrypt(
        _ text: [UInt8], to recipient: PushRecipient
    ) throws(P256Key.Failure) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        let salt = (0..<saltBytes).map { _ in UInt8.random(in: 0...255, using: &generator) }
        return try encrypt(text, to: recipient, by: P256Key(), salt: salt)
    }

    /// The body of a message, with a given key pair and salt. Never use the same ones twice.
    package static func encrypt(
        _ text: [UInt8], to recipient: PushRecipient, by own: P256Key, salt: [UInt8]
    ) throws(P256Key.Failure) -> [UInt8] {
        precondition(text.count <= textBytesMax, "A text that is encrypted fits in a record.")
        precondition(salt.count == saltBytes, "A salt has 16 bytes.")
        let agreement = try own.agreement(with: recipient.publicKey)
        let keys = recipient.publicKey + own.publicKey
        let secret = derive(
            salt: recipient.authentication, from: agreement, for: "WebPush: info", keys, 32)
        let key = derive(
            salt: salt, from: secret, for: "Content-Encoding: aes128gcm", [], keyBytes)
        let nonce = derive(salt: salt, from: secret, for: "Content-Encoding: nonce", [], nonceBytes)
        var body = salt
        body.reserveCapacity(headBytes + text.count + 1 + codeBytes)
        for shift: UInt32 in [24, 16, 8, 0] {
            body.append(UInt8(truncatingIfNeeded: recordBytes >> shift))
        }
        body.append(UInt8(P256Key.pointBytes))
        body += own.publicKey
        body += try sealed(text + [lastRecord], key, nonce)
        return body
    }

    /// HKDF with SHA-256, one block.
    private static func derive(
        salt: [UInt8], from material: [UInt8], for purpose: String, _ context: [UInt8], _ count: Int
    ) -> [UInt8] {
        let extracted = AuthenticationKey(salt).code(of: material)
        let information = Array(purpose.utf8) + [0] + context + [1]
        return Array(AuthenticationKey(extracted).code(of: information).prefix(count))
    }

    /// AES-128-GCM: the ciphertext and its code.
    private static func sealed(
        _ text: [UInt8], _ key: [UInt8], _ nonce: [UInt8]
    ) throws(P256Key.Failure) -> [UInt8] {
        defer { ERR_clear_error() }
        let failure = P256Key.Failure(description: "libcrypto could not encrypt.")
        guard let context = EVP_CIPHER_CTX_new() else { throw failure }
        defer { EVP_CIPHER_CTX_free(context) }
        var sealed = [UInt8](repeating: 0, count: text.count + codeBytes)
        var written: Int32 = 0
        var rest: Int32 = 0
        let isDone = sealed.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else {
                return false
            }
            return EVP_EncryptInit_ex2(context, EVP_aes_128_gcm(), key, nonce, nil) == 1
                && EVP_EncryptUpdate(context, start, &written, text, Int32(text.count)) == 1
                && EVP_EncryptFinal_ex(context, start + Int(written), &rest) == 1
                && Int(written + rest) == text.count
                && EVP_CIPHER_CTX_ctrl(
                    context, EVP_CTRL_AEAD_GET_TAG, Int32(codeBytes), start + text.count) == 1
        }
        guard isDone else { throw failure }
        return sealed
    }
}
