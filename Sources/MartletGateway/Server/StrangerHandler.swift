// SPDX-License-Identifier: Apache-2.0
//
// Counts the memory of strangers' requests on an HTTP/1.1 connection or an HTTP/2 stream (GW-15). A decoded head of HTTP/2 can
// be a hundred times as long as its bytes on the network, and a peer may read no answer. A request therefore counts from its
// head until its answer is written: with the bytes of the head, of the answer, and what the server keeps for a request. The
// bytes of the body count in Responder.
//
// A request past the bounds is refused: a stream is reset with REFUSED_STREAM, after which a client may repeat the
// request; on HTTP/1.1 the answer is 503. Rests on StrangerMemory and NIO.

import HTTPTypes
import Martlet
import NIOCore
import NIOHTTP2
import NIOHTTPTypes

/// Bounds the requests of strangers.
final class StrangerHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// How long a refused HTTP/1.1 connection stays open, so that a client that still sends can read the answer.
    private static let farewell = TimeAmount.seconds(2)

    private let gateway: Gateway
    /// Requests without a written answer in their order; nil for a caller with a right credential.
    private var requests: [StrangerMemory.Part?] = []
    private var isStreamCounted = false
    private var isRefused = false
    private var peer: GatewayPeer?
    private let reset = StreamResetHandler()

    init(_ gateway: Gateway) { self.gateway = gateway }

    func handlerAdded(context: ChannelHandlerContext) {
        guard context.channel.isStream else { return }
        try? context.pipeline.syncOperations.addHandler(reset, position: .first)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        if case .head(let head) = unwrapInboundIn(data), !admit(head, context) {
            isRefused = true
            return refuse(context)
        }
        context.fireChannelRead(data)
    }

    private func admit(_ head: HTTPRequest, _ context: ChannelHandlerContext) -> Bool {
        guard let peer = peer(context) else {
            requests.append(nil)
            return true
        }
        peer.requestBegan()
        guard let address = peer.stranger(of: head) else {
            requests.append(nil)
            return true
        }
        let channel = context.channel
        if channel.isStream {
            guard peer.openStream() else {
                peer.requestsEnded(1)
                return false
            }
            isStreamCounted = true
        }
        let part = gateway.strangers.begin(address) {
            if channel.isStream { channel.close(promise: nil) } else { peer.end() }
        }
        requests.append(part)
        return part.take(byteCount(head) + Limits.httpStrangerRequestBytes)
    }

    private func byteCount(_ head: HTTPRequest) -> Int {
        let beginning = [
            head.method.rawValue, head.scheme ?? "", head.authority ?? "", head.path ?? "",
        ]
        return head.headerFields.reduce(beginning.reduce(0) { $0 + $1.utf8.count }) {
            $0 + $1.name.rawName.utf8.count + $1.value.utf8.count
        }
    }

    private func peer(_ context: ChannelHandlerContext) -> GatewayPeer? {
        if peer == nil {
            let connection = context.channel.isStream ? context.channel.parent : context.channel
            peer = try? connection?.pipeline.syncOperations.handler(type: PeerBytesHandler.self)
                .peer
        }
        return peer
    }

    private func refuse(_ context: ChannelHandlerContext) {
        let channel = context.channel
        if channel.isStream {
            reset.refuse()
            peer?.refusedStream()
            return
        }
        // An answer behind unwritten ones would be taken for the first of them.
        guard requests.count <= 1 else { return context.close(promise: nil) }
        let answer = Gateway.full.envelope
        var fields = HTTPFields()
        for header in answer.headers + [("connection", "close")] {
            if let name = HTTPField.Name(header.name) { fields[name] = header.value }
        }
        fields[.contentLength] = String(answer.body.count)
        let head = HTTPResponse(status: .init(code: answer.status), headerFields: fields)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(ByteBuffer(bytes: answer.body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        giveBack()
        gateway.metrics.answered("none", status: answer.status, after: .zero)
        context.eventLoop.scheduleTask(in: Self.farewell) { channel.close(promise: nil) }
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        switch unwrapOutboundIn(data) {
        case .head: context.write(data, promise: promise)
        case .body(let bytes):
            if let part = requests.first ?? nil, !part.take(bytes.readableBytes) {
                promise?.fail(ChannelError.ioOnClosedChannel)
                return context.close(promise: nil)
            }
            context.write(data, promise: promise)
        case .end:
            guard !requests.isEmpty else { return context.write(data, promise: promise) }
            peer?.requestsEnded(1)
            guard let part = requests.removeFirst() else {
                return context.write(data, promise: promise)
            }
            let written = promise ?? context.eventLoop.makePromise()
            written.futureResult.whenComplete { _ in part.giveBack() }
            context.write(data, promise: written)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        giveBack()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        giveBack()
        if isStreamCounted { peer?.closeStream() }
        isStreamCounted = false
    }

    private func giveBack() {
        for request in requests { request?.giveBack() }
        peer?.requestsEnded(requests.count)
        requests = []
    }
}

@available(*, unavailable)
extension StrangerHandler: Sendable {}

/// Resets a stream with a reason, below the level of requests: a usual close says CANCEL.
private final class StreamResetHandler: ChannelOutboundHandler {
    typealias OutboundIn = HTTP2Frame.FramePayload
    typealias OutboundOut = HTTP2Frame.FramePayload

    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func refuse() {
        context?.writeAndFlush(wrapOutboundOut(.rstStream(.refusedStream)), promise: nil)
    }
}

@available(*, unavailable)
extension StreamResetHandler: Sendable {}
