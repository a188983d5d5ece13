// SPDX-License-Identifier: Apache-2.0
//
// Closes the connection of a peer that sends a request, or reads an answer, a byte at a time: it ties up what other peers need
// (OPS-5). Rests on LastAnswerHandler and NIO.

import NIOCore
import NIOHTTPTypes

/// Limits the time of every request and every answer on the network.
final class SlowPeerHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private let limit: TimeAmount
    private var reading: Scheduled<Void>?
    private var writing: Scheduled<Void>?

    init(_ limit: TimeAmount) { self.limit = limit }

    /// Begins the deadline of a request when bytes come, unless a request is being read.
    func bytesCame(on channel: any Channel) {
        guard reading == nil else { return }
        reading = channel.eventLoop.scheduleTask(in: limit) {
            let pipeline = channel.pipeline.syncOperations
            if let handler = try? pipeline.handler(type: LastAnswerHandler.self) {
                handler.requestIsLate()
            } else {
                channel.close(promise: nil)
            }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: bytesCame(on: context.channel)
        case .body: break
        case .end:
            reading?.cancel()
            reading = nil
        }
        context.fireChannelRead(data)
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        guard case .end = unwrapOutboundIn(data) else {
            return context.write(data, promise: promise)
        }
        let written = promise ?? context.eventLoop.makePromise()
        let own = deadline(context.channel)
        writing?.cancel()
        writing = own
        written.futureResult.assumeIsolated().whenComplete { _ in own.cancel() }
        context.write(data, promise: written)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        reading?.cancel()
        writing?.cancel()
    }

    private func deadline(_ channel: any Channel) -> Scheduled<Void> {
        channel.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
    }
}

@available(*, unavailable)
extension SlowPeerHandler: Sendable {}
