// SPDX-License-Identifier: Apache-2.0
//
// One connection of an app server, from TLS to its close: bytes become stanzas, which are served one after another. The
// handler stops reading while a refusal is held back, while a full window of sends is unanswered, and while the app server
// itself doesn't read. The extensions serve the stanzas. Rests on StanzaParser and NIO.

import Logging
import Martlet
import MartletGateway
import NIOCore
import NIOSSL
import NIOTLS

/// Serves a connection of an app server.
final class AppServerHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = Never
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Waits for the header of a stream. Can transition to: signingIn, binding, closing.
        case opening
        /// Waits for the sign-in. Can transition to: checking, opening, closing.
        case signingIn
        /// A refusal is held back (REG-10). Can transition to: signingIn, closing.
        case checking
        /// Signed in, without a resource. Can transition to: bound, closing.
        case binding
        /// Can transition to: closing.
        case bound
        /// We have ended our stream. Final.
        case closing
    }

    /// Why we sent CONNECTION_DRAINING.
    enum Drain: Sendable {
        case certificate
        case shutdown
        /// This node of a cluster is drained (OPS-7).
        case rest

        /// Whether the app server has only seconds, because the process ends or the node is drained.
        var isSoon: Bool { if case .certificate = self { false } else { true } }

        /// What we say when we close the connection.
        var text: String {
            switch self {
            case .certificate: "The server's certificate has changed."
            case .shutdown: "The broker is stopping."
            case .rest: "This node of the cluster is drained; connect to another node."
            }
        }
    }

    let core: ServerCore
    let address: PeerAddress
    let isProxy: Bool
    var context: ChannelHandlerContext?
    /// Reaches this handler from other threads; nil until it is added.
    private(set) var port: ServerCore.Port?
    /// Our number in the core; 0 if we aren't counted.
    private(set) var number: UInt64 = 0
    private var strangerNumber: UInt64?

    var phase = Phase.opening
    /// The signed-in sender.
    var sender: DoorSender?
    var dispatcher: ReceiptDispatcher?
    /// The domain by which the app server addresses us.
    var domain = AppServerHandler.domainDefault
    /// The app server's address, once bound.
    var jid = ""
    var refusalCount = 0

    // Bytes.
    private var parser = StanzaParser(stanzaBytesMax: XMPPLimits.strangerStanzaBytesMax)
    private var strangerBytes = 0
    /// Parsed events that wait for those before them.
    private var events: ArraySlice<StanzaParser.Event> = []
    /// A fault that comes after the waiting events.
    private var fault: StreamError?
    private var isReadHeld = false
    private var out = ByteBuffer()
    private var willFlush = false
    private var isEstablished = false
    private var hasSentHeader = false
    private var hasPeerClosed = false

    // Silence.
    private var lastHeard = NIODeadline.now()
    private var hasPinged = false

    // Sends of the app server.
    /// Unanswered messages of the app server.
    var inProgressCount = 0

    // Messages for the app server.
    var outstanding: [AckKey: [Outstanding]] = [:]
    var outstandingCount = 0
    /// Numbers of messages that wait for room in the window.
    var waitingNumbers: [UInt64] = []
    var waitingReceipts: [NamedReceipt] = []
    /// Acknowledged numbers that the store has yet to hear of.
    var taking: [UInt64] = []
    /// Unanswered calls to the store about acknowledgements.
    var takeCount = 0

    // Draining.
    var drain: Drain?
    var drainBegan = NIODeadline.now()

    /// The domain to use for an app server that names none.
    static let domainDefault = "fcm.googleapis.com"

    init(_ core: ServerCore, address: PeerAddress) {
        self.core = core
        self.address = address
        isProxy = core.broker.isProxy(address)
    }

    // MARK: The connection

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let port = ServerCore.Port(self, context.eventLoop)
        self.port = port
        strangerNumber = core.strangers.enter(address, isProxy: isProxy) {
            port.run { $0.endAtOnce() }
        }
        guard strangerNumber != nil, let number = core.enter(port) else {
            return context.close(promise: nil)
        }
        self.number = number
        let limit = TimeAmount.seconds(core.configuration.signInSeconds)
        after(limit) { handler in
            guard handler.sender == nil else { return }
            handler.fail(
                StreamError(.connectionTimeout, "The app server did not sign in in time."))
        }
    }

    /// Runs a body on this event loop after a time, if the connection is still open.
    func after(_ time: TimeAmount, _ body: @escaping @Sendable (AppServerHandler) -> Void) {
        port?.run(after: time, body)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event {
            isEstablished = true
            let pipeline = context.channel.pipeline.syncOperations
            (try? pipeline.handler(type: HandshakeTurnHandler.self))?.endTurn()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // No log line for a peer that just hangs up: health checks do that.
        let text = String(describing: error)
        if !hasSentHeader, let start = text.firstRange(of: "OPENSSL_internal:")?.upperBound {
            let reason = text[start...].prefix { $0 != " " && $0 != "]" }
            core.refusalLog.tell(
                .handshake, from: address.description,
                ["reason": "\(reason.replacing("_", with: " ").lowercased())"])
        }
        endAtOnce()
    }

    func channelInactive(context: ChannelHandlerContext) { cleanUp() }

    func handlerRemoved(context: ChannelHandlerContext) { cleanUp() }

    private func cleanUp() {
        guard context != nil else { return }
        context = nil
        phase = .closing
        events = []
        leaveStrangers()
        if number != 0 { core.leave(number) }
        leaveDevices()
    }

    /// The connection is no longer a stranger.
    private func leaveStrangers() {
        guard let number = strangerNumber else { return }
        strangerNumber = nil
        core.strangers.leave(number)
    }

    /// Closes without waiting for the peer. Over TLS an ordinary close would wait for its answer.
    func endAtOnce() {
        guard let context else { return }
        phase = .closing
        let pipeline = context.channel.pipeline.syncOperations
        if let tls = try? pipeline.context(handlerType: NIOSSLServerHandler.self) {
            tls.close(promise: nil)
        } else {
            context.close(promise: nil)
        }
    }

    // MARK: Reading

    private var mayServe: Bool {
        switch phase {
        case .checking, .closing: false
        case .opening, .signingIn, .binding, .bound:
            inProgressCount < XMPPLimits.windowMax && (context?.channel.isWritable ?? false)
        }
    }

    func read(context: ChannelHandlerContext) {
        // While closing we read only to notice the peer's close.
        if phase == .closing || (mayServe && events.isEmpty) {
            context.read()
        } else {
            isReadHeld = true
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            goOn()
            sendWaiting()
        }
        context.fireChannelWritabilityChanged()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        guard phase != .closing else { return }
        lastHeard = .now()
        hasPinged = false
        if sender == nil {
            strangerBytes += buffer.readableBytes
            guard strangerBytes <= XMPPLimits.strangerBytesMax else {
                return fail(
                    StreamError(
                        .policyViolation,
                        "A sign-in has at most \(XMPPLimits.strangerBytesMax) bytes."))
            }
        }
        // After a fault nothing more is parsed.
        guard fault == nil else { return }
        let parsed = buffer.withUnsafeReadableBytes { parser.parse($0) }
        events += parsed.events
        fault = parsed.fault
        goOn()
    }

    func channelReadComplete(context: ChannelHandlerContext) { takeNow() }

    /// Serves as many waiting events as possible, then reads on.
    func goOn() {
        while mayServe, let event = events.popFirst() {
            switch event {
            case .opened(let header): opened(header)
            case .stanza(let stanza): serve(stanza)
            case .closed: hasPeerClosed = true
            }
        }
        guard events.isEmpty, phase != .closing else { return }
        if let fault { return fail(fault) }
        if hasPeerClosed, inProgressCount == 0 { return finish() }
        guard mayServe, isReadHeld, let context else { return }
        isReadHeld = false
        context.read()
    }

    private func serve(_ stanza: StanzaElement) {
        switch phase {
        case .signingIn: signIn(stanza)
        case .binding, .bound: serveStanza(stanza)
        case .opening, .checking, .closing: break
        }
    }

    /// The app server has signed in: a new stream begins on the connection. Source: RFC 6120 §6.3.2.
    func restart(as sender: DoorSender) {
        guard events.isEmpty, fault == nil else {
            sender.end()
            return fail(
                StreamError(.notWellFormed, "Wait for the end of the sign-in."))
        }
        self.sender = sender
        leaveStrangers()
        phase = .opening
        hasSentHeader = false
        parser = StanzaParser(stanzaBytesMax: XMPPLimits.stanzaBytesMax)
        try? context?.channel.syncOptions?.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(
                minimum: 64, initial: 2048, maximum: XMPPLimits.readBytesMax))
        watchSilence(in: .seconds(core.configuration.silenceSeconds))
    }

    // MARK: Silence

    private func watchSilence(in time: TimeAmount) {
        after(time) { handler in
            guard handler.phase != .closing else { return }
            let limit = TimeAmount.seconds(handler.core.configuration.silenceSeconds)
            let left = handler.lastHeard + limit - .now()
            guard left <= .zero else { return handler.watchSilence(in: left) }
            guard !handler.hasPinged else {
                return handler.fail(
                    StreamError(.connectionTimeout, "The app server was silent for too long."))
            }
            handler.hasPinged = true
            handler.lastHeard = .now()
            handler.sendPing()
            handler.watchSilence(in: limit)
        }
    }

    // MARK: Writing

    /// Queues a text; everything queued in this turn of the event loop is written together.
    func send(_ xml: String) {
        guard phase != .closing, context != nil else { return }
        out.writeString(xml)
        guard !willFlush else { return }
        willFlush = true
        port?.run { handler in
            handler.willFlush = false
            handler.flush()
        }
    }

    private func flush(promise: EventLoopPromise<Void>? = nil) {
        guard let context, out.readableBytes > 0 else {
            promise?.succeed()
            return
        }
        let bytes = out
        out = ByteBuffer()
        context.writeAndFlush(wrapOutboundOut(bytes), promise: promise)
    }

    /// Sends the header of our stream.
    func sendHeader() {
        hasSentHeader = true
        let id = UInt64.random(in: .min ... .max)
        send(
            """
            <?xml version="1.0"?><stream:stream xmlns="\(Namespace.client)" \
            xmlns:stream="\(Namespace.stream)" id="\(String(id, radix: 36))" \
            from="\(XML.escaped(domain))" version="1.0" xml:lang="en">
            """)
    }

    // MARK: The end

    /// Ends the stream with an error.
    func fail(_ error: StreamError) {
        guard phase != .closing else { return }
        core.metrics.ended(error.condition)
        if !hasSentHeader { sendHeader() }
        send(error.xml)
        finish()
    }

    /// Ends the stream.
    func finish() {
        guard phase != .closing, let context else { return }
        // If TLS never came up, there is no way to tell the peer.
        guard isEstablished else { return endAtOnce() }
        if !hasSentHeader { sendHeader() }
        send("</stream:stream>")
        takeNow()
        phase = .closing
        let promise = context.eventLoop.makePromise(of: Void.self)
        let port = port
        promise.futureResult.whenComplete { _ in
            port?.run { $0.context?.close(promise: nil) }
        }
        flush(promise: promise)
        if isReadHeld { context.read() }
        after(.seconds(XMPPLimits.closingSecondsMax)) { $0.endAtOnce() }
    }
}

@available(*, unavailable)
extension AppServerHandler: Sendable {}
