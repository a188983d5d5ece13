// SPDX-License-Identifier: Apache-2.0
//
// Decides whose TLS handshake comes next, by address (GW-15). A handshake costs a signature, so an address has a few at a
// time, and its further connections wait unread. The next one is drawn by lot. A queue would serve those first who have waited
// longest and are about to give up, and a stack those who come last: an address that begins handshakes faster than they are
// served could then keep out whoever shares it. By lot each connection has an equal chance, whatever the others do. Rests on
// PeerAddress.

import Martlet
import Synchronization

/// Gives connections their turns to begin TLS.
package final class HandshakeTurns: Sendable {
    private struct Address {
        var openCount = 0
        /// The waiting connections by their numbers.
        var beginnings: [UInt64: @Sendable () -> Void] = [:]
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var addresses: [PeerAddress: Address] = [:]
    }

    private let most: Int
    private let state = Mutex(State())

    package init(most: Int = Limits.httpHandshakesPerAddressMax) { self.most = most }

    /// Asks for a turn.
    /// - Parameter begin: called once when the turn has come, now or later, on any thread.
    /// - Returns: the number for `leave`.
    package func wait(_ address: PeerAddress, begin: @escaping @Sendable () -> Void) -> UInt64 {
        let number = state.withLock { state in
            state.lastNumber += 1
            state.addresses[address.network, default: Address()].beginnings[state.lastNumber] =
                begin
            return state.lastNumber
        }
        beginNext(address)
        return number
    }

    /// Gives up waiting.
    /// - Returns: false if the turn had begun; `end` must follow.
    package func leave(_ number: UInt64, of address: PeerAddress) -> Bool {
        state.withLock { state in
            let begin = state.addresses[address.network]?.beginnings.removeValue(forKey: number)
            forget(address.network, &state)
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
        guard let known = state.addresses[address], known.openCount == 0, known.beginnings.isEmpty
        else { return }
        state.addresses[address] = nil
    }

    private func beginNext(_ address: PeerAddress) {
        let begin: (@Sendable () -> Void)? = state.withLock { state in
            guard var known = state.addresses.removeValue(forKey: address.network) else {
                return nil
            }
            defer { state.addresses[address.network] = known }
            guard known.openCount < most, let number = known.beginnings.keys.randomElement()
            else { return nil }
            known.openCount += 1
            return known.beginnings.removeValue(forKey: number)
        }
        begin?()
    }
}
