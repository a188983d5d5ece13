// SPDX-License-Identifier: Apache-2.0
//
// The connections whose app servers have not signed in (NET-6). Their number is bounded, and the part of one address. At the
// bound the address with most connections loses its oldest, so a flood from one place costs the flood alone. Rests on
// PeerAddress.

import MartletTransport
import Synchronization

/// Places for connections before their sign-in.
final class StrangerPlaces: Sendable {
    private struct Stranger {
        var network: PeerAddress
        var end: @Sendable () -> Void
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var strangers: [UInt64: Stranger] = [:]
        var counts: [PeerAddress: Int] = [:]

        mutating func remove(_ number: UInt64) -> Stranger? {
            guard let stranger = strangers.removeValue(forKey: number) else { return nil }
            let left = (counts[stranger.network] ?? 1) - 1
            counts[stranger.network] = left > 0 ? left : nil
            return stranger
        }

        /// Removes the oldest connection of the address with most connections.
        mutating func removeOne() -> Stranger? {
            guard let most = counts.values.max() else { return nil }
            let oldest = strangers.filter { counts[$0.value.network] == most }.keys.min()
            return oldest.flatMap { remove($0) }
        }
    }

    private let most: Int
    private let perAddressMax: Int
    private let state = Mutex(State())

    init(most: Int, perAddress: Int) {
        self.most = most
        perAddressMax = perAddress
    }

    var count: Int { state.withLock { $0.strangers.count } }

    /// Takes a place.
    /// - Parameter end: called at most once, to make room for another connection.
    /// - Returns: the number for `leave`; nil if the address has too many connections.
    func enter(
        _ address: PeerAddress, isProxy: Bool, end: @escaping @Sendable () -> Void
    ) -> UInt64? {
        let (number, ended) = state.withLock { state -> (UInt64?, Stranger?) in
            let network = address.network
            guard isProxy || state.counts[network, default: 0] < perAddressMax else {
                return (nil, nil)
            }
            let ended = state.strangers.count >= most ? state.removeOne() : nil
            state.lastNumber += 1
            state.strangers[state.lastNumber] = Stranger(network: network, end: end)
            state.counts[network, default: 0] += 1
            return (state.lastNumber, ended)
        }
        ended?.end()
        return number
    }

    /// Gives a place back, after the sign-in or the end of the connection.
    func leave(_ number: UInt64) {
        state.withLock { state in _ = state.remove(number) }
    }
}
