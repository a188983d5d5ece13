// SPDX-License-Identifier: Apache-2.0
//
// Bounds the connections that have not signed in yet, in all and per address (NET-6). When the places run out, the address
// with the most connections loses its oldest, so a flood from one place hurts only itself. Rests on PeersByAddress.

import Martlet
import Synchronization

/// Places for connections before their sign-in.
final class StrangerPlaces: Sendable {
    private struct State {
        var lastNumber: UInt64 = 0
        var places = PeersByAddress<UInt64>()
        var ends: [UInt64: @Sendable () -> Void] = [:]

        mutating func remove(_ number: UInt64) -> (@Sendable () -> Void)? {
            places.remove(number)
            return ends.removeValue(forKey: number)
        }
    }

    private let most: Int
    private let perAddressMax: Int
    private let state = Mutex(State())

    init(most: Int, perAddress: Int) {
        self.most = most
        perAddressMax = perAddress
    }

    var count: Int { state.withLock { $0.places.count } }

    /// Takes a place.
    /// - Parameter end: called at most once, to make room for another connection.
    /// - Returns: a number for `leave`; nil if the address has too many connections.
    func enter(
        _ address: PeerAddress, isProxy: Bool, end: @escaping @Sendable () -> Void
    ) -> UInt64? {
        let (number, ended) = state.withLock { state -> (UInt64?, (@Sendable () -> Void)?) in
            let network = address.network
            guard isProxy || state.places.count(of: network) < perAddressMax else {
                return (nil, nil)
            }
            let room = state.places.count >= most ? state.places.first : nil
            let ended = room.flatMap { state.remove($0) }
            state.lastNumber += 1
            state.places.insert(state.lastNumber, from: network)
            state.ends[state.lastNumber] = end
            return (state.lastNumber, ended)
        }
        ended?()
        return number
    }

    /// Gives a place back after the sign-in, or when the connection ends.
    func leave(_ number: UInt64) {
        state.withLock { state in _ = state.remove(number) }
    }
}
