// SPDX-License-Identifier: Apache-2.0
//
// Holds the first bytes of a connection, below TLS, until its turn for a handshake has come (GW-15). A client of TLS speaks
// first, so a connection that says nothing holds no turn.
//
// A turn lasts half a second, or until TLS is established. What is dear in a handshake is the server's answer. If the peer has
// the answer and goes on slowly, or fell silent, the turn passes on and the connection stays. A handshake that failed keeps its
// turn to the end: else an address could begin and leave handshakes without end. A peer that after half a second has not said
// enough for an answer is disconnected if others of its address wait: it could have an answer at any time, and out of turn.
// Rests on HandshakeTurns and NIO.

import Martlet
package import NIOCore

/// Delays the first bytes of a connection.
package final class HandshakeTurnHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private enum Turn {
        /// The peer has said nothing. Can transition to: waiting, ended.
        case silent
        /// The first bytes are held, and nothing more is read. Can transition to: begun, ended.
        case waiting(number: UInt64)
        /// The handshake goes on. Can transition to: ended.
        case begun(NIODeadline)
        /// TLS is established, the turn has passed on, or the connection has ended. Final state.
        case ended
    }

    /// How long a turn lasts without TLS. Two long round trips; an address then begins 128 handshakes a second that lead to
    /// nothing, some 3 % of a core.
    package static let turnMax = TimeAmount.milliseconds(500)

    private let turns: HandshakeTurns
    private let address: PeerAddress
    private let silentMax: TimeAmount?
    private var turn = Turn.silent
    /// The bytes before the turn.
    private var held = ByteBuffer()
    private var isReadHeld = false
    /// Whether TLS has answered the peer.
    private var isAnswered = false
    /// Called when the turn has come.
    private var hasBegun: (() -> Void)?

    /// - Parameter silentMax: time until the first bytes; nil: another handler has a limit.
    package init(
        _ turns: HandshakeTurns, _ address: PeerAddress, silentMax: TimeAmount? = nil,
        hasBegun: (() -> Void)? = nil
    ) {
        self.turns = turns
        self.address = address
        self.silentMax = silentMax
        self.hasBegun = hasBegun
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        guard let silentMax else { return }
        let own = own(context)
        context.eventLoop.scheduleTask(in: silentMax) {
            if case .silent = own.value.handler.turn { own.value.context.close(promise: nil) }
        }
    }

    private func own(
        _ context: ChannelHandlerContext
    ) -> NIOLoopBound<(handler: HandshakeTurnHandler, context: ChannelHandlerContext)> {
        NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch turn {
        case .silent:
            held = unwrapInboundIn(data)
            let (loop, own) = (context.eventLoop, own(context))
            // The number is stored before the loop runs `begin`.
            let number = turns.wait(address) {
                loop.execute { own.value.handler.begin(own.value.context) }
            }
            turn = .waiting(number: number)
        // While no read is asked for, bytes come only when the peer has closed its side.
        case .waiting where isReadHeld: context.close(promise: nil)
        case .waiting: held.writeImmutableBuffer(unwrapInboundIn(data))
        case .begun, .ended: context.fireChannelRead(data)
        }
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .waiting = turn, case ChannelEvent.inputClosed = event {
            context.close(promise: nil)
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard case .waiting = turn else { return }
        turn = .begun(context.eventLoop.now)
        hasBegun?()
        hasBegun = nil
        watch(context)
        let bytes = held
        held = ByteBuffer()
        context.fireChannelRead(wrapInboundOut(bytes))
        context.fireChannelReadComplete()
        if isReadHeld {
            isReadHeld = false
            context.read()
        }
    }

    private func watch(_ context: ChannelHandlerContext) {
        let own = own(context)
        context.eventLoop.scheduleTask(in: Self.turnMax) {
            let (handler, context) = own.value
            guard case .begun = handler.turn else { return }
            if handler.isAnswered {
                handler.endTurn()
            } else if handler.turns.isWaitedFor(handler.address) {
                context.close(promise: nil)
            } else {
                handler.watch(context)
            }
        }
    }

    package func read(context: ChannelHandlerContext) {
        if case .waiting = turn {
            isReadHeld = true
        } else {
            context.read()
        }
    }

    package func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        isAnswered = true
        context.write(data, promise: promise)
    }

    /// Ends the turn, because TLS is established or others shall have their turns.
    package func endTurn() {
        guard case .begun = turn else { return }
        turn = .ended
        turns.end(of: address)
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        switch turn {
        case .silent, .ended: break
        case .waiting(let number):
            // A turn that came at this moment has begun nothing.
            if !turns.leave(number, of: address) { turns.end(of: address) }
        case .begun(let time):
            let (turns, address) = (turns, address)
            context.eventLoop.scheduleTask(deadline: time + Self.turnMax) {
                turns.end(of: address)
            }
        }
        turn = .ended
        hasBegun = nil
        held = ByteBuffer()
    }
}

@available(*, unavailable)
extension HandshakeTurnHandler: Sendable {}
