// SPDX-License-Identifier: Apache-2.0
//
// A connection after its acceptance and before its serving task. Hummingbird drops such a connection in two cases:
// Hummingbird's task is cancelled, or the server ends at the wrong moment. NIO ends the process if the writer of an
// open connection is dropped. Under load many connections wait in this state. Rests on Hummingbird and NIO.

import HummingbirdCore
import NIOCore
import Synchronization

/// Closes an accepted connection before dropping it, unless `take` handed the connection out.
final class AcceptedConnection<Value: ServerChildChannelValue>: ServerChildChannelValue {
    let channel: any Channel
    let peer: GatewayPeer
    private let value: Mutex<Value?>

    init(_ value: Value, _ peer: GatewayPeer) {
        channel = value.channel
        self.peer = peer
        self.value = Mutex(value)
    }

    /// Keeps the connection until its channel has closed.
    func keep() { channel.closeFuture.whenComplete { _ in withExtendedLifetime(self) {} } }

    /// Hands out the connection; nil after the first call.
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
