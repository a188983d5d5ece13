// SPDX-License-Identifier: Apache-2.0
//
// One instance's connection to its broker. The device stays connected, gives each message to the application once,
// and acknowledges the messages that the application has taken (DEV-1…DEV-3). A call of the iterator's `next` marks
// the previous message as taken. While the application takes no messages, the device does not read the socket, and
// the broker keeps the stored messages.
//
// The actor runs on the connection's event loop. It has at most three timers, and a task only while its state is
// written, so a process can hold thousands of devices. `MartletDevice+Messages.swift` and `+Requests.swift` are the
// two directions; `+State.swift` is the state that outlives the process.

public import MartletBase
import MartletWire
import NIOCore
import Synchronization

/// A device of a project. The device stays connected and gives each message to the application once.
///
/// `open(host:port:projectID:appName:platform:store:deviceState:options:)` registers a new device, or takes over
/// the device that a `DeviceStateStore` keeps. Iterating over `messages` or `events` connects the device. A message
/// is acknowledged when the application asks for the next message. `registrationTokens()` gives the present and
/// every later token under which senders reach the device.
public actor MartletDevice {
    enum State {
        /// The device has not been asked to connect. Can transition to: opening, ended.
        case idle
        /// A pause before the next attempt. Can transition to: opening, ended.
        case waiting(Scheduled<Void>)
        /// HELLO is out or about to be. Can transition to: open, waiting, ended.
        case opening
        /// The connection is open. Can transition to: waiting, ended.
        case open(Link)
        /// Closed, unregistered, or refused for good. Final.
        case ended(MartletError?)
    }

    typealias Taker = CheckedContinuation<DeviceEvent?, any Error>
    typealias Answer = CheckedContinuation<BrokerFrame, any Error>

    private nonisolated let known: Mutex<DeviceCredentials>
    /// Project ID, token and device key. `rotateToken()` changes the token.
    public nonisolated var credentials: DeviceCredentials { known.withLock { $0 } }
    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The actor keeps the executor, so the executor outlives every use of the reference.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    let options: DeviceOptions
    private var way: DeviceWay
    var random = SystemRandomNumberGenerator()
    private var backoff: Backoff
    private var openedAt = NIODeadline.uptimeNanoseconds(0)
    /// What the broker told when the connection opened: its clock, and the stream ID up to which all messages are
    /// acknowledged; nil before the first connection.
    package private(set) var opening: (instant: Instant, acknowledgedThrough: UInt64)?
    /// The broker's clock now; nil before the first connection.
    package var brokerClock: Instant? {
        opening.map { opening in
            let milliseconds = (NIODeadline.now() - openedAt).nanoseconds / 1_000_000
            return Instant(
                millisecondsSince1970: opening.instant.millisecondsSince1970 + milliseconds)
        }
    }
    private var connections: UInt64 = 0
    /// The reason why the last connection ended, or why the last attempt to connect failed; nil while the device is
    /// connected, and before the first attempt has ended. The device tries again by itself.
    public private(set) var lastFailure: MartletError?
    /// Longest pause before the next connection, as DRAINING told.
    var drainDelay: Duration?
    var state = State.idle

    // State of the way of messages.
    var ledger: DeliveryLedger
    var waiting = EventQueue()
    /// True if the device shares a connection and stays detached because its application takes no messages.
    private var isHeldOff = false
    var takers: [(number: UInt64, taker: Taker)] = []
    var acknowledgementTimer: Scheduled<Void>?

    // State of the way of requests.
    var requests = RequestTable<Answer>()
    var receipts = ReceiptQueue()
    /// Receipts sent on this connection, by correlation. No caller waits for their answers, so a full buffer may
    /// stop the reading before the answers come.
    var receiptsTold: [UInt32: PendingReceipt] = [:]
    /// DEV-2: the application's wishes about topics.
    var topics: TopicWishes
    /// Wishes of earlier runs that the device has sent on this connection. No caller waits for the answer.
    var topicsTold: (correlation: UInt32, wishes: [TopicWishes.Wish])?
    var topicTimer: Scheduled<Void>?
    var topicBackoff: Backoff
    var refusalListeners: [UInt64: AsyncStream<TopicRefusal>.Continuation] = [:]
    /// Streams of `registrationTokens()`.
    var tokenListeners: [UInt64: AsyncStream<String>.Continuation] = [:]
    private var helloState: DeviceState
    /// PRI-2: the device state that the broker learns on every connection.
    public internal(set) var deviceState: DeviceState
    /// DEV-4: the application's messages that wait for the broker's answer.
    package internal(set) var upstreamCount = 0
    // State that outlives the process.
    var keeper: StateKeeper?
    /// The write that began last, and the next write, which includes all changes until it begins.
    var lastSave: Task<Void, any Error>?
    var nextSave: Task<Void, any Error>?

    var openWaiters: [(number: UInt64, waiter: CheckedContinuation<Link, any Error>)] = []

    /// Count of waiters so far; numbers a waiter for cancellation.
    var waitersEver: UInt64 = 0

    /// Makes a device. The application keeps the device's state.
    /// - Parameters:
    ///   - unconfirmed: the value of `unconfirmed` that the application kept last, so that no message comes twice
    ///     after a lost acknowledgement; empty if the application kept no value.
    ///   - deviceState: state of the device when it connects.
    ///   - askedTopics: the value of `askedTopics` that the application kept last (DEV-2). The device tells the
    ///     broker about the topics after connecting.
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

    /// Makes a device on a shared connection. The application keeps the device's state, and the connection has the
    /// heartbeat for all its devices. See
    /// `init(host:port:credentials:unconfirmed:deviceState:askedTopics:options:)` for the parameters.
    public init(
        on connection: DeviceConnection, credentials: DeviceCredentials,
        unconfirmed: [UInt64] = [], deviceState: DeviceState = .active,
        askedTopics: AskedTopics = AskedTopics(), options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: .shared(connection), credentials: credentials, unconfirmed: unconfirmed,
            deviceState: deviceState, askedTopics: askedTopics, keeper: nil, options: options)
    }

    /// Makes a device on a shared connection, with its state in a store.
    public init(
        on connection: DeviceConnection, stored: StoredDevice, store: any DeviceStateStore,
        deviceState: DeviceState = .active, options: DeviceOptions = DeviceOptions()
    ) {
        self.init(
            way: .shared(connection), stored: stored, store: store, deviceState: deviceState,
            options: options)
    }

    /// Makes a device with its state in a store: `stored` is the store's present content, and the device writes the
    /// store at every change. `open(host:port:projectID:appName:platform:store:deviceState:options:)` also loads or
    /// registers.
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

    /// TTL-4: stream IDs of the messages that the application has taken and that the broker may deliver again. At
    /// most 1024; the lowest are forgotten first. An application that keeps its own state should keep them, because
    /// a message with a forgotten ID may come twice.
    public var unconfirmed: [UInt64] { ledger.unconfirmed }

    /// Messages and other events that wait for the application.
    public var bufferedMessages: Int { waiting.count }

    /// Connects, and stays connected until `close()`. Returns after the first connection. Iterating over `messages`
    /// also connects.
    /// - Throws: the error of a refusal that another attempt cannot change.
    public func connect() async throws { _ = try await link() }

    /// DEV-5: silence before the device sends a PING, as learned so far. If the broker allows only a shorter
    /// silence, the device pings earlier.
    public var heartbeat: Duration { way.heartbeat }

    /// Sends the waiting acknowledgements, disconnects, and ends the sequence of messages. Returns after the state
    /// has been written to the store. Errors of the store are dropped; an application that must know them calls
    /// `save()` afterwards.
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
        // A device with a full buffer would stop the reading for all devices of the shared connection.
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

    /// Attaches a held-off device again, after its application has taken messages or made a request.
    func openIfHeldOff() {
        guard isHeldOff, case .waiting(let timer) = state else { return }
        timer.cancel()
        open()
    }

    /// DEV-1: the next HELLO has the new token, and the streams of `registrationTokens()` get the token.
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

    /// A connection that was shorter than the longest pause does not count as a success. Otherwise a broker that
    /// accepts and at once drops connections would be asked ever faster.
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
        lastFailure = nil
        openedAt = .now()
        opening = (link.welcome.now, link.welcome.acknowledgedThrough)
        ledger.connected(acknowledgedThrough: link.welcome.acknowledgedThrough)
        // REG-4: the broker rotated the token, and the answer was lost with the earlier connection.
        if !link.welcome.token.isEmpty { replaceToken(link.welcome.token) }
        // HELLO told the device state at the time of dialing.
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
        lastFailure = error
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
