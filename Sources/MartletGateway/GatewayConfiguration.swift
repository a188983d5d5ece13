// SPDX-License-Identifier: Apache-2.0
//
// Settings of a gateway; every setting has a default. Rests on Limits.

public import CoreMetrics
public import Logging
public import Martlet

/// The settings of one gateway.
public struct GatewayConfiguration: Sendable {
    /// Paths of PEM files: a certificate chain and its private key.
    public struct Certificate: Sendable, Hashable {
        /// Path of a PEM file with the certificates.
        public var chain: String
        /// Path of a PEM file with the private key.
        public var key: String

        /// Names the two files. `GatewayServer` reads the files.
        public init(chain: String, key: String) {
            self.chain = chain
            self.key = key
        }
    }

    /// Address for callers; with port 0 the system chooses a port.
    public var address = BrokerConfiguration.Address(
        host: "127.0.0.1", port: UInt16(Limits.httpPort))
    /// The server's certificate. With a certificate the server speaks TLS, HTTP/2 and HTTP/1.1; without, plain
    /// HTTP/1.1.
    public var certificate: Certificate?
    /// Allows plain HTTP on addresses that other machines reach. Any machine on the path can then read every
    /// credential.
    public var allowsPlainElsewhere = false
    /// Further audiences for assertions, beside the well-known address and the listening address. Needed where SDKs
    /// reach `/token` through a proxy, or where the gateway listens on a wildcard address.
    public var tokenURLs: [String] = []
    /// REG-5: life of a new access token, from 1 to 86,400 seconds.
    public var accessTokenSeconds = Limits.accessTokenSecondsDefault
    /// GW-8: seconds for which the gateway recognises a repeated send. SDKs repeat a send if the connection or stream
    /// ended before the answer was written whole. The repetition gets the first send's answer and sends no second
    /// message. With 0, every send is a new message.
    public var retrySeconds = Limits.retryWindowSecondsDefault
    /// Longest body of a request, in bytes.
    public var bodyBytesMax = Limits.httpBodyBytesMax
    /// Memory for the bodies of all unanswered requests, in MiB.
    public var bodyMegabytesMax = Limits.httpBodyMegabytesMax
    /// Requests in progress at a time; further requests are refused with UNAVAILABLE.
    public var requestsMax = Limits.httpRequestsMax
    /// Open connections at a time; further connections wait to be accepted.
    public var connectionsMax = Limits.httpConnectionsMax
    /// GW-15: open connections of one address at a time; further connections are closed. A proxy of the broker's
    /// configuration has no bound, because it stands for many clients.
    public var connectionsPerAddressMax = Limits.httpConnectionsPerAddressMax
    /// The one header by which the broker's proxies (`BrokerConfiguration.proxies`) name their clients. `Forwarded` is read
    /// as RFC 7239 says, and any other header as a list of addresses. A header that the proxies do not set comes from the
    /// client, and is ignored.
    public var proxyHeader = "X-Forwarded-For"
    /// Seconds of silence after which a connection is closed.
    public var idleSeconds = Limits.httpIdleSeconds
    /// Seconds for a request to arrive whole, and again for the answer to be read.
    public var requestSeconds = Limits.httpRequestSeconds
    /// A second receiver of the metrics; nil: only `/metrics` shows the metrics.
    public var metrics: (any MetricsFactory)?
    /// Logger of the gateway and its server.
    public var logger = Logger(label: "martlet.gateway")

    /// The default settings: plain HTTP on the loopback address.
    public init() {}
}
