// SPDX-License-Identifier: Apache-2.0
//
// Hands an HTTP/1.1 connection over to a door that takes the request for a WebSocket (GW-13). PeerBytesHandler, the first
// handler, passes the bytes to the handlers of WebSocket, which stand behind it. The handlers of HTTP see no bytes any more,
// and leave the pipeline, because most WebSockets are idle for hours and each would keep several kilobytes of them. Source:
// RFC 6455, section 4.2. Rests on GatewayDoor and NIO.

import HTTPTypes
import HummingbirdCore
import Martlet
import MartletCrypto
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import NIOWebSocket

/// Takes requests for a WebSocket out of the requests of a connection.
final class WebSocketUpgradeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart

    private let gateway: Gateway
    private var isHTTP = false
    /// The request that is taken over at its end.
    private var taken: (offer: WebSocketOffer, key: String, address: PeerAddress)?

    init(_ gateway: Gateway) { self.gateway = gateway }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            taken = context.channel.isStream ? nil : offer(for: head, context)
            if taken == nil {
                tellHTTP(context)
                context.fireChannelRead(data)
            }
        case .body: if taken == nil { context.fireChannelRead(data) }
        case .end:
            guard let taken else { return context.fireChannelRead(data) }
            self.taken = nil
            handOver(taken.offer, key: taken.key, taken.address, context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        tellHTTP(context)
        context.fireErrorCaught(error)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { tellHTTP(context) }
        context.fireUserInboundEventTriggered(event)
    }

    /// The connection needs the task that serves requests.
    private func tellHTTP(_ context: ChannelHandlerContext) {
        guard !isHTTP else { return }
        isHTTP = true
        let pipeline = context.pipeline.syncOperations
        (try? pipeline.handler(type: PeerBytesHandler.self))?.peer.speaksHTTP()
    }

    private func offer(
        for head: HTTPRequest, _ context: ChannelHandlerContext
    ) -> (WebSocketOffer, String, PeerAddress)? {
        guard !gateway.doors.isEmpty, Self.isUpgrade(head), Self.hasKnownVersion(head),
            let key = head.headerFields[.secWebSocketKey], Base64URL.isKey(key)
        else { return nil }
        let headers = head.headerFields.map { (name: $0.name.canonicalName, value: $0.value) }
        guard var call = GatewayCall(.get, target: head.path ?? "/", headers: headers) else {
            return nil
        }
        call.peer = gateway.client(of: headers, from: context.channel.remoteAddress?.ipAddress)
        for door in gateway.doors {
            if let offer = door.webSocket(for: call) {
                return (offer, key, call.peer.flatMap { PeerAddress($0) } ?? .loopback)
            }
        }
        return nil
    }

    /// Whether a request asks for a WebSocket, of any version.
    static func isUpgrade(_ head: HTTPRequest) -> Bool {
        head.method == .get && lists(head.headerFields[values: .upgrade], "websocket")
            && lists(head.headerFields[values: .connection], "upgrade")
    }

    /// Whether a request for a WebSocket has the version that doors speak.
    static func hasKnownVersion(_ head: HTTPRequest) -> Bool {
        head.headerFields[.secWebSocketVersion] == "13"
    }

    /// Whether a list of a header has the token.
    private static func lists(_ values: [String], _ token: String) -> Bool {
        values.contains { value in
            value.split(separator: ",").contains {
                $0.trimmingBlanks.lowercased() == token
            }
        }
    }

    private func handOver(
        _ offer: WebSocketOffer, key: String, _ address: PeerAddress,
        _ context: ChannelHandlerContext
    ) {
        let pipeline = context.pipeline.syncOperations
        guard let bytes = try? pipeline.handler(type: PeerBytesHandler.self) else {
            return context.close(promise: nil)
        }
        // Both have deadlines for requests, of which the connection has none any more.
        for deadlines in [
            try? pipeline.context(handlerType: SlowPeerHandler.self),
            try? pipeline.context(handlerType: HTTPConnectionStateHandler.self),
        ] {
            if let deadlines { pipeline.removeHandler(context: deadlines, promise: nil) }
        }
        var answer =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        answer += "Sec-WebSocket-Accept: \(Self.acceptance(of: key))\r\n"
        if let subprotocol = offer.subprotocol {
            answer += "Sec-WebSocket-Protocol: \(subprotocol)\r\n"
        }
        gateway.metrics.answered("webSocket", status: 101, after: .zero)
        bytes.handOver(
            ByteBuffer(string: answer + "\r\n"),
            to: [
                WebSocketFrameEncoder(),
                ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: offer.messageBytesMax)),
                offer.makeHandler(WebSocketPeer(bytes.peer, address: address)),
            ], from: address)
        bytes.peer.speaksWebSocket()
        // The request is still on its way through these handlers.
        let bound = NIOLoopBound(context.pipeline.syncOperations, eventLoop: context.eventLoop)
        context.eventLoop.execute { Self.removeHTTP(from: bound.value) }
    }

    private static func removeHTTP(from pipeline: ChannelPipeline.SynchronousOperations) {
        for handler in [
            try? pipeline.context(handlerType: ByteToMessageHandler<HTTPRequestDecoder>.self),
            try? pipeline.context(handlerType: HTTPServerPipelineHandler.self),
            try? pipeline.context(handlerType: HTTPResponseEncoder.self),
            try? pipeline.context(handlerType: LastAnswerHandler.self),
            try? pipeline.context(handlerType: HTTP1ToHTTPServerCodec.self),
            try? pipeline.context(handlerType: RequestTurnHandler.self),
            try? pipeline.context(handlerType: StrangerHandler.self),
            try? pipeline.context(handlerType: AnswerWatchHandler.self),
            try? pipeline.context(handlerType: WebSocketUpgradeHandler.self),
        ] {
            if let handler { pipeline.removeHandler(context: handler, promise: nil) }
        }
    }

    /// The proof that the request was read: SHA-1 of the key and a fixed text, in base64.
    private static func acceptance(of key: String) -> String {
        let digest = SHA1.hash(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
        return Base64URL.encode(digest).map { $0 == "-" ? "+" : $0 == "_" ? "/" : String($0) }
            .joined() + "="
    }
}

@available(*, unavailable)
extension WebSocketUpgradeHandler: Sendable {}

extension Base64URL {
    /// Whether a text is the base64 form of 16 bytes, as a WebSocket's key is.
    fileprivate static func isKey(_ text: String) -> Bool {
        text.utf8.count == 24 && text.hasSuffix("==")
    }
}

extension Substring {
    fileprivate var trimmingBlanks: Substring {
        let start = drop { $0 == " " || $0 == "\t" }
        let end = start.lastIndex { $0 != " " && $0 != "\t" }
        return end.map { start[...$0] } ?? start[start.endIndex...]
    }
}
