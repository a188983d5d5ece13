// SPDX-License-Identifier: Apache-2.0
//
// The messages of a project's devices, one by one, each until it is taken (UPS-1). On a connection
// of its own, for the reason that receipts have one. What was taken is acknowledged by its number,
// so it does not matter in which order; what the broker has not heard of on a connection that was
// lost comes again, here or to another sender, and is known by its number. It runs on its
// connection's event loop and has no task of its own.

public import MartletBase
public import MartletWire
import NIOCore

/// UPS-1: what a device sent to its project.
public struct UpstreamMessage: Sendable, Hashable {
    /// Its place among the messages of the project's devices. Whatever comes twice has the same.
    public var number: UInt64
    /// The instance that sent it, by the last token that is known.
    public var token: String
    /// The device's application: a package name or bundle ID.
    public var appName: String
    /// The device's own.
    public var messageID: String
    public var accepted: Instant
    /// The same as `accepted` if it was for now or never.
    public var expires: Instant
    public var data: [Message.DataEntry]

    /// The value of a data key.
    public subscript(key: String) -> String? { data.first { $0.key == key }?.value }
}

extension MartletSender {
    /// See `upstreamMessages`.
    public struct UpstreamMessages: AsyncSequence, Sendable {
        public typealias Element = UpstreamMessage
        public typealias Failure = any Error

        let client: RequestClient

        public func makeAsyncIterator() -> Iterator {
            Iterator(feed: UpstreamFeed(dialer: client.dialer, hello: client.hello))
        }

        public struct Iterator: AsyncIteratorProtocol {
            let feed: UpstreamFeed
            private var last: UpstreamMessage?

            init(feed: UpstreamFeed) { self.feed = feed }

            /// Says that the message before was taken, and waits for the next. nil when the task is
            /// cancelled.
            public mutating func next() async throws -> UpstreamMessage? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.number)
                return last
            }

            /// Says that the last message was taken, where no other is asked for.
            public mutating func take() async {
                guard let taken = last else { return }
                last = nil
                await feed.take(taken.number)
            }
        }
    }
}

/// Which messages came, and what became of them here. Pure.
package struct UpstreamLedger: Sendable {
    /// Numbers that were taken and are remembered, for they may come once more: some windows.
    package static let takenMax = 1000

    /// Came, and were not taken yet.
    private var outstanding: Set<UInt64> = []
    private var taken: Set<UInt64> = []
    /// The same in their order.
    private var order: [UInt64] = []

    package enum Arrival: Sendable {
        case new
        /// It waits here, or the application has it.
        case outstanding
        /// The broker has not heard that it was taken.
        case taken
    }

    package init() {}

    package mutating func receive(_ number: UInt64) -> Arrival {
        if taken.contains(number) { return .taken }
        return outstanding.insert(number).inserted ? .new : .outstanding
    }

    /// It was given back before the application had it.
    package mutating func forget(_ number: UInt64) { outstanding.remove(number) }

    package mutating func take(_ number: UInt64) {
        guard outstanding.remove(number) != nil else { return }
        taken.insert(number)
        order.append(number)
        guard order.count > 2 * Self.takenMax else { return }
        taken.subtract(order.prefix(Self.takenMax))
        order.removeFirst(Self.takenMax)
    }
}

