// SPDX-License-Identifier: Apache-2.0
//
// Tells PeerBytesHandler when requests begin and answers end, on an HTTP/1.1 connection and on the streams of an HTTP/2
// connection (OPS-5). As the handler that every answer passes, it also adds `Date` (RFC 9110, section 6.6.1). Rests on
// PeerBytesHandler, LastAnswerHandler and NIO.

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Follows the requests of a connection.
final class RequestTurnHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let gateway: Gateway
    /// The connection of this HTTP/2 stream.
    private var connection: PeerBytesHandler?

    init(_ gateway: Gateway) { self.gateway = gateway }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isStream {
            connection = try? context.channel.parent?.pipeline.syncOperations.handler(
                type: PeerBytesHandler.self)
            connection?.streamOpened()
        } else {
            let gateway = gateway
            try? LastAnswerHandler.add(to: context.pipeline.syncOperations) { gateway.date }
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
        switch unwrapOutboundIn(data) {
        case .head(var head) where head.status.kind != .informational:
            head.headerFields[.date] = gateway.date
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end: bytes(context)?.answered()
        case .head, .body: break
        }
        context.write(data, promise: promise)
    }

    private func bytes(_ context: ChannelHandlerContext) -> PeerBytesHandler? {
        guard !context.channel.isStream else { return nil }
        return try? context.pipeline.syncOperations.handler(type: PeerBytesHandler.self)
    }
}

@available(*, unavailable)
extension RequestTurnHandler: Sendable {}
