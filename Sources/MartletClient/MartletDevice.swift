// SPDX-License-Identifier: Apache-2.0
//
// One instance's connection to its broker: it stays connected, gives the application its messages one
// by one, each once, and acknowledges what the application has taken (DEV-1…DEV-3). The iterator's
// next call says that the message before was taken. While the application does not take, the socket is
// not read, and the broker keeps what is stored.
//
// It runs on its connection's event loop and has no task of its own, and at most two timers; a process
// can hold thousands. `MartletDevice+Messages.swift` and `+Requests.swift` are the two directions.

public import MartletBase
import MartletWire
import NIOCore

public actor MartletDevice {
    enum State {
        /// Not asked to connect yet. Can transition to: opening, ended.
        case idle
        /// A pause before the next attempt. Can transition to: opening, ended.
        case waiting(Scheduled<Void>)
        /// HELLO carries this received-through. Can transition to: open, waiting, ended.
        case opening(receivedThrough: UInt64)
        /// Can transition to: waiting, ended.
        case open(Link)
        /// Closed, unregistered, or refused for good. Final.
        case ended(MartletError?)
    }

    typealias Taker = CheckedContinuation<IncomingMessage?, any Error>
    typealias Answer = CheckedContinuation<BrokerFrame, any Error>

    public nonisolated let credentials: DeviceCredentials
    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The executor is kept by this actor, so it outlives every use of the reference.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    let options: DeviceOptions
    private let dialer: Dialer
    var random = SystemRandomNumberGenerator()
    private var backoff: Backoff
    private var openedAt = NIODeadline.uptimeNanoseconds(0)
    private var connections: UInt64 = 0
    /// Set by DRAINING: the longest pause before the next connection.
    var drainDelay: Duration?
    var state = State.idle

    // The way of messages.
    var ledger: DeliveryLedger
    var waiting = MessageQueue()
    var takers: [(number: UInt64, taker: Taker)] = []
    var acknowledgementTimer: Scheduled<Void>?

    // The way of requests.
    var requests = RequestTable<Answer>()
    var openWaiters: [(number: UInt64, waiter: CheckedContinuation<Link, any Error>)] = []

    /// Numbers those who wait, so that one can be cancelled.
    var waitersEver: UInt64 = 0

    /// - Parameter receivedThrough: what `receivedThrough` was when the application last kept it, so
    ///   that an acknowledgement that was lost is made good; 0 if it did not.
    public init(
        host: String, port: Int = Limits.defaultPort, credentials: DeviceCredentials,
        receivedThrough: UInt64 = 0, options: DeviceOptions = DeviceOptions()
    ) {
        self.credentials = credentials
        self.options = options
        backoff = options.backoff
        ledger = DeliveryLedger(receivedThrough: receivedThrough)
        eventLoop = options.eventLoopGroup.next()
        executor = eventLoop.executor
        dialer = Dialer(
            host: host, port: port, eventLoop: eventLoop,
            settings: ConnectionSettings(heartbeat: options.heartbeat))
    }

    deinit {
        acknowledgementTimer?.cancel()
        switch state {
        case .open(let link): link.channel.close(promise: nil)
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
    }

    /// The highest stream ID up to which the application has taken every message. Worth keeping where
    /// the application keeps its own state.
    public var receivedThrough: UInt64 { ledger.takenThrough }

    /// Messages that have come and wait for the application.
    public var bufferedMessages: Int { waiting.count }

    /// Connects and stays connected until `close()`. Returns when connected for the first time;
    /// throws where trying again cannot help. Iterating over `messages` connects too.
    public func connect() async throws { _ = try await link() }

    /// Sends what is to be acknowledged, disconnects, and ends the sequence of messages.
    public func close() { end(nil) }

    // MARK: Connecting

    func start() {
        guard case .idle = state else { return }
        open()
    }

    func open() {
        if case .ended = state { return }
        connections += 1
        let receivedThrough = ledger.takenThrough
        state = .opening(receivedThrough: receivedThrough)
        dialer.open(
            .device(
                projectID: credentials.projectID, token: credentials.token,
                deviceKey: credentials.deviceKey, receivedThrough: receivedThrough),
            connection: connections, owner: self)
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

    private func opened(_ link: Link) {
        guard case .opening(let receivedThrough) = state, link.connection == connections else {
            return link.channel.close(promise: nil)
        }
        state = .open(link)
        openedAt = .now()
        ledger.connected(
            receivedThrough: receivedThrough,
            acknowledgedThrough: link.welcome.acknowledgedThrough)
        let waiters = openWaiters
        openWaiters = []
        for (_, waiter) in waiters { waiter.resume(returning: link) }
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        switch frame {
        case .deliver(let deliver): received(deliver, on: link)
        case .draining(let notice):
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
        default: received(answer: frame)
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        for answer in requests.removeAll(ofConnection: connection) {
            answer.resume(throwing: error)
        }
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