actor UpstreamFeed {
    private typealias Taker = CheckedContinuation<UpstreamMessage?, any Error>

    private enum State {
        /// Nobody has asked yet. Can transition to: opening.
        case idle
        /// A pause before the next attempt. Can transition to: opening.
        case waiting(Scheduled<Void>)
        /// Can transition to: open, waiting, ended.
        case opening
        /// Can transition to: waiting, ended.
        case open(Link)
        /// Refused for good. Final.
        case ended(MartletError)
    }

    /// The one request of this connection.
    private static let correlation: UInt32 = 1

    private nonisolated let executor: any SerialExecutor
    /// The executor is kept by this actor, so it outlives every use of the reference.
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private let dialer: Dialer
    private let hello: Hello
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var state = State.idle
    private var connections: UInt64 = 0
    private var drainDelay: Duration?
    /// A window of each connection at most: what a lost one brought is dropped.
    private var waiting: [UpstreamMessage] = []
    private var taker: (number: UInt64, taker: Taker)?
    private var takersEver: UInt64 = 0
    private var ledger = UpstreamLedger()
    /// Came on this connection, and was not acknowledged on it.
    private var here: Set<UInt64> = []

    init(dialer: Dialer, hello: Hello) {
        self.dialer = dialer
        self.hello = hello
        executor = dialer.eventLoop.executor
    }

    deinit {
        switch state {
        case .open(let link):
            // The acknowledgement of the last message may still be on its way out.
            let handler = link.handler
            link.channel.eventLoop.execute { handler.value.close() }
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
    }

    func next(after taken: UInt64?) async throws -> UpstreamMessage? {
        if let taken { take(taken) }
        if case .idle = state { open() }
        if !waiting.isEmpty { return waiting.removeFirst() }
        if case .ended(let error) = state { throw error }
        takersEver += 1
        let number = takersEver
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { taker = (number, $0) }
        } onCancel: {
            Task { await self.cancel(number) }
        }
    }

    func take(_ number: UInt64) {
        ledger.take(number)
        acknowledge(number)
    }

    private func cancel(_ number: UInt64) {
        guard let waiter = taker, waiter.number == number else { return }
        taker = nil
        waiter.taker.resume(returning: nil)
    }

    /// What came on another connection comes again on this one, or went to another sender.
    private func acknowledge(_ number: UInt64) {
        guard case .open(let link) = state, here.remove(number) != nil else { return }
        try? link.handler.value.send(
            .upstreamAcknowledge(UpstreamAcknowledge(numbers: [number])))
    }

    private func open() {
        if case .ended = state { return }
        state = .opening
        connections += 1
        dialer.open(hello, connection: connections, owner: self)
    }
}

extension UpstreamFeed: ConnectionOwner {
    nonisolated func connectionOpened(_ link: Link) {
        assumeIsolated { feed in feed.opened(link) }
    }

    nonisolated func connectionReceived(_ frame: BrokerFrame, connection: UInt64) {
        assumeIsolated { feed in feed.received(frame, connection: connection) }
    }

    nonisolated func connectionClosed(_ error: MartletError, connection: UInt64) {
        assumeIsolated { feed in feed.lost(error, connection: connection) }
    }

    private func opened(_ link: Link) {
        guard case .opening = state, link.connection == connections else {
            return link.channel.close(promise: nil)
        }
        state = .open(link)
        here = []
        try? link.handler.value.send(
            .listenUpstream(ListenUpstreamRequest(correlation: Self.correlation)))
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        switch frame {
        case .done: backoff.succeeded()
        case .upstreamMessage(let message): received(message)
        case .draining(let notice):
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
        case .error(let refusal):
            link.channel.close(promise: nil)
            lost(refusal.error, connection: connection)
        default: break
        }
    }

    private func received(_ delivery: UpstreamDelivery) {
        here.insert(delivery.number)
        switch ledger.receive(delivery.number) {
        case .new: break
        case .outstanding: return
        case .taken: return acknowledge(delivery.number)
        }
        guard let content = try? Message(decoding: delivery.message, unknownTags: .skip) else {
            // Nobody can read it, now or later: it must not come again and again.
            return take(delivery.number)
        }
        let message = UpstreamMessage(
            number: delivery.number, token: delivery.token, appName: delivery.appName,
            messageID: delivery.messageID, accepted: delivery.accepted, expires: delivery.expires,
            data: content.data)
        if let waiter = taker {
            taker = nil
            waiter.taker.resume(returning: message)
        } else {
            waiting.append(message)
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        switch state {
        case .opening, .open: break
        case .idle, .waiting, .ended: return
        }
        // Another sender may have them by now.
        for message in waiting { ledger.forget(message.number) }
        waiting = []
        here = []
        if error.isFinal {
            state = .ended(error)
            taker?.taker.resume(throwing: error)
            taker = nil
            return
        }
        var pause = backoff.next(notBefore: error.retryDelayMilliseconds, using: &random)
        if let delay = drainDelay { pause = Backoff.part(of: delay, using: &random) }
        drainDelay = nil
        state = .waiting(
            dialer.eventLoop.scheduleTask(in: TimeAmount(pause)) { [weak self] in
                self?.assumeIsolated { feed in feed.open() }
            })
    }
}
