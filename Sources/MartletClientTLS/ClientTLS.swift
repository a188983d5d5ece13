// SPDX-License-Identifier: Apache-2.0
//
// TLS for the clients of a broker: which certificates of a broker are trusted, and the client's own certificate. A
// module of its own, so that `MartletClient` alone needs no TLS library. Rests on MartletClient and swift-nio-ssl.

import Crypto
public import MartletClient
public import MartletBase
import NIOCore
import NIOSSL

/// OPS-6: how a client recognises its broker, and shows its own certificate.
public struct ClientTLS: Sendable {
    /// The certificates of brokers that are trusted.
    public enum Trust: Sendable {
        /// Certificates of the system's authorities, for the broker's host name.
        case system
        /// Certificates of the authorities in a PEM file, for the broker's host name.
        case authorities(file: String)
        /// The certificate with this SHA-256 over its DER form, whatever its name and its authority.
        case certificate(sha256: [UInt8])
    }

    /// The certificates of brokers that are trusted.
    public var trust: Trust
    /// The name that the broker's certificate must have; nil: the host to which the client connects.
    public var serverName: String?
    /// PEM files with the client's certificate and key, for brokers that ask for a certificate.
    public var certificate: (chain: String, key: String)?

    /// - Parameter trust: the certificates of brokers that are trusted.
    public init(trust: Trust = .system) { self.trust = trust }

    /// The name of the protocol (RFC 7301).
    private static let protocolName = "martlet"

    /// - Throws: `INVALID_ARGUMENT` for a file that cannot be used.
    func encryption() throws(MartletError) -> Encryption {
        let context: NIOSSLContext
        do { context = try NIOSSLContext(configuration: try configuration()) } catch {
            throw MartletError(
                .invalidArgument, "The certificates for TLS cannot be used (\(error)).",
                field: "tls")
        }
        let (trust, serverName) = (trust, serverName)
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
                        let isKnown = bytes.map { Array(SHA256.hash(data: $0)) == sha256 } ?? false
                        promise.succeed(isKnown ? .certificateVerified : .failed)
                    })
            }
            try channel.pipeline.syncOperations.addHandler(handler)
        }
    }

    private func configuration() throws -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = [Self.protocolName]
        if case .authorities(let file) = trust { configuration.trustRoots = .file(file) }
        if let certificate {
            configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(certificate.chain)
                .map { .certificate($0) }
            configuration.privateKey = .privateKey(
                try NIOSSLPrivateKey(file: certificate.key, format: .pem))
        }
        return configuration
    }

    private static func isAddress(_ host: String) -> Bool {
        (try? SocketAddress(ipAddress: host, port: 0)) != nil
    }
}

extension ClientOptions {
    /// OPS-6: connects over TLS.
    /// - Throws: `INVALID_ARGUMENT` for a file that cannot be used.
    public mutating func use(_ tls: ClientTLS) throws(MartletError) {
        encryption = try tls.encryption()
    }
}

extension DeviceOptions {
    /// OPS-6: connects over TLS.
    /// - Throws: `INVALID_ARGUMENT` for a file that cannot be used.
    public mutating func use(_ tls: ClientTLS) throws(MartletError) {
        encryption = try tls.encryption()
    }
}

extension DeviceConnection {
    /// OPS-6: a shared connection over TLS.
    /// - Throws: `INVALID_ARGUMENT` for a file that cannot be used.
    public init(
        host: String, port: Int = Limits.defaultPort, tls: ClientTLS,
        heartbeat: HeartbeatOptions = HeartbeatOptions()
    ) throws(MartletError) {
        self.init(
            host: host, port: port, heartbeat: heartbeat,
            eventLoopGroup: ClientOptions().eventLoopGroup, encryption: try tls.encryption())
    }
}
