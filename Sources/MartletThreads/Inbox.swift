// SPDX-License-Identifier: Apache-2.0
//
// A queue from many threads to a single thread. Elements that are pushed together are taken together. The
// consumer is woken once per batch and not per element, because waking a thread on another core costs tens of
// microseconds. Rests on Synchronization. Inlinable, so that each
// module has inboxes of its own elements.

package import Synchronization

/// A bounded queue with a single consumer.
package final class Inbox<Element: Sendable>: Sendable {
    @usableFromInline
    struct State {
        @usableFromInline var elements: [Element] = []
        @usableFromInline var isWoken = false
        @usableFromInline var isClosed = false

        @inlinable init() {}
    }

    @usableFromInline let state: Mutex<State>
    @usableFromInline let capacity: Int

    /// - Parameter capacity: elements past which a batch is refused. A batch that begins below the capacity is
    ///   taken whole.
    @inlinable package init(capacity: Int) {
        self.capacity = capacity
        state = Mutex(State())
    }

    package enum Pushed {
        case taken(mustWake: Bool)
        case full
        case closed
    }

    /// - Parameter mustFit: take the batch although the queue is full. The caller bounds the number of such
    ///   elements.
    @inlinable
    package func push(_ batch: [Element], mustFit: Bool = false) -> Pushed {
        state.withLock { state in
            if state.isClosed { return .closed }
            if state.elements.count >= capacity, !mustFit { return .full }
            state.elements.append(contentsOf: batch)
            defer { state.isWoken = true }
            return .taken(mustWake: !state.isWoken)
        }
    }

    /// Takes all waiting elements, in order. The next push wakes the consumer.
    @inlinable
    package func drain() -> [Element] {
        state.withLock { state in
            state.isWoken = false
            var taken: [Element] = []
            taken.reserveCapacity(min(state.elements.count, 64))
            swap(&taken, &state.elements)
            return taken
        }
    }

    /// Number of waiting elements.
    @inlinable package var count: Int { state.withLock { $0.elements.count } }

    /// Refuses batches from now on. Waiting elements can still be drained.
    @inlinable package func close() { state.withLock { $0.isClosed = true } }
}
