// SPDX-License-Identifier: Apache-2.0
//
// Bounds what a peer may send ahead of its answers, by looking at the bytes below HTTP and above TLS (OPS-5).
//
// On HTTP/1.1 a peer may write requests without end and read no answer. The handler therefore holds the bytes behind an
// unanswered request, and reads no further ones. Bytes pass in small pieces, so that few requests are read before the
// first of them counts. The handler also tells SlowPeerHandler of the beginning of a request, because SlowPeerHandler
// sees a head only when the head is whole.
//
// On HTTP/2 the handler ends connections with slow frames or floods of frames, and reads nothing from a peer that does
// not read.
//
// On a WebSocket a message must come whole in the time of a request, and what a stranger has sent of one counts as memory of
// strangers (GW-15). A peer that does not read its answers is not read either. Rests on RequestTurns and NIO.

import Martlet
import MartletTransport
import NIOCore
import NIOHTTP2
import NIOHTTPTypes
import NIOTLS

/// Bounds a peer below the level of requests.
final class PeerBytesHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Mode {
        /// The bytes so far begin the preface of HTTP/2. Can transition to: requests, frames.
        case unknown(beginning: [UInt8])
        /// The connection speaks HTTP/1.1. Can transition to: handedOver, ended.
        case requests
        /// GW-13: the bytes are those of a WebSocket. Can transition to: ended.
        case handedOver(MessageScanner, from: PeerAddress)
        /// The connection speaks HTTP/2. Can transition to: ended.
        case frames(FrameScanner)
        /// The connection is closing, and further bytes are dropped. Final state.
        case ended
    }

    let peer: GatewayPeer
    /// Called with an error before TLS is established; nil without TLS, and afterwards.
    var handshakeFailed: ((any Error) -> Void)?
    private let limit: TimeAmount
    private var turns = RequestTurns()
    /// HTTP/1.1: bytes behind an unanswered request.
    private var held = ByteBuffer()
    /// HTTP/1.1: the peer has closed its side behind `held`.
    private var isEndHeld = false
    /// A read waits until the peer may send again.
    private var isReadHeld = false
    private var isPassing = false
    /// HTTP/1.1: bytes of empty lines since the last request.
    private var emptyLineBytes = 0
    private var context: ChannelHandlerContext?
    private var mode = Mode.unknown(beginning: [])
    /// Closes the connection if the frame or message with this number is still unfinished after `limit`. `part` counts the
    /// bytes of a stranger's message.
    private var clock: (number: Int, end: Scheduled<Void>, part: StrangerMemory.Part?)?
    /// HTTP/2: streams that are open.
    private var streamCount = 0
    /// After GOAWAY: closes the connection when requests on their way have had time to come, or the last of them has had
    /// time for its answer. HTTP/2 libraries wait for the peer's answer to a PING first, and a peer that reads nothing
    /// until its next request never answers.
    private var farewell: (unused: Scheduled<Void>, all: Scheduled<Void>)?
    private var isLeaving = false
    /// HTTP/2: writes that the system has not taken whole.
    private var unwrittenCount = 0
    /// After GOAWAY: an end that waits for these writes.
    private var waitingEnd: EventLoopPromise<Void>?
    private var isOverdue = false
    /// HTTP/2: whether GOAWAY with an error was written.
    private(set) var hasToldError = false

    init(_ peer: GatewayPeer, _ limit: TimeAmount) {
        self.peer = peer
        self.limit = limit
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        switch mode {
        case .ended: return
        case .handedOver(let scanner, let address):
            return pass(buffer, to: scanner, from: address, context)
        case .unknown, .requests, .frames: break
        }
        guard take(buffer.readableBytesView, context) else { return end() }
        guard case .requests = mode else { return context.fireChannelRead(data) }
        if held.readableBytes == 0 {
            held = buffer
        } else {
            held.writeImmutableBuffer(buffer)
        }
        pass(context)
    }

    /// GW-13: answers a request for a WebSocket. Further bytes go to `handlers`, which take the places behind this
    /// handler, and not to HTTP.
    /// - Parameter address: the client, as proxies tell it.
    func handOver(
        _ answer: ByteBuffer, to handlers: [any ChannelHandler], from address: PeerAddress
    ) {
        guard let context else { return }
        mode = .handedOver(MessageScanner(), from: address)
        context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
        do {
            try context.pipeline.syncOperations.addHandlers(handlers, position: .after(self))
        } catch {
            return end()
        }
        let early = held
        held = ByteBuffer()
        if early.readableBytes > 0 {
            pass(early, to: MessageScanner(), from: address, context)
        }
        readHeld(context)
    }

    /// Hands on bytes of a WebSocket, and counts those of a message that is not whole.
    private func pass(
        _ buffer: ByteBuffer, to before: MessageScanner, from address: PeerAddress,
        _ context: ChannelHandlerContext
    ) {
        var (buffer, scanner) = (buffer, before)
        scanner.read(buffer.readableBytesView)
        mode = .handedOver(scanner, from: address)
        let restBytes = min(scanner.unfinishedBytes, buffer.readableBytes)
        watch(restBytes > 0 ? scanner.begunCount : nil, context) { [peer] in
            peer.beginMessage(from: address)
        }
        if restBytes > 0, let part = clock?.part, !part.take(restBytes) { return end() }
        if let whole = buffer.readSlice(length: buffer.readableBytes - restBytes),
            whole.readableBytes > 0
        {
            context.fireChannelRead(wrapInboundOut(whole))
        }
        guard buffer.readableBytes > 0 else { return }
        // The library keeps these. A copy is as large as they are, and the buffer may be as large as a long message.
        context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: buffer.readableBytesView)))
    }

    /// Ends the connection of a peer that breaks a bound. TLS would read and decrypt what such a peer goes on sending until
    /// its own close has been waited for.
    private func end() {
        mode = .ended
        held = ByteBuffer()
        peer.end()
    }

    // MARK: The turn of a request

    /// Empty lines that are no beginning of a request: some clients send one after a body.
    private static let emptyLineBytesMax = 4

    /// Hands on the bytes that may pass, and ends a connection that has brought too many bytes.
    private func pass(_ context: ChannelHandlerContext) {
        guard !isPassing else { return }
        isPassing = true
        defer { isPassing = false }
        while !turns.isFlood, turns.passableBytes > 0,
            let piece = held.readSlice(length: min(turns.passableBytes, held.readableBytes)),
            piece.readableBytes > 0
        {
            let isEmpty = piece.readableBytesView.allSatisfy { $0 == 0x0D || $0 == 0x0A }
            emptyLineBytes = isEmpty ? emptyLineBytes + piece.readableBytes : 0
            if !isEmpty || emptyLineBytes > Self.emptyLineBytesMax {
                let pipeline = context.pipeline.syncOperations
                (try? pipeline.handler(type: SlowPeerHandler.self))?.bytesCame(on: context.channel)
            }
            turns.passes(piece.readableBytes)
            context.fireChannelRead(wrapInboundOut(piece))
            guard case .requests = mode else { return }
        }
        if held.readableBytes == 0 { held = ByteBuffer() }
        if turns.isFlood || held.readableBytes > Limits.httpHeldBytesMax { end() }
    }

    private func mayRead(_ context: ChannelHandlerContext) -> Bool {
        switch mode {
        case .unknown, .ended: true
        case .requests: held.readableBytes == 0 && turns.passableBytes > 0
        case .handedOver, .frames: context.channel.isWritable
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        readHeld(context)
        context.fireChannelWritabilityChanged()
    }

    private func readHeld(_ context: ChannelHandlerContext) {
        guard isReadHeld, mayRead(context) else { return }
        isReadHeld = false
        context.read()
    }

    func read(context: ChannelHandlerContext) {
        if mayRead(context) {
            context.read()
        } else {
            isReadHeld = true
        }
    }

    /// Notes a part of a request that was read on this HTTP/1.1 connection.
    func requestCame(_ part: HTTPRequestPart) { turns.came(part) }

    /// Notes the last part of an answer on this HTTP/1.1 connection.
    func answered() {
        turns.answered()
        emptyLineBytes = 0
        guard isReadHeld || held.readableBytes > 0, let context else { return }
        // The answer is not written yet: the next request waits for its place behind the answer.
        context.eventLoop.assumeIsolated().execute { self.resume() }
    }

    private func resume() {
        guard let context, case .requests = mode else { return }
        if held.readableBytes > 0 {
            pass(context)
            context.fireChannelReadComplete()
        }
        if isEndHeld, held.readableBytes == 0 {
            isEndHeld = false
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        }
        readHeld(context)
    }

    /// Hands on the end of a peer's side behind the held bytes, because HTTP reads nothing after the end.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event {
            handshakeFailed = nil
            let pipeline = context.pipeline.syncOperations
            (try? pipeline.handler(type: HandshakeTurnHandler.self))?.endTurn()
        }
        if case ChannelEvent.inputClosed = event, held.readableBytes > 0 {
            isEndHeld = true
        } else if event is ChannelShouldQuiesceEvent, handshakeFailed != nil {
            // No handler of HTTP is there yet.
            peer.end()
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        handshakeFailed?(error)
        context.fireErrorCaught(error)
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    // MARK: Bytes

    /// Reads bytes of the peer.
    /// - Returns: false if the connection must end.
    private func take(_ bytes: ByteBufferView, _ context: ChannelHandlerContext) -> Bool {
        switch mode {
        case .unknown(let before):
            let beginning = before + bytes.prefix(FrameScanner.preface.count - before.count)
            guard FrameScanner.preface.starts(with: beginning) else {
                mode = .requests
                return true
            }
            guard beginning.count == FrameScanner.preface.count else {
                mode = .unknown(beginning: beginning)
                return true
            }
            mode = .frames(FrameScanner(now: .now))
            peer.speaksHTTP()
            let pipeline = context.pipeline.syncOperations
            if let library = try? pipeline.handler(type: NIOHTTP2Handler.self) {
                try? pipeline.addHandler(StreamErrorHandler(self), position: .after(library))
            }
            return take(bytes.dropFirst(beginning.count - before.count), context)
        case .requests, .handedOver: return true
        case .frames(var scanner):
            let isHonest = scanner.read(bytes, now: .now)
            mode = .frames(scanner)
            watch(scanner.isInside ? scanner.begunCount : nil, context)
            return isHonest
        case .ended: return false
        }
    }

    /// Gives the peer time for an unfinished frame or message, counted from its first bytes.
    /// - Parameters:
    ///   - number: the number of what is unfinished; nil: nothing is.
    ///   - part: begins the part of strangers' memory that its bytes have.
    private func watch(
        _ number: Int?, _ context: ChannelHandlerContext,
        part: () -> StrangerMemory.Part? = { nil }
    ) {
        guard clock?.number != number else { return }
        stopClock()
        guard let number else { return }
        let peer = peer
        let end = context.eventLoop.scheduleTask(in: limit) { peer.end() }
        clock = (number, end, part())
    }

    private func stopClock() {
        clock?.end.cancel()
        clock?.part?.giveBack()
        clock = nil
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        if case .frames(var scanner) = mode {
            let bytes = unwrapOutboundIn(data)
            scanner.write(bytesCount: bytes.readableBytes)
            mode = .frames(scanner)
            if let code = FrameScanner.goAwayCode(bytes.readableBytesView) {
                if code != 0 { hasToldError = true }
                if farewell == nil { sayFarewell(context) }
            }
            let written = promise ?? context.eventLoop.makePromise()
            unwrittenCount += 1
            written.futureResult.assumeIsolated().whenComplete { _ in
                self.unwrittenCount -= 1
                if self.unwrittenCount == 0 { self.endIfWaiting() }
            }
            return context.write(data, promise: written)
        }
        context.write(data, promise: promise)
    }

    /// After GOAWAY the last answers may still be on their way to a slow peer when their streams have ended.
    func close(
        context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?
    ) {
        guard mode == .all, farewell != nil, unwrittenCount > 0, !isOverdue else {
            return context.close(mode: mode, promise: promise)
        }
        let waiting = waitingEnd ?? context.eventLoop.makePromise()
        waitingEnd = waiting
        waiting.futureResult.cascade(to: promise)
    }

    private func endIfWaiting() {
        guard let waiting = waitingEnd else { return }
        waitingEnd = nil
        guard let context else { return waiting.succeed() }
        context.close(promise: waiting)
    }

    private func sayFarewell(_ context: ChannelHandlerContext) {
        let channel = context.channel
        let loop = context.eventLoop.assumeIsolated()
        let unused = loop.scheduleTask(in: .milliseconds(Limits.httpFarewellMilliseconds)) {
            self.isLeaving = true
            self.closeIfUnused()
        }
        let all = loop.scheduleTask(in: limit) {
            self.isOverdue = true
            self.endIfWaiting()
            channel.close(promise: nil)
        }
        farewell = (unused, all)
    }

    /// Notes the beginning of a stream on this HTTP/2 connection.
    func streamOpened() { streamCount += 1 }

    /// Notes the end of a stream on this HTTP/2 connection.
    func streamClosed() {
        streamCount -= 1
        closeIfUnused()
    }

    private func closeIfUnused() {
        if isLeaving, streamCount == 0 { context?.channel.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        stopClock()
        farewell?.unused.cancel()
        farewell?.all.cancel()
        self.context = nil
        endIfWaiting()
        held = ByteBuffer()
    }
}

@available(*, unavailable)
extension PeerBytesHandler: Sendable {}
