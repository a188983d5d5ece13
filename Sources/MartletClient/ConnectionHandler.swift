// SPDX-License-Identifier: Apache-2.0
//
// A connection: sends HELLO, expects WELCOME, passes frames both ways, answers PING and keeps the heartbeat. The
// handler makes no decisions; its owner hears of the opening, of frames and of the end on the event loop. The
// handler reads only while not paused, so a slow application slows the broker down.

import MartletBase
import MartletWire
import NIOCore

/// The owner of a connection. All calls come on the connection's event loop.
protocol ConnectionOwner: AnyObject, Sendable {
    func connectionOpened(_ link: Link)
    func connectionReceived(_ frame: BrokerFrame, connection: UInt64)
    /// Called exactly once for each connection, opened or not.
    func connectionClosed(_ error: MartletError, connection: UInt64)
    /// DEV-5: called when the heartbeat has learned; later connections should use the pace.
    func connectionLearned(_ pace: HeartbeatPace, connection: UInt64)
}

extension ConnectionOwner {
    /// Default without effect, because only devices learn. Other owners wait for answers and want to notice a loss
    /// soon.
    func connectionLearned(_ pace: HeartbeatPace, connection: UInt64) {}
}

/// An open connection.
struct Link: Sendable {
    /// Number of the connection among its owner's connections.
    let connection: UInt64
    let welcome: Welcome
    let channel: any Channel
    let handler: NIOLoopBound<any BrokerLine>

    /// Closes the connection, from any thread.
    func abandon() {
        channel.eventLoop.execute { handler.value.close() }
    }
}

/// An owner's line to the broker. All calls come on the event loop.
protocol BrokerLine: AnyObject {
    /// Sends a frame.
    /// - Throws: `INVALID_ARGUMENT` if the frame is longer than the broker accepts, `UNAVAILABLE` if the connection
    ///   is lost.
    func send(_ frame: ClientFrame) throws
    /// Stops reading until `resume`.
    func pause()
    func resume()
    /// Closes the line after the sent frames have left.
    func close()
}

final class ConnectionHandler: ChannelInboundHandler, BrokerLine {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum State {
        /// HELLO is out or about to be. Can transition to: open, closed.
        case opening
        /// WELCOME came. Can transition to: closed.
        case open
        /// The owner was told about the end, or is about to be. Final.
        case closed
    }

    private let connection: UInt64
    private let hello: Hello
    private let settings: ConnectionSettings
    private weak var owner: (any ConnectionOwner)?
    private var state = State.opening
    private var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
    /// Nil before WELCOME.
    private var heartbeat: Heartbeat?
    private var timer: Scheduled<Void>?
    /// Instant for which the heartbeat's timer is set.
    private var beat: Duration?
    private var context: ChannelHandlerContext?
    private var frameBytesMax = Limits.deviceFrameBytesMax
    private var willFlush = false
    /// Reason of the end, if known before the socket closes.
    private var reason: MartletError?
    /// True if the last CHANNEL named an app, so that frames go to the owner only.
    private var isForApp = false
    /// True if the next bytes wait until the owner calls `resume`.
    private(set) var isPaused = false
    /// NET-7: takes the address's answer once, and tells whether another address is tried. Nil afterwards.
    private var concluded: ((ConnectionAttempt.Answer, any ConnectionOwner) -> Bool)?

    init(
        _ attempt: ConnectionAttempt, settings: ConnectionSettings, owner: any ConnectionOwner,
        concluded: @escaping (ConnectionAttempt.Answer, any ConnectionOwner) -> Bool
    ) {
        connection = attempt.connection
        hello = attempt.hello
        self.settings = settings
        self.owner = owner
        self.concluded = concluded
    }

    // MARK: Calls of the owner

    func send(_ frame: ClientFrame) throws(MartletError) {
        guard let context, state != .closed else { throw Self.lost }
        var writer = WireWriter()
        frame.encode(into: &writer)
        let bytes = writer.bytes.count - WireVersion.lengthBytes
        guard bytes <= frameBytesMax, !writer.isClipped else {
            throw MartletError(
                .invalidArgument,
                "The request has \(bytes) bytes or a text of more than 65535; the broker takes "
                    + "\(frameBytesMax). Divide it.", field: "request")
        }
        heartbeat?.sent(at: Self.now, isRequest: frame.correlation != nil)
        context.write(wrapOutboundOut(ByteBuffer(bytes: writer.bytes)), promise: nil)
        flushSoon(context)
        beatSooner()
    }

    /// Flushes once in a round of the event loop, so all frames of the round leave in one system call.
    private func flushSoon(_ context: ChannelHandlerContext) {
        guard !willFlush else { return }
        willFlush = true
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute { handler.value.flush() }
    }

    private func flush() {
        willFlush = false
        context?.flush()
    }

    func pause() { isPaused = true }

    func resume() {
        guard isPaused else { return }
        isPaused = false
        heartbeat?.resumed(at: Self.now)
        context?.read()
    }

    func close() {
        context?.flush()
        context?.close(promise: nil)
    }

