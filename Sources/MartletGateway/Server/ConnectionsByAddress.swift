// SPDX-License-Identifier: Apache-2.0
//
// GW-15: open connections by address, so that one address cannot take all connections of the gateway. An address is
// known only while it has connections, so the table is no longer than the list of connections. Rests on PeerAddress.

import MartletTransport
import Synchronization

/// Counts the connections of each address.
final class ConnectionsByAddress: Sendable {
    private let most: Int
    private let isProxy: @Sendable (PeerAddress) -> Bool
    private let counts = Mutex<[PeerAddress: Int]>([:])

    /// - Parameter isProxy: whether an address is exempt, because it stands for many clients.
    init(most: Int, isProxy: @escaping @Sendable (PeerAddress) -> Bool) {
        self.most = most
        self.isProxy = isProxy
    }

    /// - Returns: false if the address has too many connections; the connection is not counted.
    func enter(_ address: PeerAddress) -> Bool {
        isProxy(address)
            || counts.withLock { counts in
                let count = counts[address.network, default: 0]
                guard count < most else { return false }
                counts[address.network] = count + 1
                return true
            }
    }

    /// Notes the end of a counted connection.
    func leave(_ address: PeerAddress) {
        guard !isProxy(address) else { return }
        counts.withLock { counts in
            let left = counts[address.network, default: 0] - 1
            counts[address.network] = left > 0 ? left : nil
        }
    }
}
