// SPDX-License-Identifier: Apache-2.0
//
// A range of network addresses, as settings name proxies. Rests on PeerAddress.

package import MartletBase

/// An IPv4 or IPv6 address, or all addresses with the same first bits.
public struct AddressPrefix: Sendable, Hashable, CustomStringConvertible {
    private let address: PeerAddress
    /// Of 128 bits, because an IPv4 address is kept as its mapped IPv6 address.
    private let bits: Int
    public let description: String

    /// Reads `192.0.2.7`, `10.0.0.0/8` or `2001:db8::/32`; nil for any other text.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = PeerAddress(String(parts[0])) else { return nil }
        let most = address.isIPv4 ? 32 : 128
        var count = most
        if parts.count == 2 {
            guard let given = Int(parts[1]), (0...most).contains(given) else { return nil }
            count = given
        }
        self.address = address
        bits = 128 - most + count
        description = text
    }

    package func contains(_ other: PeerAddress) -> Bool { other.hasPrefix(address, bits: bits) }
}
