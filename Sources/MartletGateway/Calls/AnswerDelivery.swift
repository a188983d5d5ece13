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

    /// What the system knows of a caller's connection.
    package struct Connection: Sendable {
        /// The caller has closed the connection, which the event loop may not have seen yet.
        var hasPeerLeft: Bool
        /// How long ago the last bytes of the request came, which the event loop may have read late.
        var age: Duration

        package init(hasPeerLeft: Bool = false, age: Duration = .zero) {
            self.hasPeerLeft = hasPeerLeft
            self.age = age
        }
    }

    private let state = Mutex(State.pending(observer: nil))
    private let connection: @Sendable () async -> Connection

    /// - Parameter connection: asks the system.
    package init(connection: @escaping @Sendable () async -> Connection = { Connection() }) {
        self.connection = connection
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
    /// - Returns: how long ago the request came.
    @discardableResult
    package func look() async -> Duration {
        let connection = await connection()
        if connection.hasPeerLeft { end(isWhole: false) }
        return connection.age
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
