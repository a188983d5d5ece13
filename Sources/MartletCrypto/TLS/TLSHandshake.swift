// SPDX-License-Identifier: Apache-2.0
//
// A handshake of the server's side: OpenSSL between two buffers of memory. The owner gives received bytes, lets the
// handshake take steps, and sends the output. After the last step OpenSSL's objects are freed: the record layer of
// this module goes on with the traffic secrets, which OpenSSL tells the callback for key logs (Source:
// SSL_CTX_set_keylog_callback(3)). Rests on TLSServerContext.

internal import COpenSSL

/// A handshake in progress. Not thread-safe.
public final class TLSHandshake {
    /// The outcome of a step.
    public enum Step {
        /// More bytes of the peer are needed.
        case waits
        /// The session can begin.
        case done
        /// The handshake has failed. The output may have an alert for the peer.
        case failed(TLSHandshakeError)
    }

    /// A traffic secret in memory that is overwritten at its end.
    private final class Secret {
        private let memory: UnsafeMutableRawBufferPointer
        private(set) var count = 0

        init() { memory = .allocate(byteCount: TrafficKeys.secretBytesMax, alignment: 8) }

        deinit {
            OPENSSL_cleanse(memory.baseAddress, memory.count)
            memory.deallocate()
        }

        func withBytes<Result: ~Copyable>(_ body: (RawSpan) -> Result) -> Result {
            body(UnsafeRawBufferPointer(rebasing: memory[..<count]).bytes)
        }

        /// Takes a secret in hexadecimal digits.
        func take(_ digits: UnsafeBufferPointer<UInt8>) {
            guard digits.count <= 2 * memory.count else { return }
            func value(_ digit: UInt8) -> UInt8 {
                let small = digit | 0x20
                return small < UInt8(ascii: "a")
                    ? digit - UInt8(ascii: "0") : small - UInt8(ascii: "a") + 10
            }
            count = digits.count / 2
            for index in 0..<count {
                memory[index] = value(digits[2 * index]) << 4 | value(digits[2 * index + 1])
            }
        }
    }

    private let context: TLSServerContext
    private let ssl: OpaquePointer
    /// Bytes for OpenSSL, and bytes from OpenSSL. The SSL object owns both.
    private let input: OpaquePointer
    private let output: OpaquePointer
    private let clientSecret = Secret()
    private let serverSecret = Secret()
    private var isDone = false
    /// Whether the handshake has had bytes for the peer.
    public private(set) var hasAnswered = false

    public init(_ context: TLSServerContext) {
        self.context = context
        guard let ssl = SSL_new(context.pointer), let input = BIO_new(BIO_s_mem()),
            let output = BIO_new(BIO_s_mem())
        else { fatalError("There is no memory for a TLS handshake.") }
        self.ssl = ssl
        self.input = input
        self.output = output
        SSL_set_bio(ssl, input, output)
        SSL_set_accept_state(ssl)
        _ = martlet_ssl_set_app_data(ssl, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit {
        SSL_free(ssl)
    }

    /// Received bytes that no step has taken.
    public var waitingBytes: Int { martlet_bio_pending(input) }

    /// Gives received bytes to the handshake.
    public func receive(_ bytes: UnsafeRawBufferPointer) {
        let count = BIO_write(input, bytes.baseAddress, Int32(clamping: bytes.count))
        precondition(Int(count) == bytes.count, "OpenSSL's buffer of memory grows.")
    }

    /// Goes on with the handshake as far as the received bytes allow: at most the work of one flight.
    public func step() -> Step {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            isDone = true
            return .done
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .waits
        default:
            var reason = OpenSSLErrors.take()
            let verdict = SSL_get_verify_result(ssl)
            if verdict != Int(X509_V_OK), let text = X509_verify_cert_error_string(verdict) {
                reason += " (\(String(cString: text)))"
            }
            return .failed(TLSHandshakeError(reason: reason))
        }
    }

    /// Bytes for the peer since the last call.
    public func takeOutput() -> [UInt8] {
        let bytes = Self.takeAll(output)
        if !bytes.isEmpty { hasAnswered = true }
        return bytes
    }

    /// After the last step: bytes for the session's record layer that came with the handshake's.
    public func takeRest() -> [UInt8] { Self.takeAll(input) }

    private static func takeAll(_ buffer: OpaquePointer) -> [UInt8] {
        let count = martlet_bio_pending(buffer)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: count) { bytes, initialized in
            initialized = Int(max(BIO_read(buffer, bytes.baseAddress, Int32(count)), 0))
        }
    }

