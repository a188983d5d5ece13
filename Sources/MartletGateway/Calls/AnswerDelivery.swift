// SPDX-License-Identifier: Apache-2.0
//
// GW-8: what became of an answer on the network. Only the connection knows whether the caller can have
// read the answer, and only then is an equal call of the same caller a new message. Rests on nothing.

import Synchronization

/// The way of one answer to its caller.
package final class AnswerDelivery: Sendable {
    private enum State {
        /// The answer is not written. Can transition to: ended.
        case pending(observer: (@Sendable (Bool) -> Void)?)
        /// The answer was written whole, or the connection ended before. Can transition to: none.
        case ended(isWhole: Bool)
    }

    /// Rises with every call: which of two calls came first.
    let arrival: UInt64
    private let state = Mutex(State.pending(observer: nil))
    private let peerHasLeft: @Sendable () async -> Bool

    /// - Parameters:
    ///   - arrival: `nextArrival` when the head of the request came.
    ///   - peerHasLeft: asks the system, which knows earlier than the event loop, whether the caller has
    ///     closed the connection.
    package init(
        arrival: UInt64 = nextArrival(),
        peerHasLeft: @escaping @Sendable () async -> Bool = { false }
    ) {
        self.arrival = arrival
        self.peerHasLeft = peerHasLeft
    }

    private static let lastArrival = Atomic<UInt64>(0)

    package static func nextArrival() -> UInt64 {
        lastArrival.add(1, ordering: .relaxed).newValue
    }

    /// Whether the connection ended before the answer was written whole.
    var isLost: Bool {
        state.withLock { state in
            if case .ended(isWhole: false) = state { true } else { false }
        }
    }

    /// The answer was written whole, or never will be. The first call counts.
    package func end(isWhole: Bool) {
        let observer: (@Sendable (Bool) -> Void)? = state.withLock { state in
            guard case .pending(let observer) = state else { return nil }
            state = .ended(isWhole: isWhole)
            return observer
        }
        observer?(isWhole)
    }

    /// Ends the delivery if the caller has closed the connection.
    package func endIfPeerHasLeft() async {
        if await peerHasLeft() { end(isWhole: false) }
    }

    /// Calls `observer` once, at the end. Has one observer.
    func whenEnded(_ observer: @escaping @Sendable (_ isWhole: Bool) -> Void) {
        let isWhole: Bool? = state.withLock { state in
            if case .ended(let isWhole) = state { return isWhole }
            state = .pending(observer: observer)
            return nil
        }
        if let isWhole { observer(isWhole) }
    }
}
