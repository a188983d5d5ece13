// SPDX-License-Identifier: Apache-2.0
//
// GW-15: bytes of bodies without a credential. The bytes have a small memory of their own, and an address has a part of
// that memory. An address is known only while it has bytes, so the table is no longer than the list of connections.
// Rests on Limits.

import Martlet
import Synchronization

/// The bodies of strangers.
final class StrangerBodies: Sendable {
    private struct State {
        var total = 0
        var addresses: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// - Returns: false if the memory is full, or the address has its part.
    func take(_ byteCount: Int, of address: String) -> Bool {
        state.withLock { state in
            let held = state.addresses[address, default: 0] + byteCount
            guard held <= Limits.httpStrangerBodiesPerAddressBytesMax,
                state.total + byteCount <= Limits.httpStrangerBodiesBytesMax
            else { return false }
            state.addresses[address] = held
            state.total += byteCount
            return true
        }
    }

    func giveBack(_ byteCount: Int, of address: String) {
        guard byteCount > 0 else { return }
        state.withLock { state in
            state.total -= byteCount
            let left = state.addresses[address, default: 0] - byteCount
            state.addresses[address] = left > 0 ? left : nil
        }
    }
}
