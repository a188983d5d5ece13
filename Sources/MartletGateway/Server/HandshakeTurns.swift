// SPDX-License-Identifier: Apache-2.0
//
// Decides whose TLS handshake comes next, by address (GW-15). A handshake costs a signature, so an address has a few at a
// time, and its further connections wait unread. A client that opens hundreds of connections at once is served in their order.
// Where more wait, the newest is served first: else silent connections would hold up for minutes whoever shares their address.
// A handshake that failed keeps its place for a second: else an address could begin and leave handshakes without end. Rests on
// PeerAddress.

import Martlet
package import MartletTransport
import Synchronization

/// Gives connections their turns to begin TLS.
package final class HandshakeTurns: Sendable {
    private struct Address {
        var openCount = 0
        /// The numbers of connections, in the order of arrival. A connection has left if `beginnings` lacks its number.
        var order: ArraySlice<UInt64> = []
        /// The waiting connections.
        var beginnings: [UInt64: @Sendable () -> Void] = [:]
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var addresses: [PeerAddress: Address] = [:]
    }

    /// Waiting connections of an address that are served in their order.
    package static let orderedMax = 512

    private let most: Int
    private let state = Mutex(State())

    package init(most: Int = Limits.httpHandshakesPerAddressMax) { self.most = most }

    /// Asks for a turn.
    /// - Parameter begin: called once when the turn has come, now or later, on any thread.
    /// - Returns: the number for `leave`.
    package func wait(_ address: PeerAddress, begin: @escaping @Sendable () -> Void) -> UInt64 {
        let number = state.withLock { state in
            state.lastNumber += 1
            var known = state.addresses[address.network] ?? Address()
            known.order.append(state.lastNumber)
            known.beginnings[state.lastNumber] = begin
            state.addresses[address.network] = known
            return state.lastNumber
        }
        beginNext(address)
        return number
    }

    /// Gives up a place in the queue.
    /// - Returns: false if the turn had begun; `end` must follow.
    package func leave(_ number: UInt64, of address: PeerAddress) -> Bool {
        state.withLock { state in
            let begin = state.addresses[address.network]?.beginnings.removeValue(forKey: number)
            if state.addresses[address.network]?.beginnings.isEmpty == true {
                state.addresses[address.network]?.order = []
                forget(address.network, &state)
            }
            return begin != nil
        }
    }

    /// Whether connections of an address wait for their turns.
    package func isWaitedFor(_ address: PeerAddress) -> Bool {
        state.withLock { $0.addresses[address.network]?.beginnings.isEmpty == false }
    }

    /// Ends a turn that had begun.
    package func end(of address: PeerAddress) {
        state.withLock { state in
            state.addresses[address.network]?.openCount -= 1
            forget(address.network, &state)
        }
        beginNext(address)
    }

    private func forget(_ address: PeerAddress, _ state: inout State) {
        guard let known = state.addresses[address], known.openCount == 0, known.order.isEmpty
        else { return }
        state.addresses[address] = nil
    }

    private func beginNext(_ address: PeerAddress) {
        let begin: (@Sendable () -> Void)? = state.withLock { state in
            guard var known = state.addresses.removeValue(forKey: address.network) else {
                return nil
            }
            defer { state.addresses[address.network] = known }
            guard known.openCount < most else { return nil }
            let isNewestFirst = known.beginnings.count > Self.orderedMax
            while let number = isNewestFirst ? known.order.popLast() : known.order.popFirst() {
                if let begin = known.beginnings.removeValue(forKey: number) {
                    known.openCount += 1
                    return begin
                }
            }
            return nil
        }
        begin?()
    }
}
