// SPDX-License-Identifier: Apache-2.0
//
// The reasons why a TLS connection failed, as sentences for people: what is wrong with the broker's certificate, with
// the client's own, or with the port. A handler behind the TLS handler replaces the errors of swift-nio-ssl, which name
// places in source files, by these sentences. Rests on swift-nio-ssl.

import MartletBase
import MartletClient
import NIOCore
import NIOSSL
import NIOTLS

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Passes on errors of TLS as sentences.
final class TLSFailureHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let failure: TLSFailure
    private var isEstablished = false

    init(_ failure: TLSFailure) { self.failure = failure }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { isEstablished = true }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // In TLS 1.3 the broker judges the client's certificate after the client's end of the handshake. Other errors of
        // an established connection do not concern TLS.
        guard !isEstablished || TLSFailure.isAlert(error) else {
            return context.fireErrorCaught(error)
        }
        let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        context.fireErrorCaught(failure.explained(error, tls?.peerCertificate))
    }
}

/// Explains the errors of a connection.
struct TLSFailure: Sendable {
    /// The name or address that the broker's certificate must have.
    let name: String
    /// Whether the client knows the broker's certificate by its SHA-256.
    let isPinned: Bool
    /// Whether the client has a certificate of its own.
    let hasCertificate: Bool

    static func isAlert(_ error: any Error) -> Bool {
        let text = String(describing: error)
        return text.contains("_ALERT_") || text.contains("CERTIFICATE_REQUIRED")
    }

    /// - Parameter certificate: the broker's certificate, if the broker has sent one.
    func explained(_ error: any Error, _ certificate: NIOSSLCertificate?) -> MartletError {
        MartletError(.unavailable, reason(error, certificate) + ".")
    }

    private func reason(_ error: any Error, _ certificate: NIOSSLCertificate?) -> String {
        if let error = error as? NIOSSLExtraError, error == .failedToValidateHostname {
            let names = certificate.map(Self.names) ?? []
            return names.isEmpty
                ? "The broker's certificate has no name, and \(name) is needed"
                : "The broker's certificate is for \(names.joined(separator: ", ")), not for \(name)"
        }
        let text = String(describing: error)
        if text.contains("WRONG_VERSION_NUMBER") {
            return "The port speaks no TLS 1.3; leave --tls and --ca out if it speaks plain text"
        }
        if text.contains("CERTIFICATE_VERIFY_FAILED") { return distrust(of: certificate) }
        if text.contains("CERTIFICATE_REQUIRED") {
            return "The broker wants a certificate of the client (--client-certificate)"
        }
        let alerts = [
            ("UNKNOWN_CA", "its authority is unknown to the broker"),
            ("CERTIFICATE_EXPIRED", "it has expired"),
            ("BAD_CERTIFICATE", "the broker does not accept it"),
            ("CERTIFICATE_UNKNOWN", "the broker does not accept it"),
        ]
        for (alert, words) in alerts where hasCertificate && text.contains("ALERT_" + alert) {
            return "The broker refuses the client's certificate: \(words)"
        }
        if text.contains("eofDuringHandshake") || text.contains("EOF during handshake")
            || text.contains("uncleanShutdown")
        {
            return
                "The broker closed the connection without a word; the broker's log has the reason"
        }
        return "TLS failed: \(Self.short(NetworkFailure.words(error)))"
    }

    private func distrust(of certificate: NIOSSLCertificate?) -> String {
        guard let certificate else { return "The broker's certificate cannot be verified" }
        guard !isPinned else {
            return "The broker's certificate is another than the known one"
        }
        let now = time(nil)
        if certificate.notValidAfter < now {
            return "The broker's certificate expired on \(Self.day(certificate.notValidAfter))"
        }
        if certificate.notValidBefore > now {
            return
                "The broker's certificate is valid from \(Self.day(certificate.notValidBefore)) on"
        }
        return
            "The broker's certificate is of an authority that is not trusted here (--ca names one)"
    }

    private static func day(_ seconds: time_t) -> Day {
        Day(of: Instant(millisecondsSince1970: Int64(seconds) * 1000))
    }

    /// Names and addresses of a certificate.
    private static func names(_ certificate: NIOSSLCertificate) -> [String] {
        certificate._subjectAlternativeNames().compactMap { name in
            let bytes = Array(name.contents)
            switch name.nameType {
            case .dnsName: return String(validating: bytes, as: UTF8.self)
            case .ipAddress:
                return try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: 0)
                    .ipAddress
            default: return nil
            }
        }
    }

    /// The words of OpenSSL's error without numbers and places in source files.
    private static func short(_ text: String) -> String {
        guard let start = text.firstRange(of: "OPENSSL_internal:")?.upperBound else { return text }
        return text[start...].prefix { $0 != " " && $0 != "]" }.replacing("_", with: " ")
            .lowercased()
    }
}
