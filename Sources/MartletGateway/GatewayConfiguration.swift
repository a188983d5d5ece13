// SPDX-License-Identifier: Apache-2.0
//
// How a gateway is set up. Everything has a default. Rests on Limits.

public import CoreMetrics
public import Logging
public import Martlet

/// The settings of one gateway.
public struct GatewayConfiguration: Sendable {
    /// PEM files of a certificate chain and its key.
    public struct Certificate: Sendable, Hashable {
        public var chain: String
        public var key: String

        public init(chain: String, key: String) {
            self.chain = chain
            self.key = key
        }
    }

    /// Where callers connect; port 0 lets the system choose.
    public var address = BrokerConfiguration.Address(
        host: "127.0.0.1", port: UInt16(Limits.httpPort))
    /// With one: TLS, HTTP/2 and HTTP/1.1. Without: plain HTTP/1.1.
    public var certificate: Certificate?
    /// Plain HTTP is served to other machines too. Whoever is between reads every credential.
    public var allowsPlainElsewhere = false
    /// What assertions may be addressed to beside the well-known address and the one that the gateway
    /// listens at: how SDKs reach `/token` through a proxy, or on an address that means every one.
    public var tokenURLs: [String] = []
    /// REG-5: 1 to 86,400.
    public var accessTokenSeconds = Limits.accessTokenSecondsDefault
    /// GW-8: a send whose connection or stream ended before its answer was written whole, and that is
    /// repeated within so many seconds, as SDKs do, is answered the same and not sent again. 0: every
    /// send is sent.
    public var retrySeconds = Limits.retryWindowSecondsDefault
    /// The longest body of a request.
    public var bodyBytesMax = Limits.httpBodyBytesMax
    /// Bodies of all requests that have not been answered.
    public var bodyMegabytesMax = Limits.httpBodyMegabytesMax
    /// Requests that are being answered at a time.
    public var requestsMax = Limits.httpRequestsMax
    /// Connections at a time; more wait to be accepted.
    public var connectionsMax = Limits.httpConnectionsMax
    /// A connection that was silent for so long is closed.
    public var idleSeconds = Limits.httpIdleSeconds
    /// A request must have come whole after so long, and its answer must have been read.
    public var requestSeconds = Limits.httpRequestSeconds
    /// Who else gets the metrics; nil: `/metrics` alone.
    public var metrics: (any MetricsFactory)?
    public var logger = Logger(label: "martlet.gateway")

    public init() {}
}
