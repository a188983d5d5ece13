// SPDX-License-Identifier: Apache-2.0
//
// OPS-5: looks at the bytes of a connection below HTTP, and above TLS if the connection has TLS. On HTTP/1.1 the
// handler tells SlowPeerHandler of the beginning of a request, because SlowPeerHandler sees a head only when the head
// is whole. On HTTP/2 the handler ends connections with slow frames or floods of frames. Rests on NIO.

import NIOCore

/// Bounds a peer below the level of requests.
final class PeerBytesHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Mode {
        /// The bytes so far begin the preface of HTTP/2. Can transition to: requests, frames.
        case unknown(beginning: [UInt8])
        /// The connection speaks HTTP/1.1. Final state.
        case requests
        /// The connection speaks HTTP/2. Can transition to: ended.
        case frames(FrameScanner)
        /// The connection is closing, and further bytes are dropped. TLS takes seconds to close if the peer does not
        /// answer. Final state.
        case ended
    }

    private let limit: TimeAmount
    private var mode = Mode.unknown(beginning: [])
    /// Closes the connection if the frame with this number is still unfinished after `limit`.
    private var clock: (frame: Int, end: Scheduled<Void>)?
    /// Closes the connection some time after GOAWAY. HTTP/2 libraries wait for the peer's answer to a PING first, and a
    /// peer may never answer.
    private var farewell: Scheduled<Void>?

    init(_ limit: TimeAmount) { self.limit = limit }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        if case .ended = mode { return }
        guard take(buffer.readableBytesView, context) else {
            mode = .ended
            return context.close(promise: nil)
        }
        context.fireChannelRead(data)
    }

    /// Reads bytes of the peer.
    /// - Returns: false if the connection must end.
    private func take(_ bytes: ByteBufferView, _ context: ChannelHandlerContext) -> Bool {
        switch mode {
        case .unknown(let before):
            let beginning = before + bytes.prefix(FrameScanner.preface.count - before.count)
            guard FrameScanner.preface.starts(with: beginning) else {
                mode = .requests
                return take(bytes, context)
            }
            guard beginning.count == FrameScanner.preface.count else {
                mode = .unknown(beginning: beginning)
                return true
            }
            mode = .frames(FrameScanner(now: .now))
            return take(bytes.dropFirst(beginning.count - before.count), context)
        case .requests:
            // Some clients send an empty line after a body.
            if bytes.contains(where: { $0 != 0x0D && $0 != 0x0A }) {
                let pipeline = context.pipeline.syncOperations
                (try? pipeline.handler(type: SlowPeerHandler.self))?.bytesCame(on: context.channel)
            }
            return true
        case .frames(var scanner):
            let isHonest = scanner.read(bytes, now: .now)
            mode = .frames(scanner)
            watch(scanner, context)
            return isHonest
        case .ended: return false
        }
    }

    private func watch(_ scanner: FrameScanner, _ context: ChannelHandlerContext) {
        guard scanner.isInside else {
            clock?.end.cancel()
            clock = nil
            return
        }
        guard clock?.frame != scanner.begunCount else { return }
        clock?.end.cancel()
        let channel = context.channel
        let end = context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
        clock = (scanner.begunCount, end)
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        if case .frames(var scanner) = mode {
            let bytes = unwrapOutboundIn(data)
            scanner.write(bytesCount: bytes.readableBytes)
            mode = .frames(scanner)
            if farewell == nil, FrameScanner.isGoAway(bytes.readableBytesView) {
                let channel = context.channel
                farewell = context.eventLoop.scheduleTask(in: limit) { channel.close(promise: nil) }
            }
        }
        context.write(data, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        clock?.end.cancel()
        farewell?.cancel()
    }
}

@available(*, unavailable)
extension PeerBytesHandler: Sendable {}
