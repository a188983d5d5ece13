// SPDX-License-Identifier: Apache-2.0
//
// The connection of a sender or administrator. Many requests may be outstanding at once; their correlations tell
// them apart. The client connects for the first request, and again for the first request after a loss. Requests
// that are outstanding at a loss fail with UNAVAILABLE. The client never repeats them by itself, because a SEND may
// have taken effect. The actor runs on its event loop, so frames need no lock.

import MartletBase
import MartletWire
import NIOCore

actor RequestClient: RequestPerformer {
    typealias Failure = any Error
    typealias Answer = CheckedContinuation<BrokerFrame, any Error>
    /// A caller that waits. When the caller's task is cancelled, the caller leaves by its number.
    private typealias Waiter<Value> = (
        number: UInt64, continuation: CheckedContinuation<Value, any Error>
    )

    private enum State {
        /// No connection, and no request waits for a connection. Can transition to: waiting, opening, closed.
        case idle
        /// A pause before the next attempt. Can transition to: opening, closed.
        case waiting(Scheduled<Void>)
        /// HELLO is out or about to be. Can transition to: open, waiting, idle, closed.
        case opening
        /// The connection is open. Can transition to: idle, closed.
        case open(Link)
        /// Closed by the owner. Final.
        case closed
    }

    nonisolated let eventLoop: any EventLoop
    private nonisolated let executor: any SerialExecutor
    /// The actor keeps the executor, so the executor outlives every use of the reference.
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    nonisolated let dialer: Dialer
    nonisolated let hello: Hello
    private let attemptsMax: Int
    private var backoff: Backoff
    private var random = SystemRandomNumberGenerator()
    private var state = State.idle
    private var connections: UInt64 = 0
    /// Attempts that failed since a caller began to wait for a connection.
    private var failures = 0
    private var requests = RequestTable<Answer>()
    /// Links after DRAINING. Answers may still arrive on them.
    private var draining: [UInt64: Link] = [:]
    private var drainDelay: Duration?
    private var openWaiters: [Waiter<Link>] = []
    private var outstanding = 0
    private var slotWaiters: [Waiter<Void>] = []
    private var waitersEver: UInt64 = 0

    init(dialer: Dialer, hello: Hello, backoff: Backoff, attemptsMax: Int) {
        self.dialer = dialer
        self.hello = hello
        self.backoff = backoff
        self.attemptsMax = attemptsMax
        eventLoop = dialer.eventLoop
        executor = dialer.eventLoop.executor
    }

    deinit {
        if case .open(let link) = state { link.channel.close(promise: nil) }
        for link in draining.values { link.channel.close(promise: nil) }
    }

    /// Opens the connection unless it is open.
    /// - Returns: the broker's WELCOME.
    func connect() async throws -> Welcome { try await link().welcome }

    /// Sends a request and waits for the answer. If the connection already has the allowed number of outstanding
    /// requests, the call first waits for one of them to end.
    func request(_ make: @Sendable (UInt32) -> ClientFrame) async throws -> BrokerFrame {
        try await takeSlot()
        defer { giveSlot() }
        let link = try await link()
        let correlation = requests.nextCorrelation()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (answer: Answer) in
                do {
                    try link.handler.value.send(make(correlation))
                    requests.insert(answer, correlation: correlation, connection: link.connection)
                } catch {
                    answer.resume(throwing: error)
                }
            }
        } onCancel: {
            Task { await self.cancel(correlation) }
        }
    }

    /// Sends a request of `FrameType.requests` and waits for the answer.
    func ask<Request: WireRequest>(_ request: Request) async throws -> Request.Answer {
        let frame = try await self.request { correlation in
            var request = request
            request.correlation = correlation
            return .request(request)
        }
        guard let answer = frame.answer(as: Request.Answer.self) else { throw unexpected(frame) }
        return answer
    }

    /// Closes the client for good.
    func close() {
        if case .waiting(let timer) = state { timer.cancel() }
        var links = Array(draining.values)
        if case .open(let link) = state { links.append(link) }
        state = .closed
        for link in links { link.handler.value.close() }
        failWaiters(Self.closed)
    }

    private func cancel(_ correlation: UInt32) {
        requests.remove(correlation)?.resume(throwing: CancellationError())
    }

    // MARK: The bound on outstanding requests

    private func takeSlot() async throws {
        guard outstanding >= RequestTable<Answer>.outstandingMax else {
            outstanding += 1
            return
        }
        waitersEver += 1
        let number = waitersEver
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { slotWaiters.append((number, $0)) }
        } onCancel: {
            Task { await self.leave(number) }
        }
    }

    private func giveSlot() {
        if slotWaiters.isEmpty {
            outstanding -= 1
        } else {
            slotWaiters.removeFirst().continuation.resume()
        }
    }

    /// Ends the wait of a cancelled task.
    private func leave(_ number: UInt64) {
        if let index = slotWaiters.firstIndex(where: { $0.number == number }) {
            slotWaiters.remove(at: index).continuation.resume(throwing: CancellationError())
        }
        if let index = openWaiters.firstIndex(where: { $0.number == number }) {
            openWaiters.remove(at: index).continuation.resume(throwing: CancellationError())
        }
    }

    // MARK: Opening

    private func link() async throws -> Link {
        switch state {
        case .open(let link): return link
        case .closed: throw Self.closed
        case .idle: begin()
        case .waiting, .opening: break
        }
        waitersEver += 1
        let number = waitersEver
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { openWaiters.append((number, $0)) }
        } onCancel: {
            Task { await self.leave(number) }
        }
    }

    /// Begins the attempts of a caller: at once after a success, else after a pause.
    private func begin() {
        failures = 0
        if let delay = drainDelay {
            drainDelay = nil
            wait(Backoff.part(of: delay, using: &random))
        } else if backoff.attempts > 0 {
            wait(Backoff.part(of: backoff.longestNext, using: &random))
        } else {
            open()
        }
    }

    private func wait(_ pause: Duration) {
        state = .waiting(
            eventLoop.scheduleTask(in: TimeAmount(pause)) { [weak self] in
                self?.assumeIsolated { client in client.open() }
            })
    }

    private func open() {
        if case .closed = state { return }
        state = .opening
        connections += 1
        dialer.open(hello, connection: connections, owner: self)
    }

    private func failWaiters(_ error: MartletError) {
        let waiters = openWaiters
        openWaiters = []
        for waiter in waiters { waiter.continuation.resume(throwing: error) }
    }

    static let closed = MartletError(.unavailable, "This client is closed; make another.")
}

