// SPDX-License-Identifier: Apache-2.0
//
// A user agent's WebSocket (GW-13). Firefox and UnifiedPush distributors speak dialects of one protocol: hello, then
// registrations of channels, notifications, and their acknowledgements. The store hears of a user agent only when it
// registers for the first time, because Firefox asks for a new identity on every connection until it has a subscription.
//
// A user agent that doesn't read is detached: its messages stay in the mailboxes until it reads again. Requests to the store
// run one at a time, and past a few waiting ones we stop reading, so a user agent can't queue much. Rests on AgentBook and
// NIOWebSocket.

import Martlet
import MartletBridge
import MartletGateway
import MartletThreads
import MartletWire
import NIOCore
import NIOWebSocket

/// The connection of a user agent.
final class AgentHandler: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = WebSocketFrame
    typealias OutboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private enum Phase {
        /// Waits for hello. Can transition to: waiting, open, closing.
        case hello
        /// The hello waits until the store has the newest rows (OPS-7). Can transition to: hello, closing.
        case waiting
        /// Can transition to: closing.
        case open(AgentIdentity, number: UInt64)
        /// We have sent a close frame. Final.
        case closing
    }

    /// Requests to the store, done in order.
    private enum Work {
        case register(ChannelID, key: [UInt8]?)
        case unregister(ChannelID)
    }

    /// Longest message from a user agent, in bytes: enough to acknowledge hundreds of messages.
    static let messageBytesMax = 64 * 1024
    /// Longest message before we have answered hello, in bytes.
    private static let helloBytesMax = 16 * 1024
    /// Past this many requests that wait for the store we stop reading.
    private static let worksMax = 16
    /// Most pings, pongs and fragments within `framesWindow`. Each costs work and brings nothing; no real client sends more
    /// than a few.
    private static let framesMax = 256
    /// After this time we count them anew.
    private static let framesWindow = Duration.seconds(30)
    /// Seconds to say hello in.
    private static let helloSeconds: Int64 = 10
    /// Idle seconds before we ping; if nothing comes back within the same time, we close the connection. Some networks forget
    /// a connection after five silent minutes, so we ask before that.
    private static let silenceSeconds: Int64 = 240
    /// Seconds in which the peer must take our last frame.
    private static let closingSeconds: Int64 = 5
    /// Milliseconds before we attach an instance again.
    private static let reattachMilliseconds: Int64 = 1000

    /// Close codes.
    private static let goingAway = WebSocketErrorCode.goingAway
    /// Another connection of the user agent has taken over. Firefox then stays away until it has something to send.
    /// Source: autopush.
    private static let replaced = WebSocketErrorCode(codeNumber: 4774)

    private let book: AgentBook
    private let registrationKey: String?
    private let peer: WebSocketPeer
    private var phase = Phase.hello
    private var context: ChannelHandlerContext?
    private var subscriptions: [ChannelID: Subscription] = [:]
    private var deviceState = DeviceState.active
    /// What we have of a message that comes in several frames.
    private var partial: ByteBuffer?
    /// Pings, pongs and fragments since `framesBegan`.
    private var frameCount = 0
    private var framesBegan = ContinuousClock.now
    private var works: ArraySlice<Work> = []
    private var isWorking = false
    private var isReadHeld = false
    private var willFlush = false
    /// The peer doesn't read, so its instances are detached.
    private var isStalled = false
    private var isHeard = true
    private var isPinged = false
    private var deadline: Scheduled<Void>?

    init(_ book: AgentBook, registrationKey: String?, peer: WebSocketPeer) {
        self.book = book
        self.registrationKey = registrationKey
        self.peer = peer
    }

    // MARK: The connection

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        schedule(after: .seconds(Self.helloSeconds)) { handler in
            if case .hello = handler.phase { handler.close(.policyViolation) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        leave()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { leave() }

    private func leave() {
        context = nil
        deadline?.cancel()
        deadline = nil
        detachAll()
        subscriptions = [:]
        works = []
        if case .open(let agent, let number) = phase { book.leave(agent, number) }
        phase = .closing
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is ChannelShouldQuiesceEvent: close(Self.goingAway)
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOWebSocketError.invalidFrameLength: close(.messageTooLarge)
        case is NIOWebSocketError: close(.protocolError)
        default: context.close(promise: nil)
        }
    }

    /// Says goodbye and closes the connection.
    private func close(_ code: WebSocketErrorCode) {
        if case .closing = phase { return }
        guard let context else { return }
        if case .open(let agent, let number) = phase { book.leave(agent, number) }
        phase = .closing
        detachAll()
        subscriptions = [:]
        works = []
        var data = context.channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: code)
        let channel = context.channel
        write(.connectionClose, data).whenComplete { _ in channel.close(promise: nil) }
        context.flush()
        schedule(after: .seconds(Self.closingSeconds)) { handler in
            handler.context?.close(promise: nil)
        }
    }

    /// Sets the deadline. There is only one, so this replaces the one before.
    private func schedule(after time: TimeAmount, _ body: @escaping (AgentHandler) -> Void) {
        guard let context else { return }
        deadline?.cancel()
        deadline = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] in
            if let self { body(self) }
        }
    }

    // MARK: Silence

    private func watchSilence() {
        schedule(after: .seconds(Self.silenceSeconds)) { handler in
            guard case .open = handler.phase else { return }
            if handler.isHeard {
                handler.isPinged = false
            } else if handler.isPinged {
                handler.context?.close(promise: nil)
                return
            } else {
                handler.isPinged = true
                _ = handler.write(.ping, ByteBuffer())
                handler.context?.flush()
            }
            handler.isHeard = false
            handler.watchSilence()
        }
    }

    // MARK: Frames

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .closing = phase { return }
        let frame = unwrapInboundIn(data)
        isHeard = true
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
            return close(.protocolError)
        }
        if frame.opcode != .text || !frame.fin, isFlood() { return close(.policyViolation) }
        switch frame.opcode {
        case .text:
            guard partial == nil else { return close(.protocolError) }
            take(frame, after: nil)
        case .continuation:
            guard let before = partial else { return close(.protocolError) }
            partial = nil
            take(frame, after: before)
        case .binary: close(.unacceptableData)
        case .ping:
            guard frame.fin, frame.length <= 125 else { return close(.protocolError) }
            // It doesn't read our answers, so it gets no more.
            guard context.channel.isWritable else { return }
            _ = write(.pong, frame.unmaskedData)
            flushSoon()
        case .pong: if !frame.fin || frame.length > 125 { close(.protocolError) }
        case .connectionClose: close(Self.code(answering: frame))
        default: close(.protocolError)
        }
    }

    /// Counts a ping, a pong or a fragment.
    private func isFlood() -> Bool {
        let now = ContinuousClock.now
        if framesBegan + Self.framesWindow <= now { (framesBegan, frameCount) = (now, 0) }
        frameCount += 1
        return frameCount > Self.framesMax
    }

    /// The code to answer a close frame with: the peer's own, if it is valid. Source: RFC 6455, sections 5.5.1 and 7.4.
    private static func code(answering frame: WebSocketFrame) -> WebSocketErrorCode {
        guard frame.fin, frame.length <= 125, frame.length != 1 else { return .protocolError }
        var data = frame.unmaskedData
        guard let code = data.readWebSocketErrorCode() else { return .normalClosure }
        guard isText(data.readableBytesView) else { return .dataInconsistentWithMessage }
        switch UInt16(webSocketErrorCode: code) {
        case 1000...1003, 1007...1014, 3000...4999: return code
        default: return .protocolError
        }
    }

    private static func isText(_ bytes: ByteBufferView) -> Bool {
        String(validating: bytes, as: UTF8.self) != nil
    }

    private func take(_ frame: WebSocketFrame, after before: ByteBuffer?) {
        var message = before ?? ByteBuffer()
        var part = frame.unmaskedData
        let bytesMax = if case .hello = phase { Self.helloBytesMax } else { Self.messageBytesMax }
        guard message.readableBytes + part.readableBytes <= bytesMax else {
            return close(.messageTooLarge)
        }
        if message.readableBytes == 0 { message = part } else { message.writeBuffer(&part) }
        guard frame.fin else {
            partial = message
            return
        }
        guard let said = AgentMessage(Array(message.readableBytesView)) else {
            let isText = Self.isText(message.readableBytesView)
            return close(isText ? .protocolError : .dataInconsistentWithMessage)
        }
        handle(said)
    }

    private func handle(_ message: AgentMessage) {
        switch (phase, message) {
        case (.closing, _): break
        case (_, .ping): say(AgentAnswer.pong)
        case (.hello, .hello(let agent)): hello(agent)
        case (.hello, _), (.waiting, _): close(.protocolError)
        case (.open, .hello), (.open, .other): break
        case (.open, .register(let text, let channel, let key)): register(text, channel, key)
        case (.open, .unregister(let text, let channel)):
            guard let channel else {
                return say(AgentAnswer.unregistered(text, status: 200))
            }
            begin(.unregister(channel))
        case (.open, .acknowledge(let endings)): for ending in endings { end(ending) }
        case (.open, .refused): book.counts.count(.refused)
        case (.open, .urgency(let isDoze)):
            change(to: isDoze ? .doze : .active)
            say(AgentAnswer.urgencyTaken)
        }
    }

    private func write(
        _ opcode: WebSocketOpcode, _ data: ByteBuffer
    ) -> EventLoopFuture<Void> {
        guard let context else { preconditionFailure("A handler in a pipeline has a context.") }
        let promise = context.eventLoop.makePromise(of: Void.self)
        context.write(
            wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, data: data)),
            promise: promise)
        return promise.futureResult
    }

    private func say(_ text: String) {
        guard let context else { return }
        context.write(
            wrapOutboundOut(
                WebSocketFrame(fin: true, opcode: .text, data: ByteBuffer(string: text))),
            promise: nil)
        flushSoon()
    }

    /// Flushes once per round of the event loop, so that all its messages leave together.
    private func flushSoon() {
        guard !willFlush, let context else { return }
        willFlush = true
        context.eventLoop.assumeIsolated().execute { [weak self] in
            self?.willFlush = false
            self?.context?.flush()
        }
    }

    // MARK: Hello

    private func hello(_ text: String?) {
        guard let context else { return }
        guard !book.isCurrent else { return hello(text, .any) }
        // The user agent may have registered a channel at another node a moment ago (OPS-7).
        phase = .waiting
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let (book, eventLoop) = (book, context.eventLoop)
        Task {
            let freshness = await book.newest()
            eventLoop.execute {
                guard case .waiting = bound.value.phase else { return }
                bound.value.phase = .hello
                bound.value.hello(text, freshness)
            }
        }
    }

    private func hello(_ text: String?, _ freshness: Freshness) {
        guard let context else { return }
        var text = text.flatMap { $0.utf8.count <= AgentIdentity.textBytesMax ? $0 : nil }
        var channels: [(ChannelID, Token)] = []
        if let known = text {
            do {
                channels = try freshness.ask { try book.channels(of: AgentIdentity(of: known)) }
            } catch {
                // Don't give it a new identity: that would end all its subscriptions.
                return close(WebSocketErrorCode(codeNumber: 1013))
            }
        }
        if channels.isEmpty { text = nil } else { peer.trust() }
        let agent = text ?? AgentIdentity.newText()
        let identity = AgentIdentity(of: agent)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let number = book.enter(identity) {
            eventLoop.execute { bound.value.close(Self.replaced) }
        }
        phase = .open(identity, number: number)
        say(AgentAnswer.hello(agent))
        for (channel, token) in channels { attach(channel, token) }
        watchSilence()
    }

    // MARK: Registrations

    private func register(_ text: String, _ channel: ChannelID?, _ key: String?) {
        guard let channel else { return say(AgentAnswer.notRegistered(text, status: 400)) }
        guard let key else { return begin(.register(channel, key: nil)) }
        guard let publicKey = LenientBase64.publicKey(key) else {
            return say(AgentAnswer.notRegistered(text, status: 400))
        }
        begin(.register(channel, key: publicKey))
    }

    private func begin(_ work: Work) {
        works.append(work)
        goOn()
    }

    private func goOn() {
        guard !isWorking, let context, case .open(let agent, _) = phase else { return }
        guard let work = works.popFirst() else { return }
        isWorking = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let (book, key, peer) = (book, registrationKey, peer)
        let known: Token? =
            if case .unregister(let channel) = work { subscriptions[channel]?.token } else { nil }
        Task {
            let result: Result<Token?, MartletError>
            do throws(MartletError) {
                switch work {
                case .register(let channel, _):
                    result = .success(
                        try await book.register(
                            channel, of: agent, presenting: key, from: peer))
                case .unregister:
                    if let known { try await book.unregister(known) }
                    result = .success(nil)
                }
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { bound.value.done(work, result) }
        }
    }

    private func done(_ work: Work, _ result: Result<Token?, MartletError>) {
        isWorking = false
        guard case .open = phase else { return }
        switch (work, result) {
        case (.register(let channel, let key), .success(let token?)):
            peer.trust()
            say(
                AgentAnswer.registered(channel, at: book.endpoints.url(of: token, for: key)))
            if subscriptions[channel] == nil { attach(channel, token) }
        case (.register(let channel, _), .success(nil)):
            say(AgentAnswer.notRegistered(channel.description, status: 503))
        case (.register(let channel, _), .failure(let error)):
            say(
                AgentAnswer.notRegistered(channel.description, status: Self.status(of: error)))
        case (.unregister(let channel), .success):
            if let subscription = subscriptions.removeValue(forKey: channel) {
                detach(subscription)
            }
            say(AgentAnswer.unregistered(channel.description, status: 200))
        case (.unregister(let channel), .failure):
            say(AgentAnswer.unregistered(channel.description, status: 503))
        }
        goOn()
        if isReadHeld, works.count < Self.worksMax {
            isReadHeld = false
            context?.read()
        }
    }

    private static func status(of error: MartletError) -> Int64 {
        switch error.word {
        case .permissionDenied, .unauthenticated: 403
        case .invalidArgument: 400
        case .resourceExhausted, .quotaExceeded: 429
        default: 503
        }
    }

    func read(context: ChannelHandlerContext) {
        if works.count < Self.worksMax { context.read() } else { isReadHeld = true }
    }

    // MARK: Instances

    private func attach(_ channel: ChannelID, _ token: Token) {
        let subscription = Subscription(channel, token, owner: self)
        subscriptions[channel] = subscription
        attach(subscription)
    }

    private func attach(_ subscription: Subscription) {
        guard let context, !isStalled else { return }
        book.pool(of: context.eventLoop).attach(subscription)
    }

    /// The frame that attaches an instance; nil if the user agent is gone.
    func hello(_ subscription: Subscription) -> Hello? {
        guard case .open = phase else { return nil }
        return book.hello(
            subscription.token, deviceState, unconfirmed: subscription.reattach())
    }

    private func detach(_ subscription: Subscription) {
        if let place = subscription.place { place.link.detach(place.channel) }
    }

    private func detachAll() {
        for subscription in subscriptions.values { detach(subscription) }
    }

    /// The broker has detached an instance.
    func detached(_ subscription: Subscription, for refusal: MartletError?) {
        guard subscriptions[subscription.channel] === subscription, let context else { return }
        switch refusal?.word {
        case .replaced: close(Self.replaced)
        case .unregistered, .notFound, .unauthenticated:
            subscriptions[subscription.channel] = nil
        default:
            let delay = Int64(refusal?.retryDelayMilliseconds ?? 0)
            context.eventLoop.assumeIsolated().scheduleTask(
                in: .milliseconds(max(delay, Self.reattachMilliseconds))
            ) { [weak self] in
                guard let self, subscription.place == nil,
                    subscriptions[subscription.channel] === subscription
                else { return }
                attach(subscription)
            }
        }
    }

    private func change(to state: DeviceState) {
        guard state != deviceState else { return }
        deviceState = state
        for subscription in subscriptions.values {
            subscription.place?.link.send(
                .deviceState(DeviceStateReport(state: state)), on: subscription.place?.channel ?? 0)
        }
    }

    // MARK: Messages

    /// Whether the peer keeps up with its messages.
    var mayTake: Bool { !isStalled && context?.channel.isWritable ?? false }

    /// Sends a message to the user agent.
    func take(_ message: Deliver, of subscription: Subscription) {
        guard let text = try? AgentAnswer.notification(message, of: subscription.channel) else {
            return
        }
        say(text)
    }

    /// Detaches all instances until the peer reads again. Their messages stay in the mailboxes.
    func stall() {
        guard !isStalled else { return }
        isStalled = true
        detachAll()
        // If there is room after all, this attaches the instances again at once.
        context?.flush()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, isStalled {
            isStalled = false
            for subscription in subscriptions.values where subscription.place == nil {
                attach(subscription)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    private func end(_ ending: AgentMessage.Ending) {
        guard let subscription = subscriptions[ending.channel],
            let acknowledgement = subscription.end(ending.streamID)
        else { return }
        book.counts.count(PushCounts.Ending(code: ending.code))
        guard let place = subscription.place else { return }
        place.link.send(.acknowledge(acknowledgement), on: place.channel)
    }
}

@available(*, unavailable)
extension AgentHandler: Sendable {}
