// SPDX-License-Identifier: Apache-2.0
//
// The settings of the server's side of handshakes: certificates and their keys, the authorities of client
// certificates, and the protocol's choices. A context does not change: reloaded certificates make another context, and
// handshakes that have begun end with theirs. Rests on OpenSSL and EditedText.

internal import COpenSSL
internal import Glibc
import MartletFiles
internal import Synchronization

/// Certificates and keys of a server, as PEM text in memory or in files.
public struct TLSCredentials: Sendable, Hashable {
    /// A text, or the file with the text.
    public enum Source: Sendable, Hashable {
        case text(String)
        case file(String)

        /// The name of the source in errors.
        var place: String {
            switch self {
            case .text: "The text"
            case .file(let path): path
            }
        }

        func read() throws(TLSSetupError) -> EditedText {
            switch self {
            case .text(let text): return EditedText(Array(text.utf8))
            case .file(let path):
                do throws(PrivateFile.Failure) { return try EditedText(contentsOf: path) } catch {
                    throw .unreadable(file: path, reason: error.text)
                }
            }
        }
    }

    /// The server's certificate, and the certificates that vouch for it.
    public var certificate: Source
    /// The certificate's private key, without a passphrase.
    public var key: Source
    /// Certificates of the authorities of which each client must present a certificate; nil: clients need none.
    public var clientAuthorities: Source?
    /// Lines of a project's ID and the subject of a certificate, in the form of RFC 2253: a client with the certificate
    /// is a sender of the project. Empty lines and lines that begin with `#` have no effect. nil: no certificate stands
    /// for a sender.
    public var clientSenders: Source?

    public init(
        certificate: Source, key: Source, clientAuthorities: Source? = nil,
        clientSenders: Source? = nil
    ) {
        self.certificate = certificate
        self.key = key
        self.clientAuthorities = clientAuthorities
        self.clientSenders = clientSenders
    }
}

/// The settings of handshakes. Immutable and shared by all loops.
public final class TLSServerContext: Sendable {
    /// The protocol's name in ALPN (RFC 7301).
    public static let protocolName = "martlet"

    /// OpenSSL's context, which counts its references and has locks of its own (Source: openssl-threads(7)).
    nonisolated(unsafe) let pointer: OpaquePointer
    /// OpenSSL's context refers to the keys without counting.
    private let ticketKeys: TLSTicketKeys
    /// SHA-256 of the certificate in DER form, by which clients can recognise the certificate.
    public let fingerprint: [UInt8]
    /// Projects by the subjects of certificates that stand for their senders.
    private let senders: [String: Set<String>]

    /// Whether a verified certificate stands for a sender of the project.
    public func isSender(subject: String, of projectID: String) -> Bool {
        senders[subject]?.contains(projectID) ?? false
    }
    /// First and last second of the certificate, since 1970.
    public let validity: (begin: Int64, end: Int64)

    /// Reads certificates and keys.
    public init(_ credentials: TLSCredentials, ticketKeys: TLSTicketKeys) throws(TLSSetupError) {
        senders = try Self.senders(credentials)
        ERR_clear_error()
        guard let context = SSL_CTX_new(TLS_server_method()) else {
            throw .refused(what: "TLS", reason: OpenSSLErrors.take())
        }
        pointer = context
        self.ticketKeys = ticketKeys
        var authorities: [UInt8] = []
        do throws(TLSSetupError) {
            try Self.setProtocol(context)
            (fingerprint, validity) = try Self.setCertificate(context, credentials)
            if let source = credentials.clientAuthorities {
                authorities = try source.read().bytes
                try Self.setAuthorities(context, authorities, place: source.place)
            }
        } catch {
            SSL_CTX_free(context)
            throw error
        }
        // A ticket of other authorities does not resume: its client may be trusted no more.
        var identity = [UInt8](repeating: 0, count: 32)
        EVP_Digest(authorities, authorities.count, &identity, nil, EVP_sha256(), nil)
        SSL_CTX_set_session_id_context(context, identity, UInt32(identity.count))
        _ = martlet_ssl_ctx_set_app_data(
            context, Unmanaged.passUnretained(ticketKeys).toOpaque())
    }

