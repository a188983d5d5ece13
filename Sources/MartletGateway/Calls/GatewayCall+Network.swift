// SPDX-License-Identifier: Apache-2.0
//
// The network of a caller, by which a door counts what it cannot count by a credential (REG-10). Rests on PeerAddress and
// StrangerBook.

package import Martlet

extension GatewayCall {
    private var address: PeerAddress { peer.flatMap { PeerAddress($0) } ?? .loopback }

    /// The caller's network as a text: an IPv4 address, or the first 64 bits of an IPv6 address.
    package var network: String { address.network.description }

    /// REG-10: whether the caller's address had too many wrong credentials of late, so that its next credential must not
    /// cost a comparison.
    package func hasTooManyRefusals(at broker: Broker) -> Bool {
        broker.strangers.isOver(address)
    }
}

extension Broker {
    /// Whether a proxy on this machine may stand between clients and a door.
    package var hasLocalProxy: Bool { isProxy(.loopback) }
}