    // MARK: Calls of the channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        do throws(MartletError) {
            do throws(MartletError) { try settings.beforeHello?() } catch {
                // The reason is the client's own, so no other address would do.
                concluded = nil
                throw error
            }
            try send(.hello(hello))
            schedule(after: settings.handshakeTimeout) { handler in
                handler.end(
                    MartletError(
                        .unavailable, "The broker did not answer HELLO in time; try again."))
            }
            context.read()
        } catch {
            end(error)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        heartbeat?.received(at: Self.now)
        beatSooner()
        do {
            try splitter.split(buffer.readableBytesSpan) { (type, body) throws(WireError) in
                guard state != .closed else { return }
                try received(try BrokerFrame.decode(type: type, body: body))
            }
        } catch {
            var reason = error.martletError
            // The first bytes of HTTP are the length of a frame that nobody would send.
            reason.message =
                state == .opening && buffer.readableBytesView.starts(with: "HTTP/".utf8)
                ? "A server of HTTP answers at this port. Name the port for devices and senders: "
                    + "the broker tells it when it starts, and \(Limits.defaultPort) is the default."
                : "The broker sent what is no frame: " + reason.message
            end(reason)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !isPaused && state != .closed { context.read() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        state = .closed
        guard let owner else { return }
        self.owner = nil
        guard !conclude(.none, owner) else { return }
        owner.connectionClosed(reason ?? Self.lost, connection: connection)
    }

    /// - Returns: whether another address is tried.
    private func conclude(
        _ answer: ConnectionAttempt.Answer, _ owner: any ConnectionOwner
    ) -> Bool {
        defer { concluded = nil }
        return concluded?(answer, owner) ?? false
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(
            error as? MartletError
                ?? MartletError(
                    .unavailable,
                    "The connection failed (\(NetworkFailure.words(error))); try again."))
    }

    // MARK: Frames

    private func received(_ frame: BrokerFrame) throws(WireError) {
        if case .channel(let selection) = frame, hello == .shared {
            isForApp = selection.number != 0
        }
        if isForApp, let owner {
            return owner.connectionReceived(frame, connection: connection)
        }
        if case .error(let error) = frame, error.correlation == 0 {
            if let owner { _ = conclude(.refusal, owner) }
            return end(error.error)
        }
        guard state == .open else {
            guard case .welcome(let welcome) = frame else { throw .unexpectedFrame(frame.type) }
            return open(welcome)
        }
        switch frame {
        case .welcome: throw .unexpectedFrame(frame.type)
        case .ping(let ping): try? send(.pong(Pong(value: ping.value)))
        case .pong: tellPace()
        default:
            guard let owner else { return end(Self.lost) }
            owner.connectionReceived(frame, connection: connection)
        }
    }

    private func open(_ welcome: Welcome) {
        guard let owner, let context else { return end(Self.lost) }
        state = .open
        _ = conclude(.welcome, owner)
        frameBytesMax = Int(clamping: welcome.frameBytesMax)
        heartbeat = Heartbeat(
            pace: settings.pace, answerTimeout: settings.answerTimeout,
            idleSeconds: welcome.idleSeconds, at: Self.now)
        beatSoon()
        owner.connectionOpened(
            Link(
                connection: connection, welcome: welcome, channel: context.channel,
                handler: NIOLoopBound(self as any BrokerLine, eventLoop: context.eventLoop)))
    }

    private func end(_ error: MartletError) {
        guard state != .closed else { return }
        state = .closed
        reason = error
        context?.close(promise: nil)
    }

    // MARK: Time

    private static var now: Duration {
        .nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds))
    }

    /// Sets the timer for the instant that the heartbeat asks for. Received frames only defer that instant, so they
    /// leave the timer unchanged.
    private func beatSoon() {
        guard let due = heartbeat?.due else { return }
        beat = due
        schedule(after: max(.zero, due - Self.now)) { handler in
            guard handler.owner != nil else { return handler.end(Self.lost) }
            switch handler.heartbeat?.tick(at: Self.now, isReading: !handler.isPaused) {
            case .nothing, nil: break
            case .ping: try? handler.send(.ping(Ping(value: 0)))
            case .giveUp:
                handler.tellPace()
                handler.end(
                    MartletError(.unavailable, "The broker has not answered a ping; try again."))
            }
            handler.beatSoon()
        }
    }

    /// Moves the timer if the heartbeat's instant is now earlier, as after a request or the answer to a PING.
    private func beatSooner() {
        if let due = heartbeat?.due, let beat, due < beat { beatSoon() }
    }

    private func tellPace() {
        guard let heartbeat else { return }
        owner?.connectionLearned(heartbeat.pace, connection: connection)
    }

    /// Replaces the timer. There is one timer at a time: first for the handshake, then for the heartbeat.
    private func schedule(
        after delay: Duration, _ action: @escaping @Sendable (ConnectionHandler) -> Void
    ) {
        guard let context, state != .closed else { return }
        timer?.cancel()
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: TimeAmount(delay)) { action(handler.value) }
    }

    static let lost = MartletError(
        .unavailable, "The connection to the broker was lost before the answer came; try again.")
}
