// SPDX-License-Identifier: Apache-2.0
//
// Ends connections that do not get through their TLS handshake: before that nobody else looks after
// them. Rests on Hummingbird and NIO.

import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP2

/// A channel of another kind that must speak HTTP by a deadline.
struct HandshakeGuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
    private let base: Base
    private let limit: TimeAmount

    init(_ base: Base, limit: TimeAmount) {
        self.base = base
        self.limit = limit
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        let deadline = channel.eventLoop.scheduleTask(in: limit) {
            let pipeline = channel.pipeline.syncOperations
            let speaksHTTP =
                (try? pipeline.handler(type: HTTPConnectionStateHandler.self)) != nil
                || (try? pipeline.handler(type: NIOHTTP2Handler.self)) != nil
            if !speaksHTTP { channel.close(promise: nil) }
        }
        channel.closeFuture.whenComplete { _ in deadline.cancel() }
        return base.setup(channel: channel, logger: logger)
    }

    func handle(value: Base.Value, logger: Logger) async {
        await base.handle(value: value, logger: logger)
    }
}
