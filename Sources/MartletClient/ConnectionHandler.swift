// SPDX-License-Identifier: Apache-2.0
//
// One connection: HELLO out, WELCOME in, then frames both ways, PING answered, heartbeat kept. It
// decides nothing: whoever owns the connection is told of its opening, frames and end, on its event
// loop. It reads only when asked to go on, which is how a slow application slows the broker down.

import MartletBase
import MartletWire
import NIOCore

/// Who owns a connection. All calls come on its event loop.
protocol ConnectionOwner: AnyObject, Sendable {
    func connectionOpened(_ link: Link)
    func connectionReceived(_ frame: BrokerFrame, connection: UInt64)
    /// Exactly once for each connection, opened or not.
    func connectionClosed(_ error: MartletError, connection: UInt64)
    /// DEV-5: for the heartbeat of later connections.
    func connectionLearned(_ pace: HeartbeatPace, connection: UInt64)
}

extension ConnectionOwner {
    /// Only devices learn: whoever waits for an answer wants to know soon whether one comes.
    func connectionLearned(_ pace: HeartbeatPace, connection: UInt64) {}
}

/// An open connection.
struct Link: Sendable {
    /// Its number among its owner's connections.
    let connection: UInt64
    let welcome: Welcome
    let channel: any Channel
    let handler: NIOLoopBound<any BrokerLine>

    /// Ends it, from any thread.
    func abandon() {
        channel.eventLoop.execute { handler.value.close() }
    }
}

/// What an owner does with its way to the broker. On its event loop.
protocol BrokerLine: AnyObject {
    /// Sends a frame, unless the broker would not take it.
    func send(_ frame: ClientFrame) throws
    /// Reads no further for now.
    func pause()
    func resume()
    /// What was sent before leaves first.
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
        /// The end was told, or is about to be. Final.
        case closed
    }

    private let connection: UInt64
    private let hello: Hello
    private let settings: ConnectionSettings
    private weak var owner: (any ConnectionOwner)?
    private var state = State.opening
    private var splitter = FrameSplitter(frameBytesMax: Limits.brokerFrameBytesMax)
    /// From WELCOME on.
    private var heartbeat: Heartbeat?
    private var timer: Scheduled<Void>?
    /// When the heartbeat asked to be looked at.
    private var beat: Duration?
    private var context: ChannelHandlerContext?
    private var frameBytesMax = Limits.deviceFrameBytesMax
    private var willFlush = false
    /// Why it ends, where that is known before the socket closes.
    private var reason: MartletError?
    /// The last CHANNEL named an app: what comes is the owner's alone.
    private var isForApp = false
    /// Whether the next bytes wait until the owner wants them.
    private(set) var isPaused = false

    init(
        connection: UInt64, hello: Hello, settings: ConnectionSettings, owner: any ConnectionOwner
    ) {
        self.connection = connection
        self.hello = hello
        self.settings = settings
        self.owner = owner
    }

    // MARK: What the owner asks for

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

    /// Everything that is sent in one round of the event loop leaves in one system call.
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

    // MARK: What the channel tells

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        do {
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
            reason.message = "The broker sent what is no frame: " + reason.message
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
        owner?.connectionClosed(reason ?? Self.lost, connection: connection)
        owner = nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(MartletError(.unavailable, "The connection failed (\(error)); try again."))
    }

    // MARK: Frames

    private func received(_ frame: BrokerFrame) throws(WireError) {
        if case .channel(let selection) = frame, hello == .shared {
            isForApp = selection.number != 0
        }
        if isForApp, let owner {
            return owner.connectionReceived(frame, connection: connection)
        }
        if case .error(let error) = frame, error.correlation == 0 { return end(error.error) }
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

    /// Looks at the heartbeat when it asks for that. Frames that come meanwhile only put that off,
    /// so the timer is left as it is for them.
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

    /// A request, or the answer to a ping, may want it looked at earlier than it asked for.
    private func beatSooner() {
        if let due = heartbeat?.due, let beat, due < beat { beatSoon() }
    }

    private func tellPace() {
        guard let heartbeat else { return }
        owner?.connectionLearned(heartbeat.pace, connection: connection)
    }

    /// One timer at a time: the handshake's, then the heartbeat's.
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
