// SPDX-License-Identifier: Apache-2.0
//
// Settings of an XMPP connection server; every setting but the certificate has a default. Rests on XMPPLimits.

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
    /// The beginning of the names of the certificate's settings, for errors and the log: `xmpp` or `http`.
    public var certificateSetting = "xmpp"
    /// Open connections at a time; further connections are closed.
    public var connectionsMax = XMPPLimits.connectionsMax
    /// NET-6: connections whose app servers have not signed in.
    public var strangersMax = XMPPLimits.strangersMax
    /// NET-6: the part of one address in `strangersMax`. A proxy of the broker's configuration has no part.
    public var strangersPerAddressMax = XMPPLimits.strangersPerAddressMax
    /// NET-3: seconds from the TCP connection to the end of the sign-in.
    public var signInSeconds = XMPPLimits.signInSeconds
    /// NET-2: seconds of silence after which the server pings; after as many again the connection ends.
    public var silenceSeconds = XMPPLimits.silenceSeconds
    /// Seconds that a connection has to finish after a change of the certificate.
    public var drainSecondsMax = XMPPLimits.drainSecondsMax
    /// Seconds for which a connection stays open after CONNECTION_DRAINING of a changed certificate.
    public var drainSecondsMin = XMPPLimits.drainSecondsMin
    /// Logger of the server.
    public var logger = Logger(label: "martlet.xmpp")

    /// The default settings: the loopback address and the port 5235.
    public init(certificate: GatewayConfiguration.Certificate) { self.certificate = certificate }
}
