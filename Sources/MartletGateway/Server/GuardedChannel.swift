// SPDX-License-Identifier: Apache-2.0
//
// Guards connections where Hummingbird's own handlers do not look: before they speak HTTP, and below
// the level of requests. Rests on Hummingbird and NIO.

import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP2
import NIOSSL

/// A channel of another kind whose peer is bounded by its bytes, and must speak HTTP by a deadline.
struct GuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
    private let base: Base
    private let handshakeLimit: TimeAmount?
    private let requestLimit: TimeAmount

    /// - Parameter handshakeLimit: nil without TLS.
    init(_ base: Base, handshakeLimit: TimeAmount?, requestLimit: TimeAmount) {
        self.base = base
        self.handshakeLimit = handshakeLimit
        self.requestLimit = requestLimit
    }

    func setup(
        channel: any Channel, logger: Logger
    ) -> EventLoopFuture<AcceptedConnection<Base.Value>> {
        if let handshakeLimit { endWithoutHTTP(channel, after: handshakeLimit) }
        let value = base.setup(channel: channel, logger: logger)
        do {
            let pipeline = channel.pipeline.syncOperations
            let handler = PeerBytesHandler(requestLimit)
            if handshakeLimit == nil {
                try pipeline.addHandler(handler, position: .first)
            } else {
                let tls = try pipeline.handler(type: NIOSSLServerHandler.self)
                try pipeline.addHandler(handler, position: .after(tls))
            }
            return value.map { AcceptedConnection($0) }
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    /// A cancelled task drops streams of HTTP/2 as well, so the connection's own task is not cancelled:
    /// the connection is closed, and that ends the task.
    func handle(value: AcceptedConnection<Base.Value>, logger: Logger) async {
        guard let connection = value.take() else { return }
        let (base, channel) = (base, value.channel)
        await withTaskCancellationHandler {
            await Task { await base.handle(value: connection, logger: logger) }.value
        } onCancel: {
            channel.close(promise: nil)
        }
    }

    private func endWithoutHTTP(_ channel: any Channel, after limit: TimeAmount) {
        let deadline = channel.eventLoop.scheduleTask(in: limit) {
            let pipeline = channel.pipeline.syncOperations
            let speaksHTTP =
                (try? pipeline.handler(type: HTTPConnectionStateHandler.self)) != nil
                || (try? pipeline.handler(type: NIOHTTP2Handler.self)) != nil
            if !speaksHTTP { channel.close(promise: nil) }
        }
        channel.closeFuture.whenComplete { _ in deadline.cancel() }
    }
}
