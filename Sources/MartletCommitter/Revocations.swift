// SPDX-License-Identifier: Apache-2.0
//
// Tells other parts of the process when the server key of a sender that they serve is revoked (REG-9). The committer tells a
// revoked key when the revocation is on disk, as it tells the loops. Rests on nothing.

import Synchronization

/// Tells revoked keys to the connections that were opened with the keys.
package final class Revocations: Sendable {
    private struct State {
        var lastNumber: UInt64 = 0
        var watchers: [String: [UInt64: @Sendable () -> Void]] = [:]
    }

    private let state = Mutex(State())

    /// Watches a key until `forget`.
    /// - Parameter tell: called on the committer's thread, which it must not hold up.
    package func watch(_ keyID: String, _ tell: @escaping @Sendable () -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            state.watchers[keyID, default: [:]][state.lastNumber] = tell
            return state.lastNumber
        }
    }

    package func forget(_ number: UInt64, of keyID: String) {
        state.withLock { state in
            state.watchers[keyID]?[number] = nil
            if state.watchers[keyID]?.isEmpty == true { state.watchers[keyID] = nil }
        }
    }

    package func revoked(_ keyID: String) {
        let watchers = state.withLock { $0.watchers[keyID] } ?? [:]
        for tell in watchers.values { tell() }
    }
}
