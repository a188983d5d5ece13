// SPDX-License-Identifier: Apache-2.0
//
// One connection for several apps of a device (NET-4), as a phone's push service has: each app is a
// `MartletDevice` that is attached to it on a channel, and everything that a device does it does
// there. The connection opens with the first app that wants it, and closes with the last that leaves;
// when it is lost, the apps attach again as any device connects again. Rests on ConnectionHandler.

public import MartletBase
import MartletWire
public import NIOCore
public import NIOPosix

/// A connection that several `MartletDevice`s share.
///
/// An application that does not take its messages does not hold up the others: past its bound it is
/// detached, and attached again when it takes them.
public actor DeviceConnection {
    private enum State {
        /// No app wants it. Can transition to: opening.
        case idle
        /// Can transition to: open, idle.
        case opening
        /// Can transition to: idle.
        case open(Link)
    }

    nonisolated let host: String
    nonisolated let port: Int
    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The executor is kept by this actor, so it outlives every use of the reference.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private var dialer: Dialer
    private var state = State.idle
    private var connections: UInt64 = 0
    /// Apps that wait for the connection, in their order.
    private var waiting: [AppLine] = []
    private var apps: [UInt8: AppLine] = [:]
    /// The channels of the last frame that came, and that was sent.
    private var heard: UInt8 = 0
    private var told: UInt8 = 0

    /// - Parameters:
    ///   - heartbeat: DEV-5, for all apps of the connection.
    ///   - eventLoopGroup: all apps run on one of its event loops.
    public init(
        host: String, port: Int = Limits.defaultPort,
        heartbeat: HeartbeatOptions = HeartbeatOptions(),
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) {
        self.host = host
        self.port = port
        eventLoop = eventLoopGroup.next()
        executor = eventLoop.executor
        dialer = Dialer(
            host: host, port: port, eventLoop: eventLoop,
            settings: ConnectionSettings(heartbeat))
    }

    deinit {
        if case .open(let link) = state { link.abandon() }
    }

    /// Apps that are attached, or about to be; at most 64.
    public var appCount: Int { apps.count + waiting.count }

    var heartbeat: Duration { dialer.settings.pace.interval }

    // MARK: Apps

    /// Begins to attach an app; its owner hears how it goes.
    func attach(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        let app = AppLine(hello: hello, connection: connection, owner: owner, shared: self)
        switch state {
        case .open(let link): begin(app, on: link)
        case .opening: waiting.append(app)
        case .idle:
            waiting.append(app)
            connections += 1
            state = .opening
            dialer.open(.shared, connection: connections, owner: self)
        }
    }

    private func begin(_ app: AppLine, on link: Link) {
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

    /// A frame of an app.
    func send(_ frame: ClientFrame, on channel: UInt8) throws {
        guard case .open(let link) = state, channel != 0 else { throw ConnectionHandler.lost }
        if channel != told {
            try link.handler.value.send(.channel(ChannelSelection(number: channel)))
            told = channel
        }
        try link.handler.value.send(frame)
    }

    /// Nothing more comes for an app.
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
        for app in first { begin(app, on: link) }
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

/// One app's way to the broker: a channel. Lives on the connection's event loop.
final class AppLine: BrokerLine {
    private enum State {
        /// HELLO is out or about to be. Can transition to: open, leaving, ended.
        case opening
        /// Can transition to: leaving, ended.
        case open
        /// It leaves; what still comes is dropped. Can transition to: ended.
        case leaving
        /// Its owner was told. Final.
        case ended
    }

    let hello: Hello
    private let connection: UInt64
    private weak var owner: (any ConnectionOwner)?
    private weak var shared: DeviceConnection?
    var channel: UInt8 = 0
    private var state = State.opening
    /// Why it ends, where that is known before it does.
    private var reason: MartletError?
    private var isPaused = false
    /// Messages that came since it was paused.
    private var excess = 0

    /// The others of the connection are not to wait for one whose application takes nothing.
    static let excessMax = 100

    init(
        hello: Hello, connection: UInt64, owner: any ConnectionOwner, shared: DeviceConnection
    ) {
        self.hello = hello
        self.connection = connection
        self.owner = owner
        self.shared = shared
    }

    // MARK: What the owner asks for

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

    // MARK: What the connection tells

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
