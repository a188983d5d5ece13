// SPDX-License-Identifier: Apache-2.0
//
// A connection that several apps of a device share (NET-4), as in a phone's push service. Each app is a
// `MartletDevice` on a channel of the connection, with all abilities of a device. The connection opens for the
// first app and closes after the last app. After a loss, the apps attach again as any device connects again. Rests
// on `ConnectionHandler`.

public import MartletBase
import MartletWire
public import NIOCore
public import NIOPosix

/// A connection that several `MartletDevice`s share.
///
/// An application that takes no messages does not delay the other apps: past a bound the connection detaches the
/// app, and the device attaches again when its application takes messages.
public actor DeviceConnection {
    private enum State {
        /// No app wants the connection. Can transition to: opening.
        case idle
        /// HELLO is out or about to be. Can transition to: open, idle.
        case opening
        /// The connection is open. Can transition to: idle.
        case open(Link)
    }

    nonisolated let host: String
    nonisolated let port: Int
    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The actor keeps the executor, so the executor outlives every use of the reference.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private var dialer: Dialer
    private var state = State.idle
    private var connections: UInt64 = 0
    /// Apps that wait for the connection, in order of arrival.
    private var waiting: [AppLine] = []
    private var apps: [UInt8: AppLine] = [:]
    /// `heard` is the channel of the last received frame, `told` the channel of the last sent frame.
    private var heard: UInt8 = 0
    private var told: UInt8 = 0

    /// - Parameters:
    ///   - fallbacks: NET-7, further addresses of the broker, tried in turn in each attempt to connect.
    ///   - heartbeat: DEV-5, bounds of the heartbeat for all apps of the connection.
    ///   - eventLoopGroup: the connection and all its apps run on one event loop of the group.
    public init(
        host: String, port: Int = Limits.defaultPort, fallbacks: [BrokerAddress] = [],
        heartbeat: HeartbeatOptions = HeartbeatOptions(),
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) {
        self.init(
            host: host, port: port, fallbacks: fallbacks, heartbeat: heartbeat,
            eventLoopGroup: eventLoopGroup, encryption: nil)
    }

    package init(
        host: String, port: Int, fallbacks: [BrokerAddress], heartbeat: HeartbeatOptions,
        eventLoopGroup: any EventLoopGroup, encryption: Encryption?
    ) {
        self.host = host
        self.port = port
        eventLoop = eventLoopGroup.next()
        executor = eventLoop.executor
        dialer = Dialer(
            [BrokerAddress(host: host, port: port)] + fallbacks, eventLoop: eventLoop,
            settings: ConnectionSettings(heartbeat, encryption))
    }

    deinit {
        if case .open(let link) = state { link.abandon() }
    }

    /// Apps that are attached or wait to be attached. The connection attaches at most 64.
    public var appCount: Int { apps.count + waiting.count }

    var heartbeat: Duration { dialer.settings.pace.interval }

    // MARK: Apps

    /// Begins to attach an app. The owner is told about the outcome.
    func attach(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        let app = AppLine(hello: hello, connection: connection, owner: owner, shared: self)
        switch state {
        case .open: begin(app)
        case .opening: waiting.append(app)
        case .idle:
            waiting.append(app)
            connections += 1
            state = .opening
            dialer.open(.shared, connection: connections, owner: self)
        }
    }

    private func begin(_ app: AppLine) {
        let channels = 1...UInt8(Limits.appsPerConnectionMax)
        guard let channel = channels.first(where: { apps[$0] == nil }) else {
            return app.end(
                MartletError(
                    .resourceExhausted,
                    "\(Limits.appsPerConnectionMax) apps share this connection; open another.",
                    retryDelayMilliseconds: 60_000))
        }
        app.channel = channel
        apps[channel] = app
        do { try send(.hello(app.hello), on: channel) } catch {
            apps[channel] = nil
            app.end(ConnectionHandler.lost)
        }
    }

    /// Sends a frame of an app, after a CHANNEL if another channel was selected.
    func send(_ frame: ClientFrame, on channel: UInt8) throws {
        guard case .open(let link) = state, channel != 0 else { throw ConnectionHandler.lost }
        if channel != told {
            try link.handler.value.send(.channel(ChannelSelection(number: channel)))
            told = channel
        }
        try link.handler.value.send(frame)
    }

    /// Ends an app after DETACHED, and closes the connection after the last app.
    private func ended(_ app: AppLine) {
        apps[app.channel] = nil
        app.end(nil)
        if apps.isEmpty, waiting.isEmpty, case .open(let link) = state {
            link.handler.value.close()
        }
    }
}

