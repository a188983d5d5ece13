// SPDX-License-Identifier: Apache-2.0
//
// A connection between its acceptance and the task that serves it. NIO ends the process when what writes
// to a connection is dropped while the connection is open, and Hummingbird drops connections that it
// accepted and has not begun to serve: when its task is cancelled, and when the server ends in that
// moment. Under load many connections wait there. Rests on Hummingbird and NIO.

import HummingbirdCore
import NIOCore
import Synchronization

/// Closes the connection before it is dropped, unless it was taken to be served.
final class AcceptedConnection<Value: ServerChildChannelValue>: ServerChildChannelValue {
    let channel: any Channel
    private let value: Mutex<Value?>

    init(_ value: Value) {
        channel = value.channel
        self.value = Mutex(value)
    }

    /// The connection; nil if it was taken.
    func take() -> Value? {
        value.withLock { value in
            defer { value = nil }
            return value
        }
    }

    deinit {
        guard let value = take() else { return }
        channel.closeFuture.whenComplete { _ in withExtendedLifetime(value) {} }
        channel.close(promise: nil)
    }
}
