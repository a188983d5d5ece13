// SPDX-License-Identifier: Apache-2.0
//
// TLS for the clients of a broker: trusted certificates, and the client's own certificate. The module is separate, so
// `MartletClient` alone needs no TLS library. Rests on MartletClient, EditedText and swift-nio-ssl.

public import MartletBase
public import MartletClient
import MartletFiles
import NIOCore
import NIOSSL

/// OPS-6: how a client recognises the broker, and shows a certificate of the client's own.
public struct ClientTLS: Sendable {
    /// Trusted certificates of brokers.
    public enum Trust: Sendable {
        /// Certificates of the system's authorities, for the broker's host name.
        case system
        /// Certificates of the authorities in a PEM file, for the broker's host name.
        case authorities(file: String)
        /// The certificate with the SHA-256, over the DER form. Name and authority have no meaning.
        case certificate(sha256: [UInt8])
    }

    /// Trusted certificates of brokers.
    public var trust: Trust
    /// Name in the broker's certificate; nil: the host of the connection.
    public var serverName: String?
    /// PEM files with the client's certificate and key, for a broker with `tls-client-ca`.
    public var certificate: (chain: String, key: String)?

    /// - Parameter trust: trusted certificates of brokers.
    public init(trust: Trust = .system) { self.trust = trust }

    /// The name of the protocol (RFC 7301).
    private static let protocolName = "martlet"

    /// - Throws: `INVALID_ARGUMENT` for an unusable file.
    package func encryption() throws(MartletError) -> Encryption {
        let context: NIOSSLContext
        do { context = try NIOSSLContext(configuration: try configuration()) } catch {
            throw error as? MartletError
                ?? MartletError(
                    .invalidArgument, "The certificates for TLS cannot be used (\(error)).",
                    field: "tls")
        }
        let (trust, serverName, hasCertificate) = (trust, serverName, certificate != nil)
        return Encryption { channel, host in
            let handler: NIOSSLClientHandler
            // RFC 6066 §3: an address is no server name. The certificate is then checked for the address.
            let name = Self.isAddress(serverName ?? host) ? nil : serverName ?? host
            switch trust {
            case .system, .authorities:
                handler = try NIOSSLClientHandler(context: context, serverHostname: name)
            case .certificate(let sha256):
                handler = try NIOSSLClientHandler(
                    context: context, serverHostname: name,
                    customVerificationCallback: { chain, promise in
                        let bytes = try? chain.first?.toDERBytes()
                        let isKnown = bytes.map { CertificateDigest.sha256($0) == sha256 } ?? false
                        promise.succeed(isKnown ? .certificateVerified : .failed)
                    })
            }
            let isPinned = if case .certificate = trust { true } else { false }
            let failure = TLSFailure(
                name: serverName ?? host, isPinned: isPinned, hasCertificate: hasCertificate)
            try channel.pipeline.syncOperations.addHandlers([
                handler, TLSFailureHandler(failure),
            ])
        }
    }

    private func configuration() throws -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = [Self.protocolName]
        switch trust {
        case .system: break
        case .authorities(let file):
            configuration.trustRoots = .certificates(try Self.certificates(file))
        // The known certificate decides alone: a broker may be asked at an address that its certificate does not name.
        case .certificate: configuration.certificateVerification = .noHostnameVerification
        }
        if let certificate {
            configuration.certificateChain = try Self.certificates(certificate.chain)
                .map { .certificate($0) }
            do {
                configuration.privateKey = .privateKey(
                    try NIOSSLPrivateKey(
                        bytes: try EditedText(contentsOf: certificate.key).bytes, format: .pem))
            } catch { throw Self.unusable(certificate.key, "private key without a passphrase") }
        }
        return configuration
    }

    /// - Throws: `INVALID_ARGUMENT` with the name of a file without certificates.
    private static func certificates(_ file: String) throws(MartletError) -> [NIOSSLCertificate] {
        let found =
            (try? NIOSSLCertificate.fromPEMBytes(EditedText(contentsOf: file).bytes)) ?? []
        guard !found.isEmpty else { throw unusable(file, "certificate") }
        return found
    }

    private static func unusable(_ file: String, _ what: String) -> MartletError {
        MartletError(
            .invalidArgument,
            "'\(file)' cannot be read, or has no \(what) in PEM form.", field: "tls")
    }

    private static func isAddress(_ host: String) -> Bool {
        (try? SocketAddress(ipAddress: host, port: 0)) != nil
    }
}

extension ClientOptions {
    /// OPS-6: connects over TLS.
    /// - Throws: `INVALID_ARGUMENT` for an unusable file.
    public mutating func use(_ tls: ClientTLS) throws(MartletError) {
        encryption = try tls.encryption()
    }
}

extension DeviceOptions {
    /// OPS-6: connects over TLS.
    /// - Throws: `INVALID_ARGUMENT` for an unusable file.
    public mutating func use(_ tls: ClientTLS) throws(MartletError) {
        encryption = try tls.encryption()
    }
}

extension DeviceConnection {
    /// OPS-6: a shared connection over TLS.
    /// - Throws: `INVALID_ARGUMENT` for an unusable file.
    public init(
        host: String, port: Int = Limits.defaultPort, fallbacks: [BrokerAddress] = [],
        tls: ClientTLS, heartbeat: HeartbeatOptions = HeartbeatOptions()
    ) throws(MartletError) {
        self.init(
            host: host, port: port, fallbacks: fallbacks, heartbeat: heartbeat,
            eventLoopGroup: ClientOptions().eventLoopGroup, encryption: try tls.encryption())
    }
}