extension DeviceConnection: ConnectionOwner {
    nonisolated func connectionOpened(_ link: Link) {
        assumeIsolated { shared in shared.opened(link) }
    }

    nonisolated func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {
        assumeIsolated { shared in shared.received(frame, connection: connection) }
    }

    nonisolated func connectionClosed(_ error: MartletError, connection: UInt64) {
        assumeIsolated { shared in shared.lost(error, connection: connection) }
    }

    nonisolated func connectionLearned(_ pace: HeartbeatPace, connection: UInt64) {
        assumeIsolated { shared in shared.dialer.settings.pace = pace }
    }

    private func opened(_ link: Link) {
        guard case .opening = state, link.connection == connections else { return link.abandon() }
        state = .open(link)
        heard = 0
        told = 0
        let first = waiting
        waiting = []
        for app in first { begin(app) }
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        if case .channel(let selection) = frame {
            heard = selection.number
        } else if heard != 0 {
            guard let app = apps[heard] else { return }
            if case .detached = frame { ended(app) } else { app.received(frame, on: link) }
        } else if case .draining = frame {
            for app in apps.values { app.received(frame, on: link) }
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        state = .idle
        let all = apps.sorted { $0.key < $1.key }.map(\.value) + waiting
        apps = [:]
        waiting = []
        for app in all { app.end(error) }
    }
}

/// An app's line to the broker: a channel of a shared connection. Lives on the connection's event loop.
final class AppLine: BrokerLine {
    private enum State {
        /// HELLO is out or about to be. Can transition to: open, ended.
        case opening
        /// WELCOME came. Can transition to: leaving, ended.
        case open
        /// DETACH is out; frames that still come are dropped. Can transition to: ended.
        case leaving
        /// The owner was told about the end. Final.
        case ended
    }

    let hello: Hello
    private let connection: UInt64
    private weak var owner: (any ConnectionOwner)?
    private weak var shared: DeviceConnection?
    var channel: UInt8 = 0
    private var state = State.opening
    /// Reason of the end, if known before DETACHED or the loss.
    private var reason: MartletError?
    private var isPaused = false
    /// Messages received since `pause`.
    private var excess = 0

    /// Messages that a paused app may still receive before it is detached. The other apps of the connection must
    /// not wait for an application that takes no messages.
    static let excessMax = 100

    init(
        hello: Hello, connection: UInt64, owner: any ConnectionOwner, shared: DeviceConnection
    ) {
        self.hello = hello
        self.connection = connection
        self.owner = owner
        self.shared = shared
    }

    // MARK: Calls of the owner

    func send(_ frame: ClientFrame) throws {
        guard state == .open, let shared else { throw ConnectionHandler.lost }
        let channel = channel
        try shared.assumeIsolated { shared in try shared.send(frame, on: channel) }
    }

    func pause() { isPaused = true }

    func resume() {
        isPaused = false
        excess = 0
    }

    func close() {
        guard state == .open else { return }
        try? send(.detach(Detach()))
        state = .leaving
    }

    // MARK: Calls of the connection

    func received(_ frame: BrokerFrame, on link: Link) {
        if case .error(let error) = frame, error.correlation == 0 {
            reason = error.error
            return
        }
        switch state {
        case .opening: open(frame, link)
        case .open:
            guard let owner else { return close() }
            owner.connectionReceived(frame, connection: connection)
            if case .deliver = frame, isPaused { exceed() }
        case .leaving, .ended: break
        }
    }

    private func open(_ frame: BrokerFrame, _ link: Link) {
        guard case .welcome(let welcome) = frame else { return }
        state = .open
        guard let owner else { return close() }
        owner.connectionOpened(
            Link(
                connection: connection, welcome: welcome, channel: link.channel,
                handler: NIOLoopBound(self as any BrokerLine, eventLoop: link.channel.eventLoop)))
    }

    private func exceed() {
        excess += 1
        guard excess > Self.excessMax else { return }
        reason = MartletError(
            .unavailable,
            "The application does not take its messages; it is attached again when it does.")
        close()
    }

    func end(_ error: MartletError?) {
        guard state != .ended else { return }
        state = .ended
        owner?.connectionClosed(reason ?? error ?? ConnectionHandler.lost, connection: connection)
        owner = nil
    }
}
