// SPDX-License-Identifier: Apache-2.0
//
// A queue from many threads to one. What is pushed together is taken together, and the consumer is
// woken once per batch and not per element: waking a thread on another core costs tens of
// microseconds. Rests on Synchronization.

import Synchronization

/// A bounded queue with one consumer.
final class Inbox<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var isWoken = false
        var isClosed = false
    }

    private let state = Mutex(State())
    private let capacity: Int

    /// - Parameter capacity: elements past which nothing more is taken. A batch that begins below it
    ///   is taken whole.
    init(capacity: Int) { self.capacity = capacity }

    enum Pushed {
        case taken(mustWake: Bool)
        case full
        case closed
    }

    /// - Parameter mustFit: what cannot be refused any more; its pusher bounds how much that is.
    func push(_ batch: [Element], mustFit: Bool = false) -> Pushed {
        state.withLock { state in
            if state.isClosed { return .closed }
            if state.elements.count >= capacity, !mustFit { return .full }
            state.elements.append(contentsOf: batch)
            defer { state.isWoken = true }
            return .taken(mustWake: !state.isWoken)
        }
    }

    /// Everything that waits, in order. Whoever pushes afterwards wakes the consumer.
    func drain() -> [Element] {
        state.withLock { state in
            state.isWoken = false
            var taken: [Element] = []
            taken.reserveCapacity(min(state.elements.count, 64))
            swap(&taken, &state.elements)
            return taken
        }
    }

    /// Elements that wait.
    var count: Int { state.withLock { $0.elements.count } }

    /// Takes nothing from now on; what waits can still be drained.
    func close() { state.withLock { $0.isClosed = true } }
}
