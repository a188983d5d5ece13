// SPDX-License-Identifier: Apache-2.0
//
// OPS-5: tells PeerBytesHandler of the requests and answers of an HTTP/1.1 connection. An HTTP/2 stream has a single
// request, so the handler does nothing there. Rests on NIO.

import NIOCore
import NIOHTTPTypes

/// Follows the requests of an HTTP/1.1 connection.
final class RequestTurnHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

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
