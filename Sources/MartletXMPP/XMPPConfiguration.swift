// SPDX-License-Identifier: Apache-2.0
//
// The settings of an XMPP connection server. All but the certificate have defaults. Rests on XMPPLimits.

public import Logging
public import Martlet
public import MartletGateway

/// The settings of one XMPP connection server.
public struct XMPPConfiguration: Sendable {
    /// Addresses for app servers; with port 0 the system chooses a port.
    public var addresses = [
        BrokerConfiguration.Address(host: "127.0.0.1", port: XMPPLimits.port)
    ]
    /// The server's certificate. The server speaks TLS from the first byte.
    public var certificate: GatewayConfiguration.Certificate
    /// Prefix of the certificate's setting names in errors and in the log: `xmpp` or `http`.
    public var certificateSetting = "xmpp"
    /// Most open connections; further ones are closed.
    public var connectionsMax = XMPPLimits.connectionsMax
    /// Most connections that have not signed in (NET-6).
    public var strangersMax = XMPPLimits.strangersMax
    /// How many of `strangersMax` one address may hold (NET-6). Configured proxies are exempt.
    public var strangersPerAddressMax = XMPPLimits.strangersPerAddressMax
    /// Seconds to sign in, from the TCP connection on (NET-3).
    public var signInSeconds = XMPPLimits.signInSeconds
    /// Idle seconds before the server pings; if nothing comes back within the same time, it closes the connection (NET-2).
    public var silenceSeconds = XMPPLimits.silenceSeconds
    /// Seconds in which open connections must finish after the certificate has changed.
    public var drainSecondsMax = XMPPLimits.drainSecondsMax
    /// Seconds for which they stay open at least after CONNECTION_DRAINING, so that app servers can connect anew.
    public var drainSecondsMin = XMPPLimits.drainSecondsMin
    /// Logger of the server.
    public var logger = Logger(label: "martlet.xmpp")

    /// The default settings: the loopback address and the port 5235.
    public init(certificate: GatewayConfiguration.Certificate) { self.certificate = certificate }
}