extension RequestClient: ConnectionOwner {
    nonisolated func connectionOpened(_ link: Link) {
        assumeIsolated { client in client.opened(link) }
    }

    nonisolated func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {
        assumeIsolated { client in client.received(frame) }
    }

    nonisolated func connectionClosed(_ error: MartletError, connection: UInt64) {
        assumeIsolated { client in client.lost(error, connection: connection) }
    }

    private func opened(_ link: Link) {
        guard case .opening = state else { return link.channel.close(promise: nil) }
        backoff.succeeded()
        state = .open(link)
        let waiters = openWaiters
        openWaiters = []
        for waiter in waiters { waiter.continuation.resume(returning: link) }
    }

    private func received(_ frame: BrokerFrame) {
        if case .draining(let notice) = frame, case .open(let link) = state {
            draining[link.connection] = link
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
            state = .idle
        }
        guard let correlation = frame.correlation, let answer = requests.remove(correlation) else {
            return
        }
        if case .error(let refusal) = frame {
            answer.resume(throwing: refusal.error)
        } else {
            answer.resume(returning: frame)
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        draining.removeValue(forKey: connection)
        for answer in requests.removeAll(ofConnection: connection) {
            answer.resume(throwing: error)
        }
        switch state {
        case .open(let link) where link.connection == connection:
            state = .idle
        case .opening where connection == connections:
            let pause = backoff.next(notBefore: error.retryDelayMilliseconds, using: &random)
            failures += 1
            if error.isFinal || failures >= attemptsMax {
                state = .idle
                failWaiters(error)
            } else {
                wait(pause)
            }
        case .idle, .waiting, .opening, .open, .closed: break
        }
    }
}
