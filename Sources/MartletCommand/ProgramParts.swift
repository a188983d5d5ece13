// SPDX-License-Identifier: Apache-2.0
//
// The parts of the commands that rest on large libraries: the gateway (Hummingbird) and the clients' TLS
// (swift-nio-ssl, with a copy of BoringSSL). Those libraries are most of the time of a build, so the commands know the
// parts by this interface alone. `martlet` has both parts, and `martlet-core` has neither. Rests on the embedding API
// and MartletClient.

package import Logging
package import Martlet
package import MartletClient
import Synchronization

/// Makes gateways, which serve SDKs over HTTP and app servers over XMPP.
package protocol GatewayPart: Sendable {
    /// Reads the files of the gateway's certificates. Nothing listens before `serve`.
    /// - Parameter options: with an address for HTTP, for XMPP, or for both.
    /// - Throws: `INVALID_ARGUMENT` for an unusable file, for plain HTTP that other machines reach, and for XMPP without
    ///   a certificate.
    func prepare(
        _ broker: Broker, _ options: GatewayOptions, logger: Logger
    ) throws(MartletError) -> any PreparedGateway
}

/// Where a gateway is reached.
package struct GatewayPlaces: Sendable {
    /// The URL for SDKs; nil without an address for HTTP.
    package var http: String?
    /// The places for app servers over XMPP, as `address:port`.
    package var xmpp: [String]

    package init(http: String? = nil, xmpp: [String] = []) {
        self.http = http
        self.xmpp = xmpp
    }
}

/// A gateway that can be served.
package protocol PreparedGateway: Sendable {
    /// Serves until `end` returns, then finishes the requests in progress and closes the broker. The broker is closed
    /// after an error too, an error of `ready` included. Called once.
    /// - Parameter ready: called once, when the gateway listens everywhere.
    func serve(
        ready: @escaping @Sendable (_ places: GatewayPlaces) async throws -> Void,
        until end: @escaping @Sendable () async -> Void
    ) async throws

    /// OPS-11: reads certificate and key of HTTP again. New connections get the new certificate; open connections stay.
    /// - Throws: `INVALID_ARGUMENT` with the reason why a file cannot be used. The certificate then stays as it was.
    func reloadCertificate() throws(MartletError)

    /// OPS-11: reads certificate and key of XMPP again. Open connections drain if the certificate has changed.
    /// - Throws: `INVALID_ARGUMENT` with the reason why a file cannot be used. The certificate then stays as it was.
    func reloadXMPPCertificate() throws(MartletError)
}

/// Brokers that a client trusts.
package enum BrokerTrust: Sendable {
    /// Certificates of the system's authorities, for the broker's host name.
    case system
    /// Certificates of the authorities in a PEM file, for the broker's host name.
    case authorities(file: String)
    /// The certificate with the SHA-256, over the DER form.
    case certificate(sha256: [UInt8])
}

/// Makes the encryption of a client's connections.
package typealias EncryptionPart =
    @Sendable (_ trust: BrokerTrust, _ certificate: String?) throws(MartletError) -> Encryption

/// The parts that not every program has.
package struct ProgramParts: Sendable {
    package var gateway: (any GatewayPart)?
    package var encryption: EncryptionPart?
    package var cluster: (any ClusterPart)?
    /// The commit that the program was built from; empty if the build was not told.
    package var commit: String

    package init(
        gateway: (any GatewayPart)? = nil, encryption: EncryptionPart? = nil,
        cluster: (any ClusterPart)? = nil, commit: String = ""
    ) {
        self.gateway = gateway
        self.encryption = encryption
        self.cluster = cluster
        self.commit = commit
    }

    private static let installed = Mutex(ProgramParts())

    static func install(_ parts: ProgramParts) { installed.withLock { $0 = parts } }

    /// What `--version` prints, such as `0.1.0 (17a5337721)`.
    static var version: String {
        let commit = installed.withLock { $0.commit }
        return commit.isEmpty ? "0.1.0" : "0.1.0 (\(commit))"
    }

    /// The gateway of this program.
    /// - Throws: `INVALID_ARGUMENT` in a program without a gateway.
    static func requiredGateway() throws(MartletError) -> any GatewayPart {
        guard let gateway = installed.withLock({ $0.gateway }) else {
            throw missing("a gateway", field: "http")
        }
        return gateway
    }

    /// OPS-7: the cluster's log of this program.
    /// - Throws: `INVALID_ARGUMENT` in a program without clusters.
    static func requiredCluster() throws(MartletError) -> any ClusterPart {
        guard let cluster = installed.withLock({ $0.cluster }) else {
            throw missing("clusters", field: "cluster")
        }
        return cluster
    }

    /// The encryption of a client's connections.
    /// - Parameter certificate: a PEM file with the client's certificate and key.
    /// - Throws: `INVALID_ARGUMENT` for an unusable file, and in a program without TLS for clients.
    static func encryption(
        trusting trust: BrokerTrust, certificate: String? = nil
    ) throws(MartletError) -> Encryption {
        guard let make = installed.withLock({ $0.encryption }) else {
            throw missing("TLS for its clients", field: "tls")
        }
        return try make(trust, certificate)
    }

    private static func missing(_ part: String, field: String) -> MartletError {
        MartletError(
            .invalidArgument,
            "This program was built without \(part). `make build` builds `martlet`, which has every part.",
            field: field)
    }
}
