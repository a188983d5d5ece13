// SPDX-License-Identifier: Apache-2.0
//
// One instance's connection to its broker: it stays connected, gives the application its messages one
// by one, each once, and acknowledges what the application has taken (DEV-1…DEV-3). The iterator's
// next call says that the message before was taken. While the application does not take, the socket is
// not read, and the broker keeps what is stored.
//
// It runs on its connection's event loop and has no task of its own but while its state is written,
// and at most three timers; a process can hold thousands. `MartletDevice+Messages.swift` and
// `+Requests.swift` are the two directions, `+State.swift` is what outlives the process.

public import MartletBase
import MartletWire
import NIOCore
import Synchronization

/// A device of a project: it stays connected, and gives the application each message once.
///
/// `open(host:port:projectID:appName:platform:store:deviceState:options:)` registers it, or takes up
/// the one that a `DeviceStateStore` has. Iterating over `messages` or `events` connects; a message
/// is acknowledged when the application asks for the next one. `registrationTokens()` tells under
/// which token senders reach it, now and later.
public actor MartletDevice {
    enum State {
        /// Not asked to connect yet. Can transition to: opening, ended.
        case idle
        /// A pause before the next attempt. Can transition to: opening, ended.
        case waiting(Scheduled<Void>)
        /// HELLO is out or about to be. Can transition to: open, waiting, ended.
        case opening
        /// Can transition to: waiting, ended.
        case open(Link)
        /// Closed, unregistered, or refused for good. Final.
        case ended(MartletError?)
    }

    typealias Taker = CheckedContinuation<DeviceEvent?, any Error>
    typealias Answer = CheckedContinuation<BrokerFrame, any Error>

    private nonisolated let known: Mutex<DeviceCredentials>
    /// The token changes with `rotateToken()`.
    public nonisolated var credentials: DeviceCredentials { known.withLock { $0 } }
    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The executor is kept by this actor, so it outlives every use of the reference.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    let options: DeviceOptions
    private var way: DeviceWay
    var random = SystemRandomNumberGenerator()
    private var backoff: Backoff
    private var openedAt = NIODeadline.uptimeNanoseconds(0)
    private var connections: UInt64 = 0
    /// Set by DRAINING: the longest pause before the next connection.
    var drainDelay: Duration?
    var state = State.idle

    // The way of messages.
    var ledger: DeliveryLedger
    var waiting = EventQueue()
    /// One of several apps that is not attached, because its application takes nothing.
    private var isHeldOff = false
    var takers: [(number: UInt64, taker: Taker)] = []
    var acknowledgementTimer: Scheduled<Void>?

    // The way of requests.
    var requests = RequestTable<Answer>()
    var receipts = ReceiptQueue()
    /// Receipts that this connection's broker has been told, by their correlation. Nobody waits for
    /// them, so reading does not go on for their sake.
    var receiptsTold: [UInt32: PendingReceipt] = [:]
    /// DEV-2: what the application asked for about topics.
    var topics: TopicWishes
    /// What this connection's broker has been told of what was asked for in earlier runs; as receipts.
    var topicsTold: (correlation: UInt32, wishes: [TopicWishes.Wish])?
    var topicTimer: Scheduled<Void>?
    var topicBackoff: Backoff
    var refusalListeners: [UInt64: AsyncStream<TopicRefusal>.Continuation] = [:]
    /// Who listens for tokens.
    var tokenListeners: [UInt64: AsyncStream<String>.Continuation] = [:]
    private var helloState: DeviceState
    /// PRI-2: what the broker is told on every connection.
    public internal(set) var deviceState: DeviceState
    /// DEV-4: messages of the application that wait for the broker's answer.
    package internal(set) var upstreamCount = 0
    // What outlives the process.
    var keeper: StateKeeper?
    /// The write that has begun last, and one that will take along what changes until it begins.
    var lastSave: Task<Void, any Error>?
    var nextSave: Task<Void, any Error>?

    var openWaiters: [(number: UInt64, waiter: CheckedContinuation<Link, any Error>)] = []

    /// Numbers those who wait, so that one can be cancelled.
    var waitersEver: UInt64 = 0

    /// - Parameters:
    ///   - unconfirmed: what `unconfirmed` was when the application last kept it, so that no message
    ///     comes twice after a lost acknowledgement; empty if it did not.
    ///   - deviceState: how awake the device is when it connects.
    ///   - askedTopics: what `askedTopics` was when the application last kept it (DEV-2). The broker is
    ///     told it when the device has connected.
    public init(
        host: String, port: Int = Limits.defaultPort, credentials: DeviceCredentials,
        unconfirmed: [UInt64] = [], deviceState: DeviceState = .active,
        askedTopics: AskedTopics = AskedTopics(), options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: DeviceWay(host: host, port: port, options), credentials: credentials,
            unconfirmed: unconfirmed, deviceState: deviceState, askedTopics: askedTopics,
            keeper: nil, options: options)
    }

    /// A device that is one of several on a connection: `init(host:port:credentials:unconfirmed:
    /// deviceState:askedTopics:options:)` in everything else. The heartbeat is the connection's.
    public init(
        on connection: DeviceConnection, credentials: DeviceCredentials,
        unconfirmed: [UInt64] = [], deviceState: DeviceState = .active,
        askedTopics: AskedTopics = AskedTopics(), options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: .shared(connection), credentials: credentials, unconfirmed: unconfirmed,
            deviceState: deviceState, askedTopics: askedTopics, keeper: nil, options: options)
    }

    /// A device that a store keeps, as one of several on a connection.
    public init(
        on connection: DeviceConnection, stored: StoredDevice, store: any DeviceStateStore,
        deviceState: DeviceState = .active, options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: .shared(connection), stored: stored, store: store, deviceState: deviceState,
            options: options)
    }

    /// A device that a store keeps: `stored` is what it has, and it is written when that changes.
    /// `open(host:port:projectID:appName:platform:store:deviceState:options:)` does all of it.
    public init(
        host: String, port: Int = Limits.defaultPort, stored: StoredDevice,
        store: any DeviceStateStore, deviceState: DeviceState = .active,
        options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: DeviceWay(host: host, port: port, options), stored: stored, store: store,
            deviceState: deviceState, options: options)
    }

    init(
        way: DeviceWay, stored: StoredDevice, store: any DeviceStateStore,
        deviceState: DeviceState, options: DeviceOptions
    ) {
        self.init(
            way: way, credentials: stored.credentials,
            unconfirmed: stored.unconfirmed, deviceState: deviceState, askedTopics: stored.topics,
            keeper: StateKeeper(store: store, stored: stored), options: options)
    }

    private init(
        way: DeviceWay, credentials: DeviceCredentials, unconfirmed: [UInt64],
        deviceState: DeviceState, askedTopics: AskedTopics, keeper: StateKeeper?,
        options: DeviceOptions
    ) {
        known = Mutex(credentials)
        self.deviceState = deviceState
        helloState = deviceState
        self.options = options
        backoff = options.backoff
        topics = TopicWishes(askedTopics)
        self.keeper = keeper
        topicBackoff = options.backoff
        ledger = DeliveryLedger(unconfirmed: unconfirmed)
        self.way = way
        eventLoop = way.eventLoop
        executor = eventLoop.executor
    }

    deinit {
        acknowledgementTimer?.cancel()
        topicTimer?.cancel()
        for listener in tokenListeners.values { listener.finish() }
        for listener in refusalListeners.values { listener.finish() }
        switch state {
        case .open(let link): link.abandon()
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
    }

    /// TTL-4: the stream IDs of messages that the application has taken and of which the broker has not
    /// said that it will not deliver them again; at most 1024, the oldest are forgotten first. Worth
    /// keeping where the application keeps its own state: a message whose ID is lost may come twice.
    public var unconfirmed: [UInt64] { ledger.unconfirmed }

    /// Messages and other events that have come and wait for the application.
    public var bufferedMessages: Int { waiting.count }

    /// Connects and stays connected until `close()`. Returns when connected for the first time;
    /// throws where trying again cannot help. Iterating over `messages` connects too.
    public func connect() async throws { _ = try await link() }

    /// DEV-5: how long the connection may be silent before it is pinged, as learned until now; less
    /// where the broker bears less silence.
    public var heartbeat: Duration { way.heartbeat }

    /// Sends what is to be acknowledged, disconnects, and ends the sequence of messages. Returns
    /// when what there is to keep is kept; an application that must know whether it is calls
    /// `save()` then.
    public func close() async {
        end(nil)
        try? await save()
    }

    // MARK: Connecting

    func start() {
        guard case .idle = state else { return }
        open()
    }

    func open() {
        if case .ended = state { return }
        // The others of its connection would have to wait for its application.
        isHeldOff = way.isShared && isFull && openWaiters.isEmpty
        guard !isHeldOff else { return wait(options.backoff.cap) }
        connections += 1
        state = .opening
        helloState = deviceState
        let credentials = credentials
        way.open(
            .device(
                projectID: credentials.projectID, token: credentials.token,
                deviceKey: credentials.deviceKey, state: deviceState,
                unconfirmed: ledger.unconfirmed),
            connection: connections, owner: self)
    }

    /// The application takes messages again, or wants something.
    func openIfHeldOff() {
        guard isHeldOff, case .waiting(let timer) = state else { return }
        timer.cancel()
        open()
    }

    /// DEV-1: HELLO has the new one from now on, and whoever listens is told.
    func replaceToken(_ token: String) {
        guard token != credentials.token else { return }
        known.withLock { $0.token = token }
        for listener in tokenListeners.values { listener.yield(token) }
        saveSoon()
    }

    private func wait(_ pause: Duration) {
        state = .waiting(
            eventLoop.scheduleTask(in: TimeAmount(pause)) { [weak self] in
                self?.assumeIsolated { device in device.open() }
            })
    }

    /// A connection shorter than the longest pause does not count as a success: a broker that lets
    /// in and drops at once is not asked ever faster.
    private func pauseAfter(_ error: MartletError, wasOpen: Bool) -> Duration {
        if wasOpen && NIODeadline.now() - openedAt > TimeAmount(options.backoff.cap) {
            backoff.succeeded()
        }
        if let delay = drainDelay {
            drainDelay = nil
            return Backoff.part(of: delay, using: &random)
        }
        return backoff.next(notBefore: error.retryDelayMilliseconds, using: &random)
    }

    func end(_ error: MartletError?) {
        if case .ended = state { return }
        acknowledge(ifDue: false)
        acknowledgementTimer?.cancel()
        topicTimer?.cancel()
        let before = state
        state = .ended(error)
        switch before {
        case .open(let link): link.handler.value.close()
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
        let reason = error ?? RequestClient.closed
        for (_, waiter) in openWaiters { waiter.resume(throwing: reason) }
        openWaiters = []
        for answer in requests.removeAll(ofConnection: connections) {
            answer.resume(throwing: reason)
        }
        endTakers(error)
        for listener in tokenListeners.values { listener.finish() }
        tokenListeners = [:]
        for listener in refusalListeners.values { listener.finish() }
        refusalListeners = [:]
    }
}

extension MartletDevice: ConnectionOwner {
    nonisolated func connectionOpened(_ link: Link) {
        assumeIsolated { device in device.opened(link) }
    }

    nonisolated func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {
        assumeIsolated { device in device.received(frame, connection: connection) }
    }

    nonisolated func connectionClosed(_ error: MartletError, connection: UInt64) {
        assumeIsolated { device in device.lost(error, connection: connection) }
    }

    nonisolated func connectionLearned(_ pace: HeartbeatPace, connection: UInt64) {
        assumeIsolated { device in
            if connection == device.connections { device.way.learn(pace) }
        }
    }

    private func opened(_ link: Link) {
        guard case .opening = state, link.connection == connections else {
            return link.abandon()
        }
        state = .open(link)
        openedAt = .now()
        ledger.connected(acknowledgedThrough: link.welcome.acknowledgedThrough)
        // REG-4: another token was given, and its answer lost on the way.
        if !link.welcome.token.isEmpty { replaceToken(link.welcome.token) }
        // HELLO said what it was when the connection was dialed.
        if deviceState != helloState { tell(deviceState, on: link) }
        for receipt in receipts.all { send(receipt, on: link) }
        ensureTopics(on: link)
        let waiters = openWaiters
        openWaiters = []
        for (_, waiter) in waiters { waiter.resume(returning: link) }
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        switch frame {
        case .deliver(let deliver): received(deliver, on: link)
        case .deleted(let deleted): received(deleted, on: link)
        case .confirmed(let confirmed): ledger.confirm(through: confirmed.through)
        case .draining(let notice):
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
        default: received(answer: frame, on: link)
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        for answer in requests.removeAll(ofConnection: connection) {
            answer.resume(throwing: error)
        }
        receiptsTold = [:]
        topicsTold = nil
        topicTimer?.cancel()
        topicTimer = nil
        acknowledgementTimer?.cancel()
        acknowledgementTimer = nil
        switch state {
        case .opening, .open:
            if error.isFinal { return end(error) }
            let wasOpen = if case .open = state { true } else { false }
            wait(pauseAfter(error, wasOpen: wasOpen))
        case .idle, .waiting, .ended: break
        }
    }
}
