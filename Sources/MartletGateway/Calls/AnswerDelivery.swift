// SPDX-License-Identifier: Apache-2.0
//
// What became of an answer on the network (GW-8). Only the connection knows whether the caller can have read the answer. If
// so, an equal call of the same caller is a new message; if not, a repetition. Rests on Synchronization.

import Synchronization

/// The delivery of one answer to its caller.
package final class AnswerDelivery: Sendable {
    private enum State {
        /// The answer is not yet written whole. Can transition to: ended.
        case pending(observer: (@Sendable (Bool) -> Void)?)
        /// The answer was written whole, or the connection ended early. Final state.
        case ended(isWhole: Bool)
    }

    /// The system's knowledge about a caller's connection.
    package struct Connection: Sendable {
        /// The caller has closed the connection; the event loop may not have seen the end yet.
        var hasPeerLeft: Bool
        /// Time since the last bytes of the request reached the system; the event loop may have read the bytes later.
        var age: Duration

        package init(hasPeerLeft: Bool = false, age: Duration = .zero) {
            self.hasPeerLeft = hasPeerLeft
            self.age = age
        }
    }

    private let state = Mutex(State.pending(observer: nil))
    private let connection: @Sendable () async -> Connection

    /// - Parameter connection: asks the system for the state of the connection.
    package init(connection: @escaping @Sendable () async -> Connection = { Connection() }) {
        self.connection = connection
    }

    /// True if the connection ended before the answer was written whole.
    var isLost: Bool {
        state.withLock { state in
            if case .ended(isWhole: false) = state { true } else { false }
        }
    }

    /// Ends the delivery: the answer was written whole, or never will be. Only the first call has an effect.
    package func end(isWhole: Bool) {
        let observer: (@Sendable (Bool) -> Void)? = state.withLock { state in
            guard case .pending(let observer) = state else { return nil }
            state = .ended(isWhole: isWhole)
            return observer
        }
        observer?(isWhole)
    }

    /// Asks the system, and ends the delivery if the caller has closed the connection.
    /// - Returns: time since the last bytes of the request reached the system.
    @discardableResult
    package func look() async -> Duration {
        let connection = await connection()
        if connection.hasPeerLeft { end(isWhole: false) }
        return connection.age
    }

    /// Calls `observer` once, at the end of the delivery. A second observer replaces the first.
    func whenEnded(_ observer: @escaping @Sendable (_ isWhole: Bool) -> Void) {
        let isWhole: Bool? = state.withLock { state in
            if case .ended(let isWhole) = state { return isWhole }
            state = .pending(observer: observer)
            return nil
        }
        if let isWhole { observer(isWhole) }
    }
}
