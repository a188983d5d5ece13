// SPDX-License-Identifier: Apache-2.0
//
// OPS-5: looks at the bytes of a connection before they are HTTP, after TLS where there is any. Over
// HTTP/1.1 it tells SlowPeerHandler that a request has begun, for that one sees heads only when they are
// whole. Over HTTP/2 it ends connections whose frames come too slowly, or that flood. Rests on NIO.

import NIOCore

/// Bounds what a peer may do below the level of requests.
final class PeerBytesHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Mode {
        /// So far the bytes are HTTP/2's preface as far as they go. Can transition to: the others.
        case unknown(beginning: [UInt8])
        /// Can transition to: none.
        case requests
        /// Can transition to: ended.
        case frames(FrameScanner)
        /// The connection is being closed, which takes TLS seconds if the peer does not answer: what
        /// comes meanwhile is nobody's. Can transition to: none.
        case ended
    }

    private let limit: TimeAmount
    private var mode = Mode.unknown(beginning: [])
    /// Ends the connection in the midst of the frame with this number.
    private var clock: (frame: Int, end: Scheduled<Void>)?

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
            scanner.write(bytesCount: unwrapOutboundIn(data).readableBytes)
            mode = .frames(scanner)
        }
        context.write(data, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) { clock?.end.cancel() }
}

@available(*, unavailable)
extension PeerBytesHandler: Sendable {}