    /// After the last step: what the record layer needs.
    ///
    /// - Parameter lastOutput: the output of the last step: tickets, each in a record under the session's key, so the
    ///   session's own records are numbered from there (RFC 8446 §4.6.1).
    public func secrets(lastOutput: [UInt8]) -> TLSSecrets? {
        guard isDone, let cipher = SSL_get_current_cipher(ssl),
            let suite = TLSCipherSuite(rawValue: SSL_CIPHER_get_protocol_id(cipher)),
            clientSecret.count == suite.hashBytes, serverSecret.count == suite.hashBytes,
            SSL_has_pending(ssl) == 0, let sentRecords = Self.recordCount(lastOutput)
        else { return nil }
        return clientSecret.withBytes { receiving in
            serverSecret.withBytes { sending in
                TLSSecrets(
                    suite: suite, receiving: receiving, sending: sending,
                    sentRecords: sentRecords, recordPlainBytes: recordPlainBytes)
            }
        }
    }

    /// Counts sealed records; nil: the bytes are none.
    private static func recordCount(_ bytes: [UInt8]) -> UInt64? {
        var count: UInt64 = 0
        var at = 0
        while at < bytes.count {
            guard at + TLSLimits.headerBytes <= bytes.count, bytes[at] == 23 else { return nil }
            at += TLSLimits.headerBytes + Int(bytes[at + 3]) << 8 + Int(bytes[at + 4])
            count += 1
        }
        return at == bytes.count ? count : nil
    }

    /// RFC 6066 §4: plain bytes of a record, if the client asked for short records.
    private var recordPlainBytes: Int {
        let code = SSL_get_session(ssl).map { SSL_SESSION_get_max_fragment_length($0) } ?? 0
        return (1...4).contains(code) ? 256 << Int(code) : TLSLimits.recordPlainBytesMax
    }

    /// Whether the handshake resumed an earlier session.
    public var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    /// The verified subject of the client's certificate in the form of RFC 2253, such as `CN=till-7,O=Shop`; nil
    /// without a certificate.
    public var clientName: String? {
        guard let certificate = SSL_get0_peer_certificate(ssl),
            SSL_get_verify_result(ssl) == Int(X509_V_OK), let text = BIO_new(BIO_s_mem())
        else { return nil }
        defer { BIO_free(text) }
        X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, Self.nameForm)
        return String(validating: Self.takeAll(text), as: UTF8.self)
    }

    /// The end of the client's certificate, in seconds since 1970; nil without a certificate.
    public var clientCertificateEnd: Int64? {
        guard let certificate = SSL_get0_peer_certificate(ssl) else { return nil }
        return UTCTime.seconds(X509_get0_notAfter(certificate))
    }

    /// XN_FLAG_RFC2253 with UTF-8 left as it is; the header's constants are macros that Swift does not see.
    private static let nameForm =
        UInt(XN_FLAG_SEP_COMMA_PLUS) | UInt(ASN1_STRFLGS_ESC_2253)
        | UInt(ASN1_STRFLGS_ESC_CTRL) | UInt(ASN1_STRFLGS_UTF8_CONVERT) | UInt(XN_FLAG_DN_REV)
        | UInt(XN_FLAG_FN_SN)

    // MARK: Secrets

    private func take(_ line: UnsafeBufferPointer<UInt8>) {
        // LABEL client-random secret, in hexadecimal digits (Source: SSLKEYLOGFILE of NSS).
        let words = line.split(separator: UInt8(ascii: " "))
        guard words.count == 3 else { return }
        if words[0].elementsEqual("CLIENT_TRAFFIC_SECRET_0".utf8) {
            clientSecret.take(UnsafeBufferPointer(rebasing: words[2]))
        } else if words[0].elementsEqual("SERVER_TRAFFIC_SECRET_0".utf8) {
            serverSecret.take(UnsafeBufferPointer(rebasing: words[2]))
        }
    }

    /// The callback of OpenSSL, for each secret of a handshake.
    static let secretCallback: @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Void = {
        ssl, line in
        guard let ssl, let line, let data = martlet_ssl_get_app_data(ssl) else { return }
        let handshake = Unmanaged<TLSHandshake>.fromOpaque(data).takeUnretainedValue()
        line.withMemoryRebound(to: UInt8.self, capacity: 1) { bytes in
            var count = 0
            while bytes[count] != 0 { count += 1 }
            handshake.take(UnsafeBufferPointer(start: bytes, count: count))
        }
    }
}