    deinit { SSL_CTX_free(pointer) }

    private static func senders(
        _ credentials: TLSCredentials
    ) throws(TLSSetupError) -> [String: Set<String>] {
        guard let source = credentials.clientSenders else { return [:] }
        // Without authorities no client is asked for a certificate.
        guard credentials.clientAuthorities != nil else {
            throw .sendersWithoutAuthorities(place: source.place)
        }
        var senders: [String: Set<String>] = [:]
        for (index, line) in try source.read().lines.enumerated() {
            guard let first = line.first, first != UInt8(ascii: "#") else { continue }
            let words = line.split(separator: UInt8(ascii: " "), maxSplits: 1)
            guard words.count == 2, let project = String(validating: words[0], as: UTF8.self),
                let subject = String(validating: words[1], as: UTF8.self), subject.contains("=")
            else { throw .badSenderLine(place: source.place, line: index + 1) }
            senders[subject, default: []].insert(project)
        }
        return senders
    }

    private static func setProtocol(_ context: OpaquePointer) throws(TLSSetupError) {
        SSL_CTX_set_options(context, martlet_ssl_options())
        let isSet =
            martlet_ssl_ctx_require_tls13(context) == 1
            && SSL_CTX_set_ciphersuites(
                context,
                "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1
            && martlet_ssl_ctx_set_groups(context, "X25519:P-256") == 1
            && SSL_CTX_set_num_tickets(context, TLSLimits.ticketsPerHandshake) == 1
            // No early data: a repeated HELLO or SEND would take effect twice (RFC 8446 §8).
            && SSL_CTX_set_max_early_data(context, 0) == 1
        guard isSet else { throw .refused(what: "TLS 1.3", reason: OpenSSLErrors.take()) }
        SSL_CTX_set_timeout(context, TLSLimits.ticketSeconds)
        martlet_ssl_ctx_disable_session_cache(context)
        martlet_ssl_ctx_set_max_cert_list(context, TLSLimits.clientCertificateBytesMax)
        SSL_CTX_set_tlsext_ticket_key_evp_cb(context, TLSTicketKeys.callback)
        SSL_CTX_set_keylog_callback(context, TLSHandshake.secretCallback)
        SSL_CTX_set_alpn_select_cb(context, selectProtocol, nil)
    }

    /// RFC 7301 §3.2: a client that names protocols must name ours. A client without the extension is served.
    private static let selectProtocol:
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
            UnsafeMutablePointer<UInt8>?, UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
        ) -> Int32 = { _, selected, selectedBytes, offered, offeredBytes, _ in
            guard let selected, let selectedBytes, let offered else { return SSL_TLSEXT_ERR_NOACK }
            let name = TLSServerContext.protocolName.utf8
            var at = 0
            while at < Int(offeredBytes) {
                let count = Int(offered[at])
                guard at + 1 + count <= Int(offeredBytes) else { break }
                if UnsafeBufferPointer(start: offered + at + 1, count: count).elementsEqual(name) {
                    selected.pointee = offered + at + 1
                    selectedBytes.pointee = offered[at]
                    return SSL_TLSEXT_ERR_OK
                }
                at += 1 + count
            }
            return SSL_TLSEXT_ERR_ALERT_FATAL
        }

