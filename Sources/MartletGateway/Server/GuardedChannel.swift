// SPDX-License-Identifier: Apache-2.0
//
// Guards connections in two places outside Hummingbird's own handlers: before a connection speaks HTTP, and below the
// level of requests. Rests on Hummingbird and NIO.

import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP2
import NIOSSL

/// Wraps a channel of another kind: bounds the peer's bytes, and sets a deadline for the beginning of HTTP.
struct GuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
    private let base: Base
    private let gateway: Gateway
    private let handshakeLimit: TimeAmount?
    private let requestLimit: TimeAmount
    private let connections: ConnectionTable
    private let turns = HandshakeTurns()

    /// - Parameter handshakeLimit: time until the connection must speak HTTP; nil without TLS.
    init(
        _ base: Base, _ gateway: Gateway, handshakeLimit: TimeAmount?, requestLimit: TimeAmount,
        connections: ConnectionTable
    ) {
        self.base = base
        self.gateway = gateway
        self.connections = connections
        self.handshakeLimit = handshakeLimit
        self.requestLimit = requestLimit
    }

    func setup(
        channel: any Channel, logger: Logger
    ) -> EventLoopFuture<AcceptedConnection<Base.Value>> {
        let peer = GatewayPeer(channel, gateway)
        guard let number = connections.enter(peer) else {
            peer.speaksHTTP()
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
        }
        let connections = connections
        channel.closeFuture.whenComplete { _ in
            connections.leave(number)
            peer.speaksHTTP()
        }
        readLittle(channel)
        // The handshake has its limit from its turn on, and the turn comes after the first bytes.
        if let handshakeLimit { endWithoutHTTP(channel, after: handshakeLimit * Self.waitFactor) }
        let value = base.setup(channel: channel, logger: logger)
        do {
            let pipeline = channel.pipeline.syncOperations
            let handler = PeerBytesHandler(peer, requestLimit)
            if let handshakeLimit {
                let tls = try pipeline.handler(type: NIOSSLServerHandler.self)
                try pipeline.addHandler(handler, position: .after(tls))
                handler.handshakeFailed = { peer.handshakeFailed($0) }
                if peer.isProxy {
                    endWithoutHTTP(channel, after: handshakeLimit)
                } else {
                    let turn = HandshakeTurnHandler(
                        turns, peer.address, silentMax: handshakeLimit
                    ) { [self] in endWithoutHTTP(channel, after: handshakeLimit) }
                    try pipeline.addHandler(turn, position: .before(tls))
                }
            } else {
                try pipeline.addHandler(handler, position: .first)
            }
            return value.map { AcceptedConnection($0, peer) }
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    /// Serves the connection in a task of its own, from its first request on. A WebSocket has no task, because its
    /// handlers need none, and a task keeps several kilobytes. On cancellation the channel is closed, and the close ends
    /// the task. The task is not cancelled, because a cancelled task drops HTTP/2 streams.
    func handle(value: AcceptedConnection<Base.Value>, logger: Logger) async {
        let (base, channel) = (base, value.channel)
        await withTaskCancellationHandler {
            guard await value.peer.waitForHTTP() else { return value.keep() }
            guard let connection = value.take() else { return }
            let executor = LoopExecutor(channel.eventLoop)
            await Task(executorPreference: executor) {
                await base.handle(value: connection, logger: logger)
            }.value
        } onCancel: {
            channel.close(promise: nil)
        }
    }

    /// How many times as long as its handshake a connection may wait for its turn.
    private static var waitFactor: Int { 3 }

    /// Most bytes of a connection that the event loop takes at a time, before it serves the next connection.
    private static var readBytesMax: Int { 4096 }

    /// Bytes of the first reading. An idle WebSocket keeps the buffer, and connections with long requests get longer ones.
    private static var firstReadBytes: Int { 1024 }

    private func readLittle(_ channel: any Channel) {
        let options = channel.syncOptions
        try? options?.setOption(.maxMessagesPerRead, value: 1)
        try? options?.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(
                minimum: 64, initial: Self.firstReadBytes, maximum: Self.readBytesMax))
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
