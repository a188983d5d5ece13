// SPDX-License-Identifier: Apache-2.0
//
// Rejects private addresses. Anyone may register an endpoint URL, so without this check a stranger could make the
// broker call hosts inside the operator's network (SSRF). Rests on PeerAddress.
// Source: the IANA registries of special-purpose IPv4 and IPv6 addresses (RFC 6890), and the RFC beside each range.

extension PeerAddress {
    /// Whether the address belongs to a host of the public Internet. An IPv6 address that leads to an IPv4 address is
    /// judged by the IPv4 address.
    package var isPublic: Bool {
        if isIPv4 { return !Self.specialIPv4.contains(where: isIn) }
        if let behind = addressBehind { return behind.isPublic }
        return isIn(Self.globalUnicast) && !Self.specialIPv6.contains(where: isIn)
    }

    private typealias Range = (prefix: PeerAddress, bits: Int)

    private static func range(_ text: String, _ bits: Int) -> Range {
        guard let prefix = PeerAddress(text) else { preconditionFailure("\(text) is an address.") }
        return (prefix, prefix.isIPv4 ? 96 + bits : bits)
    }

    private func isIn(_ range: Range) -> Bool { hasPrefix(range.prefix, bits: range.bits) }

    /// The IPv4 address to which a translator or a tunnel forwards.
    private var addressBehind: PeerAddress? {
        // NAT64: the last 32 bits.
        if isIn(Self.nat64) { return PeerAddress(v4: UInt32(truncatingIfNeeded: low)) }
        // 6to4: bits 16 to 47.
        if isIn(Self.sixToFour) { return PeerAddress(v4: UInt32(truncatingIfNeeded: high >> 16)) }
        return nil
    }

    private static let nat64 = range("64:ff9b::", 96)  // RFC 6052
    private static let sixToFour = range("2002::", 16)  // RFC 3056
    /// All addresses of single hosts that were given out so far. Unique local, link-local, multicast, discard-only and
    /// SRv6 addresses lie outside. Source: RFC 4291, section 2.4.
    private static let globalUnicast = range("2000::", 3)

    private static let specialIPv4 = [
        range("0.0.0.0", 8),  // this network: RFC 791
        range("10.0.0.0", 8),  // private: RFC 1918
        range("100.64.0.0", 10),  // shared by a provider's customers: RFC 6598
        range("127.0.0.0", 8),  // loopback: RFC 1122
        range("169.254.0.0", 16),  // link-local: RFC 3927
        range("172.16.0.0", 12),  // private: RFC 1918
        range("192.0.0.0", 24),  // protocol assignments: RFC 6890
        range("192.0.2.0", 24),  // documentation: RFC 5737
        range("192.88.99.0", 24),  // former 6to4 relays: RFC 7526
        range("192.168.0.0", 16),  // private: RFC 1918
        range("198.18.0.0", 15),  // benchmarks: RFC 2544
        range("198.51.100.0", 24),  // documentation: RFC 5737
        range("203.0.113.0", 24),  // documentation: RFC 5737
        range("224.0.0.0", 4),  // multicast: RFC 1112
        range("240.0.0.0", 4),  // reserved, and broadcast: RFC 1112, RFC 8190
    ]

    /// Within `globalUnicast`.
    private static let specialIPv6 = [
        range("2001::", 23),  // protocol assignments, such as Teredo and benchmarks: RFC 2928
        range("2001:db8::", 32),  // documentation: RFC 3849
        range("3fff::", 20),  // documentation: RFC 9637
    ]
}