    /// Sets certificate, chain and key.
    /// - Returns: the SHA-256 of the certificate, and its first and last second.
    private static func setCertificate(
        _ context: OpaquePointer, _ credentials: TLSCredentials
    ) throws(TLSSetupError) -> ([UInt8], (begin: Int64, end: Int64)) {
        let place = credentials.certificate.place
        let chain = PEM.certificates(in: try credentials.certificate.read().bytes)
        defer { for certificate in chain { X509_free(certificate) } }
        guard let first = chain.first else { throw .noCertificate(place: place) }
        guard SSL_CTX_use_certificate(context, first) == 1 else {
            throw .refused(what: place, reason: OpenSSLErrors.take())
        }
        for certificate in chain.dropFirst() {
            guard martlet_ssl_ctx_add_chain_cert(context, certificate) == 1 else {
                throw .refused(what: place, reason: OpenSSLErrors.take())
            }
        }
        guard let key = PEM.privateKey(in: try credentials.key.read().bytes) else {
            throw .noKey(place: credentials.key.place)
        }
        defer { EVP_PKEY_free(key) }
        guard X509_check_private_key(first, key) == 1 else {
            ERR_clear_error()
            throw .keyDoesNotFit(certificate: place, key: credentials.key.place)
        }
        guard SSL_CTX_use_PrivateKey(context, key) == 1 else {
            throw .refused(what: credentials.key.place, reason: OpenSSLErrors.take())
        }
        var digest = [UInt8](repeating: 0, count: 32)
        X509_digest(first, EVP_sha256(), &digest, nil)
        guard let begin = UTCTime.seconds(X509_get0_notBefore(first)),
            let end = UTCTime.seconds(X509_get0_notAfter(first))
        else { throw .refused(what: place, reason: "its dates are none") }
        return (digest, (begin, end))
    }

    private static func setAuthorities(
        _ context: OpaquePointer, _ pem: [UInt8], place: String
    ) throws(TLSSetupError) {
        let authorities = PEM.certificates(in: pem)
        defer { for certificate in authorities { X509_free(certificate) } }
        guard !authorities.isEmpty else { throw .noCertificate(place: place) }
        let store = SSL_CTX_get_cert_store(context)
        for certificate in authorities {
            guard X509_STORE_add_cert(store, certificate) == 1,
                SSL_CTX_add_client_CA(context, certificate) == 1
            else { throw .refused(what: place, reason: OpenSSLErrors.take()) }
        }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
}

/// The context of new handshakes, which a reload replaces.
public final class TLSServer: Sendable {
    private let context: Mutex<TLSServerContext>
    private let credentials: TLSCredentials
    private let ticketKeys: TLSTicketKeys

    public init(
        _ credentials: TLSCredentials, ticketKeys: TLSTicketKeys = TLSTicketKeys()
    ) throws(TLSSetupError) {
        self.credentials = credentials
        self.ticketKeys = ticketKeys
        context = Mutex(try TLSServerContext(credentials, ticketKeys: ticketKeys))
    }

    /// The context for a new handshake.
    public var current: TLSServerContext { context.withLock { $0 } }

    /// Reads the files again. After an error the certificates stay as they were. A certificate that is not valid now
    /// does not replace one that is.
    public func reload() throws(TLSSetupError) {
        let new = try TLSServerContext(credentials, ticketKeys: ticketKeys)
        let now = Int64(time(nil))
        func isValid(_ context: TLSServerContext) -> Bool {
            context.validity.begin <= now && now <= context.validity.end
        }
        guard isValid(new) || !isValid(current) else {
            throw .notValidNow(
                certificate: credentials.certificate.place, begin: new.validity.begin,
                end: new.validity.end)
        }
        context.withLock { $0 = new }
    }
}

/// Reads PEM text.
enum PEM {
    static func certificates(in text: [UInt8]) -> [OpaquePointer] {
        var found: [OpaquePointer] = []
        withInput(text) { input in
            while let certificate = PEM_read_bio_X509(input, nil, nil, nil) {
                found.append(certificate)
            }
        }
        return found
    }

    /// The first private key; nil also for a key with a passphrase.
    static func privateKey(in text: [UInt8]) -> OpaquePointer? {
        var key: OpaquePointer?
        withInput(text) { input in
            // Without this function, OpenSSL would ask the terminal for a passphrase.
            key = PEM_read_bio_PrivateKey(input, nil, { _, _, _, _ in 0 }, nil)
        }
        return key
    }

    private static func withInput(_ text: [UInt8], _ body: (OpaquePointer) -> Void) {
        text.withUnsafeBytes { bytes in
            guard let input = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
            else { return }
            body(input)
            BIO_free(input)
        }
        ERR_clear_error()
    }
}
