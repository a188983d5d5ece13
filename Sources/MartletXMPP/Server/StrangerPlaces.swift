// SPDX-License-Identifier: Apache-2.0
//
// Bounds the connections that have not signed in yet, in all and per address (NET-6). When the places run out, the address
// with the most connections loses its oldest, so a flood from one place hurts only itself. Rests on PeerAddress.

import Martlet
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

        /// Removes the oldest connection of the address that has most.
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
    /// - Returns: a number for `leave`; nil if the address has too many connections.
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

    /// Gives a place back after the sign-in, or when the connection ends.
    func leave(_ number: UInt64) {
        state.withLock { state in _ = state.remove(number) }
    }
}
