// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a broker, which a device tries in turn (NET-7). A network may block a port, so a device may know several.
// Rests on Limits.

public import MartletBase

/// An address of a broker.
public struct BrokerAddress: Sendable, Hashable, CustomStringConvertible {
    /// A name, or a numeric IPv4 or IPv6 address.
    public var host: String
    /// TCP port, 1 to 65,535.
    public var port: Int

    /// Names an address. The default port is 5228.
    public init(host: String, port: Int = Limits.defaultPort) {
        self.host = host
        self.port = port
    }

    /// The further ports on which an operator may listen: 443, 5229 and 5230. Name them only if the broker listens there,
    /// because the credential goes to whoever answers.
    public static func fallbacks(of host: String) -> [BrokerAddress] {
        Limits.fallbackPorts.map { BrokerAddress(host: host, port: $0) }
    }

    /// The address as `host:port`.
    public var description: String { "\(host):\(port)" }
}
