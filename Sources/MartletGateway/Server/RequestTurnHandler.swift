// SPDX-License-Identifier: Apache-2.0
//
// OPS-5: tells PeerBytesHandler of the requests and answers of an HTTP/1.1 connection, and of the streams of an HTTP/2
// connection. Rests on PeerBytesHandler, LastAnswerHandler and NIO.

import NIOCore
import NIOHTTPTypes

/// Follows the requests of a connection.
final class RequestTurnHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The connection of this HTTP/2 stream.
    private var connection: PeerBytesHandler?

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isStream {
            connection = try? context.channel.parent?.pipeline.syncOperations.handler(
                type: PeerBytesHandler.self)
            connection?.streamOpened()
        } else {
            try? LastAnswerHandler.add(to: context.pipeline.syncOperations)
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        connection?.streamClosed()
        connection = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        bytes(context)?.requestCame(unwrapInboundIn(data))
        context.fireChannelRead(data)
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        if case .end = unwrapOutboundIn(data) { bytes(context)?.answered() }
        context.write(data, promise: promise)
    }

    private func bytes(_ context: ChannelHandlerContext) -> PeerBytesHandler? {
        guard !context.channel.isStream else { return nil }
        return try? context.pipeline.syncOperations.handler(type: PeerBytesHandler.self)
    }
}

@available(*, unavailable)
extension RequestTurnHandler: Sendable {}
