// SPDX-License-Identifier: Apache-2.0
//
// The receipts of a project, one by one, each until it is taken (RCP-1). On a connection of its own: while
// nobody takes receipts it is not read, and that must hold up no answer of the sender's. It runs on its
// connection's event loop and has no task of its own.

public import MartletBase
import MartletWire
import NIOCore

/// RCP-2: what became of a message on a device.
public struct Receipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// The instance that tells.
    public var token: String
    public var kind: ReceiptKind
    /// When the broker got it.
    public var instant: Instant
    /// Its place among the project's receipts; they rise.
    public var eventID: UInt64
}

extension MartletSender {
    /// See `receipts`.
    public struct Receipts: AsyncSequence, Sendable {
        public typealias Element = Receipt
        public typealias Failure = any Error

        let projectID: String
        let client: RequestClient

        public func makeAsyncIterator() -> Iterator {
            Iterator(
                feed: ReceiptFeed(
                    projectID: projectID, dialer: client.dialer, hello: client.hello))
        }

        public struct Iterator: AsyncIteratorProtocol {
            let feed: ReceiptFeed
            private var last: Receipt?

            init(feed: ReceiptFeed) { self.feed = feed }

            /// Says that the receipt before was taken, and waits for the next. nil when the task is
            /// cancelled.
            public mutating func next() async throws -> Receipt? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.eventID)
                return last
            }

            /// Says that the last receipt was taken, where no other is asked for.
            public mutating func take() async {
                guard let taken = last else { return }
                last = nil
                await feed.take(taken.eventID)
            }
        }
    }
}

actor ReceiptFeed {
    private typealias Taker = CheckedContinuation<Receipt?, any Error>

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

    /// Receipts that wait to be taken; past it the socket is not read.
    private static let bufferedMax = 256
    /// The one request of this connection.
    private static let correlation: UInt32 = 1

    private nonisolated let executor: any SerialExecutor
    /// The executor is kept by this actor, so it outlives every use of the reference.
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private let projectID: String
    private let dialer: Dialer
    private let hello: Hello
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var state = State.idle
    private var connections: UInt64 = 0
    private var drainDelay: Duration?
    private var waiting: [Receipt] = []
    private var taker: (number: UInt64, taker: Taker)?
    private var takersEver: UInt64 = 0
    /// Highest that came: what comes again after a loss is known by it.
    private var receivedThrough: UInt64 = 0
    private var takenThrough: UInt64 = 0
    /// Highest that came on this connection: it can be told of no more than that.
    private var hereThrough: UInt64 = 0

    init(projectID: String, dialer: Dialer, hello: Hello) {
        self.projectID = projectID
        self.dialer = dialer
        self.hello = hello
        executor = dialer.eventLoop.executor
    }

    deinit {
        switch state {
        case .open(let link):
            // The acknowledgement of the last receipt may still be on its way out.
            let handler = link.handler
            link.channel.eventLoop.execute { handler.value.close() }
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
    }

    func next(after taken: UInt64?) async throws -> Receipt? {
        if let taken { take(taken) }
        if case .idle = state { open() }
        if !waiting.isEmpty {
            let receipt = waiting.removeFirst()
            if waiting.count * 2 <= Self.bufferedMax, case .open(let link) = state {
                link.handler.value.resume()
            }
            return receipt
        }
        if case .ended(let error) = state { throw error }
        takersEver += 1
        let number = takersEver
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { taker = (number, $0) }
        } onCancel: {
            Task { await self.cancel(number) }
        }
    }

    func take(_ eventID: UInt64) {
        takenThrough = max(takenThrough, eventID)
        acknowledge()
    }

    private func cancel(_ number: UInt64) {
        guard let waiter = taker, waiter.number == number else { return }
        taker = nil
        waiter.taker.resume(returning: nil)
    }

    private func acknowledge() {
        guard case .open(let link) = state, takenThrough > 0, takenThrough <= hereThrough else {
            return
        }
        try? link.handler.value.send(
            .receiptAcknowledge(ReceiptAcknowledge(through: takenThrough)))
    }

    private func open() {
        if case .ended = state { return }
        state = .opening
        connections += 1
        dialer.open(hello, connection: connections, owner: self)
    }
}

extension ReceiptFeed: ConnectionOwner {
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
        hereThrough = 0
        try? link.handler.value.send(
            .listenReceipts(ListenReceiptsRequest(correlation: Self.correlation)))
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        switch frame {
        case .done: backoff.succeeded()
        case .receiptEvent(let event): received(event, on: link)
        case .draining(let notice):
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
        case .error(let refusal):
            link.channel.close(promise: nil)
            lost(refusal.error, connection: connection)
        default: break
        }
    }

    private func received(_ event: ReceiptEvent, on link: Link) {
        hereThrough = event.eventID
        guard event.eventID > receivedThrough else {
            // It was taken on a connection that was lost, or since: the broker has not heard of that.
            if event.eventID == takenThrough { acknowledge() }
            return
        }
        receivedThrough = event.eventID
        let receipt = Receipt(
            messageID: MessageID.text(event.messageNumber, projectID: projectID),
            token: event.token, kind: event.kind, instant: event.instant, eventID: event.eventID)
        if let waiter = taker {
            taker = nil
            waiter.taker.resume(returning: receipt)
        } else {
            waiting.append(receipt)
            if waiting.count >= Self.bufferedMax { link.handler.value.pause() }
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        switch state {
        case .opening, .open: break
        case .idle, .waiting, .ended: return
        }
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
