// SPDX-License-Identifier: Apache-2.0
//
// Leaves a connection unread, below TLS, until its turn for a handshake has come (GW-15). A client of TLS speaks first and
// answers at once, so a connection that falls silent in its turn ends soon if others of its address wait. Rests on
// HandshakeTurns and NIO.

package import MartletTransport
package import NIOCore

/// Delays the first read of a connection.
package final class HandshakeTurnHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private enum Turn {
        /// Nothing is read. Can transition to: begun, ended.
        case waiting(number: UInt64)
        /// The handshake goes on. Can transition to: ended.
        case begun
        /// TLS is established, or the connection has ended. Final state.
        case ended
    }

    /// How long a failed handshake keeps its place.
    private static let penalty = TimeAmount.seconds(1)

    /// How long a turn lasts without a further byte of the peer, if others wait.
    private static let silentMax = TimeAmount.seconds(2)

    private let turns: HandshakeTurns
    private let address: PeerAddress
    private var turn = Turn.begun
    private var isReadHeld = false
    /// Whether bytes came since the last look.
    private var hasBytes = false
    /// Called when the turn has come.
    private var hasBegun: (() -> Void)?

    package init(_ turns: HandshakeTurns, _ address: PeerAddress, hasBegun: @escaping () -> Void) {
        self.turns = turns
        self.address = address
        self.hasBegun = hasBegun
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        let loop = context.eventLoop
        let own = NIOLoopBound((handler: self, context: context), eventLoop: loop)
        // The number is stored before the loop runs `begin`.
        let number = turns.wait(address) {
            loop.execute { own.value.handler.begin(own.value.context) }
        }
        turn = .waiting(number: number)
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard case .waiting = turn else { return }
        turn = .begun
        hasBegun?()
        hasBegun = nil
        watch(context)
        if isReadHeld {
            isReadHeld = false
            context.read()
        }
    }

    /// Ends the connection if the peer is silent while others wait, now or later.
    private func watch(_ context: ChannelHandlerContext) {
        let loop = context.eventLoop
        let own = NIOLoopBound((handler: self, context: context), eventLoop: loop)
        loop.scheduleTask(in: Self.silentMax) {
            let (handler, context) = own.value
            guard case .begun = handler.turn else { return }
            if !handler.hasBytes, handler.turns.isWaitedFor(handler.address) {
                return context.close(promise: nil)
            }
            handler.hasBytes = false
            handler.watch(context)
        }
    }

    package func read(context: ChannelHandlerContext) {
        if case .waiting = turn {
            isReadHeld = true
        } else {
            context.read()
        }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Before its turn a connection is read only when the peer has closed its side.
        if case .waiting = turn { return context.close(promise: nil) }
        hasBytes = true
        context.fireChannelRead(data)
    }

    /// Ends the turn, because TLS is established.
    package func established() {
        guard case .begun = turn else { return }
        turn = .ended
        turns.end(of: address)
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        switch turn {
        case .waiting(let number):
            // A turn that came at this moment has begun nothing.
            if !turns.leave(number, of: address) { turns.end(of: address) }
        case .begun:
            let (turns, address) = (turns, address)
            context.eventLoop.scheduleTask(in: Self.penalty) { turns.end(of: address) }
        case .ended: break
        }
        turn = .ended
        hasBegun = nil
    }
}

@available(*, unavailable)
extension HandshakeTurnHandler: Sendable {}
