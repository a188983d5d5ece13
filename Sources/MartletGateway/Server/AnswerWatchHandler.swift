// SPDX-License-Identifier: Apache-2.0
//
// Watches whether the answers on an HTTP/1.1 connection or an HTTP/2 stream are written whole (GW-8). An answer counts as
// written whole when the system, or the connection of the stream, took the last byte. The exception is a caller that had
// closed the connection before the answer began. A connection closed only for writing counts as closed, because no SDK does
// so, and a caller that has gone looks the same. Rests on NIO.

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Ends the deliveries of a channel's answers, whole or lost.
final class AnswerWatchHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// Delivery of the next answer. A single delivery is enough, because a channel answers its requests in order.
    private var delivery: AnswerDelivery?
    private var hasPeerLeft = false

    /// Begins the delivery of the answer to the current request on `channel`. The channel's event loop calls this
    /// method.
    func watch(_ channel: any Channel) -> AnswerDelivery {
        let watched = AnswerDelivery { await Self.connection(of: channel) }
        if hasPeerLeft || !channel.isActive {
            watched.end(isWhole: false)
        } else {
            delivery = watched
        }
        return watched
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // On a stream, `inputClosed` is the end of a request, and the caller goes on reading.
        if case ChannelEvent.inputClosed = event, !context.channel.isStream { lose() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        lose()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { lose() }

    private func lose() {
        hasPeerLeft = true
        delivery?.end(isWhole: false)
        delivery = nil
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        let part = unwrapOutboundIn(data)
        guard let watched = delivery else { return context.write(data, promise: promise) }
        switch part {
        case .head(let head):
            if head.status.kind != .informational {
                Self.socketState(context.channel)?.assumeIsolated().whenComplete { state in
                    if Self.isClosed(state) { self.lose() }
                }
            }
            context.write(data, promise: promise)
        case .body, .end:
            // The responder writes a body in a single part, so the first part is the whole body.
            delivery = nil
            let written = promise ?? context.eventLoop.makePromise()
            written.futureResult.whenComplete { result in
                if case .success = result {
                    watched.end(isWhole: true)
                } else {
                    watched.end(isWhole: false)
                }
            }
            context.write(data, promise: written)
        }
    }

    // MARK: The socket

    /// The first 56 bytes of TCP_INFO. The struct has no vector type, because a vector's alignment exceeds the
    /// alignment of values kept over a suspension, and ended the process. Source: linux/tcp.h.
    private struct SocketState: Sendable {
        typealias Four = (UInt32, UInt32, UInt32, UInt32)
        var beginning: Four = (0, 0, 0, 0)
        var second: Four = (0, 0, 0, 0)
        var third: Four = (0, 0, 0, 0)
        var last: (UInt32, UInt32) = (0, 0)

        /// `tcpi_last_data_recv`, at byte 52: milliseconds since data arrived last.
        var lastDataReceived: UInt32 { last.1 }

        /// `tcpi_state`, the first byte; `TCP_ESTABLISHED` is 1.
        var isOpen: Bool { UInt8(truncatingIfNeeded: beginning.0.littleEndian) == 1 }
    }

    private static func connection(of channel: any Channel) async -> AnswerDelivery.Connection {
        guard let state = socketState(channel) else {
            return .init(hasPeerLeft: !channel.isActive)
        }
        do {
            let known = try await state.get()
            return .init(
                hasPeerLeft: !known.isOpen, age: .milliseconds(Int(known.lastDataReceived)))
        } catch {
            return .init(hasPeerLeft: isClosed(.failure(error)))
        }
    }

    /// State of the channel's TCP connection; nil for a channel without a socket.
    /// Source: tcp(7), linux/tcp.h: `TCP_INFO` is 11.
    private static func socketState(_ channel: any Channel) -> EventLoopFuture<SocketState>? {
        let connection = channel.isStream ? channel.parent : channel
        return (connection as? any SocketOptionProvider)?
            .unsafeGetSocketOption(level: .tcp, name: NIOBSDSocket.Option(rawValue: 11))
    }

    /// Whether the peer has closed the connection with this state.
    private static func isClosed(_ state: Result<SocketState, any Error>) -> Bool {
        switch state {
        case .success(let known): !known.isOpen
        case .failure(let error): error as? ChannelError == .ioOnClosedChannel
        }
    }
}

@available(*, unavailable)
extension AnswerWatchHandler: Sendable {}

extension Channel {
    /// True for an HTTP/2 stream: the parent of a stream is a connection, and the connection's parent is the server.
    var isStream: Bool { parent?.parent != nil }
}
