// SPDX-License-Identifier: Apache-2.0
//
// A TLS client over memory: OpenSSL's whole client, which shares only the ciphers with what is tested. Rests on OpenSSL.

import COpenSSL

/// Settings of the client, kept between connections for resumption.
public final class TLSClientContext {
    public let context: OpaquePointer
    private var session: OpaquePointer?
    /// Names of protocols, each after its length (ALPN).
    public var protocols: [UInt8] = []

    public init(ciphers: String? = nil, groups: String? = nil) {
        context = SSL_CTX_new(TLS_client_method())
        if let ciphers { SSL_CTX_set_ciphersuites(context, ciphers) }
        if let groups { _ = martlet_ssl_ctx_set_groups(context, groups) }
    }

    deinit {
        SSL_SESSION_free(session)
        SSL_CTX_free(context)
    }

    /// Presents a certificate to servers that ask for one.
    public func present(certificate: String, key: String) {
        certificate.withCString { text in
            let input = BIO_new_mem_buf(text, -1)
            let parsed = PEM_read_bio_X509(input, nil, nil, nil)
            SSL_CTX_use_certificate(context, parsed)
            X509_free(parsed)
            BIO_free(input)
        }
        key.withCString { text in
            let input = BIO_new_mem_buf(text, -1)
            let parsed = PEM_read_bio_PrivateKey(input, nil, nil, nil)
            SSL_CTX_use_PrivateKey(context, parsed)
            EVP_PKEY_free(parsed)
            BIO_free(input)
        }
    }

    fileprivate func begin(_ ssl: OpaquePointer) {
        if let session { SSL_set_session(ssl, session) }
        if !protocols.isEmpty { SSL_set_alpn_protos(ssl, protocols, UInt32(protocols.count)) }
    }

    fileprivate func keep(_ ssl: OpaquePointer) {
        SSL_SESSION_free(session)
        session = SSL_get1_session(ssl)
    }
}

/// A connection of OpenSSL's client over memory.
public final class TLSClient {
    public let ssl: OpaquePointer
    private let input: OpaquePointer
    private let output: OpaquePointer
    private let settings: TLSClientContext

    public init(_ settings: TLSClientContext) {
        self.settings = settings
        ssl = SSL_new(settings.context)
        input = BIO_new(BIO_s_mem())
        output = BIO_new(BIO_s_mem())
        SSL_set_bio(ssl, input, output)
        SSL_set_connect_state(ssl)
        settings.begin(ssl)
    }

    deinit {
        // OpenSSL resumes no session of a connection that ended without close_notify.
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
    }

    /// Gives bytes of the server to the client.
    public func give(_ bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard !bytes.isEmpty else { return }
        BIO_write(input, bytes, Int32(bytes.count))
    }

    /// Bytes for the server since the last call.
    public func take() -> [UInt8] {
        let count = martlet_bio_pending(output)
        guard count > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: count)
        BIO_read(output, &bytes, Int32(count))
        return bytes
    }

    /// Goes on with the handshake.
    /// - Returns: whether the handshake is over.
    public func shake() -> Bool { SSL_do_handshake(ssl) == 1 }

    /// Writes data.
    public func write(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        let count = SSL_write(ssl, bytes, Int32(bytes.count))
        precondition(Int(count) == bytes.count, "Memory takes all bytes.")
    }

    /// Reads what can be read.
    public func read() -> [UInt8] {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 20_000)
        while case let count = SSL_read(ssl, &buffer, 20_000), count > 0 {
            all += buffer[..<Int(count)]
        }
        return all
    }

    /// Whether the server has sent close_notify.
    public var hasServerClosed: Bool { SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 }
    /// Sends close_notify.
    public func close() { SSL_shutdown(ssl) }
    /// Sends KEY UPDATE.
    public func updateKey(asking: Bool) { SSL_key_update(ssl, asking ? 1 : 0) }
    /// Keeps the session for resumption by the next connection.
    public func keepSession() { settings.keep(ssl) }
}

extension TLSClient {
    /// Whether the handshake resumed an earlier session.
    public var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    /// SHA-256 of the server's certificate.
    public var serverFingerprint: [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        guard let certificate = SSL_get0_peer_certificate(ssl) else { return [] }
        X509_digest(certificate, EVP_sha256(), &digest, nil)
        return digest
    }
}
