// SPDX-License-Identifier: Apache-2.0
//
// Which addresses the world may name: strangers register endpoints, and a broker that sent to any address would ask
// hosts of its own network for them. Rests on PeerAddress.
// Source: RFC 6890 and the registries of special-purpose addresses of IANA; RFC 4291; RFC 6052.

package import MartletTransport

extension PeerAddress {
    /// Whether the address belongs to a host of the public Internet: neither this machine, nor a private network, nor a
    /// group, nor an address for documentation. An IPv6 address that leads to an IPv4 address is judged as the latter.
    package var isPublic: Bool {
        if isIPv4 {
            return !Self.specialIPv4.contains { hasPrefix($0.address, bits: 96 + $0.bits) }
        }
        // 64:ff9b::/96, NAT64: the last 32 bits are the IPv4 address.
        if high == 0x0064_FF9B_0000_0000, low >> 32 == 0 {
            return PeerAddress(v4: UInt32(truncatingIfNeeded: low)).isPublic
        }
        // 2002::/16, 6to4: bits 16 to 47 are the IPv4 address.
        if high >> 48 == 0x2002 {
            return PeerAddress(v4: UInt32(truncatingIfNeeded: high >> 16)).isPublic
        }
        // 2000::/3 are all addresses of single hosts that were given out, and 2001::/23 and 2001:db8::/32 are special.
        guard high >> 61 == 0b001 else { return false }
        return high >> 41 != 0x2001_0000 >> 9 && high >> 32 != 0x2001_0DB8
            && high >> 44 != 0x3FFF0
    }

    private static let specialIPv4: [(address: PeerAddress, bits: Int)] = [
        ("0.0.0.0", 8), ("10.0.0.0", 8), ("100.64.0.0", 10), ("127.0.0.0", 8),
        ("169.254.0.0", 16), ("172.16.0.0", 12), ("192.0.0.0", 24), ("192.0.2.0", 24),
        ("192.88.99.0", 24), ("192.168.0.0", 16), ("198.18.0.0", 15), ("198.51.100.0", 24),
        ("203.0.113.0", 24), ("224.0.0.0", 3),
    ].map { (text, bits) in
        guard let address = PeerAddress(text) else {
            preconditionFailure("\(text) is an address.")
        }
        return (address, bits)
    }
}
