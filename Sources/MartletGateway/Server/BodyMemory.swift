// SPDX-License-Identifier: Apache-2.0
//
// Memory for the bodies of unanswered requests of callers with a credential. Each project may hold a part (OPS-5), so
// that a project with many long bodies leaves room for the others. An owner is known only while it has bytes, so the
// table is no longer than the list of connections. Callers without a credential have StrangerMemory. Rests on
// Synchronization.

import Synchronization

/// Bytes of bodies by their owners.
final class BodyMemory: Sendable {
    /// One body's part of the memory. The body gives its part back with `giveBack`.
    final class Part: Sendable {
        private let memory: BodyMemory
        private let owner: String
        private let byteCount = Atomic<Int>(0)

        fileprivate init(_ memory: BodyMemory, _ owner: String) {
            self.memory = memory
            self.owner = owner
        }

        /// Adds bytes to the part.
        /// - Returns: false if the memory is full, or the owner has its part.
        func take(_ count: Int) -> Bool {
            guard count > 0 else { return true }
            guard memory.take(count, of: owner) else { return false }
            byteCount.add(count, ordering: .relaxed)
            return true
        }

        /// Ends the part. A second call has no effect.
        func giveBack() {
            memory.giveBack(byteCount.exchange(0, ordering: .relaxed), of: owner)
        }
    }

    private struct State {
        var total = 0
        var owners: [String: Int] = [:]
    }

    private let totalMax: Int
    private let ownerMax: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - totalMax: bytes of all bodies.
    ///   - ownerMax: bytes of one owner's bodies.
    init(totalMax: Int, ownerMax: Int) {
        self.totalMax = totalMax
        self.ownerMax = ownerMax
    }

    /// Begins the part of a body, with no bytes.
    func begin(_ owner: String) -> Part { Part(self, owner) }

    private func take(_ byteCount: Int, of owner: String) -> Bool {
        state.withLock { state in
            let held = state.owners[owner, default: 0] + byteCount
            guard held <= ownerMax, state.total + byteCount <= totalMax else { return false }
            state.owners[owner] = held
            state.total += byteCount
            return true
        }
    }

    private func giveBack(_ byteCount: Int, of owner: String) {
        guard byteCount > 0 else { return }
        state.withLock { state in
            state.total -= byteCount
            let left = state.owners[owner, default: 0] - byteCount
            state.owners[owner] = left > 0 ? left : nil
        }
    }
}
