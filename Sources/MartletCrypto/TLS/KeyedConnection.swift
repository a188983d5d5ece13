// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.3 between two processes that share a secret. No certificates are needed: the secret proves each side to the
// other, and the keys of a connection are as fresh as those of any handshake (psk_dhe_ke of RFC 8446). The socket does
// not block, and its owner waits for it. Rests on OpenSSL.

internal import COpenSSL
internal import Glibc

/// A connection of two processes with a shared secret. Used by a single thread at a time.
package final class KeyedConnection {
    /// Bytes of a secret.
    package static let secretBytes = 32
    private static let identity = "martlet-node"

    /// The step of a connection.
    package enum Step: Hashable {
        /// Bytes read or written; for a handshake 0.
        case done(Int)
        case wantsToRead
        case wantsToWrite
        /// The peer has closed the connection, or TLS has failed.
        case ended(String)
    }

    private let context: OpaquePointer
    private let ssl: OpaquePointer
    private let secret: UnsafeMutableRawBufferPointer

    /// - Parameters:
    ///   - descriptor: a connected socket that does not block. The owner closes the socket.
    ///   - secret: 32 bytes; copied, and zeroed at the end.
    /// - Returns: nil if OpenSSL has no memory.
    package init?(_ descriptor: Int32, secret bytes: [UInt8], isServer: Bool) {
        precondition(bytes.count == Self.secretBytes, "A secret has 32 bytes.")
        guard let context = SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method())
        else { return nil }
        _ = martlet_ssl_ctx_require_tls13(context)
        martlet_ssl_ctx_disable_session_cache(context)
        SSL_CTX_set_num_tickets(context, 0)
        guard let ssl = SSL_new(context) else {
            SSL_CTX_free(context)
            return nil
        }
        self.context = context
        self.ssl = ssl
        secret = .allocate(byteCount: Self.secretBytes, alignment: 16)
        secret.copyBytes(from: bytes)
        _ = martlet_ssl_set_app_data(ssl, secret.baseAddress)
        if isServer {
            SSL_set_psk_server_callback(ssl) { ssl, identity, key, keyBytesMax in
                guard let identity, String(cString: identity) == KeyedConnection.identity else {
                    return 0
                }
                return KeyedConnection.copySecret(of: ssl, to: key, keyBytesMax)
            }
            SSL_set_accept_state(ssl)
        } else {
            SSL_set_psk_client_callback(ssl) {
                ssl, _, identity, identityBytesMax, key, keyBytesMax in
                let name = Array(KeyedConnection.identity.utf8CString)
                guard let identity, name.count <= Int(identityBytesMax) else { return 0 }
                for (index, byte) in name.enumerated() { identity[index] = byte }
                return KeyedConnection.copySecret(of: ssl, to: key, keyBytesMax)
            }
            SSL_set_connect_state(ssl)
        }
        // Bytes that wait may move in memory, and more may follow them.
        SSL_ctrl(
            ssl, SSL_CTRL_MODE,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER), nil)
        SSL_set_fd(ssl, descriptor)
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
        OPENSSL_cleanse(secret.baseAddress, secret.count)
        secret.deallocate()
    }

    private static func copySecret(
        of ssl: OpaquePointer?, to key: UnsafeMutablePointer<UInt8>?, _ keyBytesMax: UInt32
    ) -> UInt32 {
        guard let ssl, let secret = martlet_ssl_get_app_data(ssl), let key,
            keyBytesMax >= UInt32(secretBytes)
        else { return 0 }
        memcpy(key, secret, secretBytes)
        return UInt32(secretBytes)
    }

    package func shakeHands() -> Step { step(SSL_do_handshake(ssl)).map { _ in 0 } }

    package func read(into buffer: UnsafeMutableRawBufferPointer) -> Step {
        step(SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count)))
    }

    /// Writes bytes. After `wantsToRead` or `wantsToWrite` the same bytes are written again, and more may follow them.
    package func write(_ bytes: UnsafeRawBufferPointer) -> Step {
        step(SSL_write(ssl, bytes.baseAddress, Int32(clamping: min(bytes.count, 16_384))))
    }

    private func step(_ result: Int32) -> Step {
        guard result <= 0 else { return .done(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .wantsToRead
        case SSL_ERROR_WANT_WRITE: return .wantsToWrite
        case SSL_ERROR_ZERO_RETURN: return .ended("the peer closed the connection")
        case SSL_ERROR_SYSCALL:
            ERR_clear_error()
            return .ended("the connection was lost")
        default: return .ended(OpenSSLErrors.take())
        }
    }
}

extension KeyedConnection.Step {
    fileprivate func map(_ change: (Int) -> Int) -> Self {
        if case .done(let count) = self { .done(change(count)) } else { self }
    }
}
