// SPDX-License-Identifier: Apache-2.0
//
// A feed brings a project's receipts, or the messages of a project's devices, to a sender, each until the
// application has taken it. A feed needs a connection of its own: while the application takes no elements, the feed
// does not read the socket, and the sender's answers must not wait for the application. A feed runs on the
// connection's event loop and has no task. The feed's source knows the elements and their acknowledgements.

import MartletBase
import MartletWire
import NIOCore

/// Source of a feed: knows the elements and their acknowledgements. Pure.
protocol FeedSource: Sendable {
    associatedtype Element: Sendable

    /// Elements that may wait for the application. At this bound the feed stops reading the socket.
    static var bufferedMax: Int { get }
    /// The only request of a connection.
    static func listen(correlation: UInt32) -> ClientFrame
    /// Called when a connection has opened.
    mutating func connected()
    mutating func receive(_ frame: BrokerFrame) -> FeedArrival<Element>
    /// Called when the application has taken an element.
    /// - Returns: the acknowledgement for the broker; nil if the connection does not allow an acknowledgement.
    mutating func take(_ number: UInt64) -> ClientFrame?
    /// Called when the connection is lost.
    /// - Returns: the elements of `waiting` that continue to wait for the application.
    mutating func lost(_ waiting: [Element]) -> [Element]
}

enum FeedArrival<Element: Sendable>: Sendable {
    case element(Element)
    /// No element for the application, but an acknowledgement for the broker, as for a repeated element.
    case acknowledge(ClientFrame)
    case nothing
}

actor Feed<Source: FeedSource> {
    typealias Element = Source.Element
    private typealias Taker = CheckedContinuation<Element?, any Error>

    private enum State {
        /// No element has been asked for. Can transition to: opening.
        case idle
        /// A pause before the next attempt. Can transition to: opening.
        case waiting(Scheduled<Void>)
        /// HELLO is out or about to be. Can transition to: open, waiting, ended.
        case opening
        /// The connection is open. Can transition to: waiting, ended.
        case open(Link)
        /// The broker refused for good. Final.
        case ended(MartletError)
    }

    private nonisolated let executor: any SerialExecutor
    /// The actor keeps the executor, so the executor outlives every use of the reference.
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private var source: Source
    private let dialer: Dialer
    private let hello: Hello
    private var backoff = Backoff()
    private var random = SystemRandomNumberGenerator()
    private var state = State.idle
    private var connections: UInt64 = 0
    private var drainDelay: Duration?
    private var waiting: [Element] = []
    private var taker: (number: UInt64, taker: Taker)?
    private var takersEver: UInt64 = 0

    init(_ source: Source, of client: RequestClient) {
        self.source = source
        dialer = client.dialer
        hello = client.hello
        executor = client.dialer.eventLoop.executor
    }

    deinit {
        switch state {
        // The last element's acknowledgement may still wait for a flush, and `abandon` flushes first.
        case .open(let link): link.abandon()
        case .waiting(let timer): timer.cancel()
        case .idle, .opening, .ended: break
        }
    }

    /// Waits for the next element, for one caller at a time. Two callers would acknowledge each other's elements.
    /// - Parameter taken: number of the previous element, if the application has taken the element.
    func next(after taken: UInt64?) async throws -> Element? {
        if let taken { take(taken) }
        if case .idle = state { open() }
        if !waiting.isEmpty {
            let element = waiting.removeFirst()
            if waiting.count * 2 <= Source.bufferedMax, case .open(let link) = state {
                link.handler.value.resume()
            }
            return element
        }
        if case .ended(let error) = state { throw error }
        guard taker == nil else {
            fatalError("next() was called while a copy of the iterator waits in next().")
        }
        takersEver += 1
        let number = takersEver
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { taker = (number, $0) }
        } onCancel: {
            Task { await self.cancel(number) }
        }
    }

    func take(_ number: UInt64) {
        if let acknowledgement = source.take(number) { send(acknowledgement) }
    }

    private func cancel(_ number: UInt64) {
        guard let waiter = taker, waiter.number == number else { return }
        taker = nil
        waiter.taker.resume(returning: nil)
    }

    private func send(_ frame: ClientFrame) {
        if case .open(let link) = state { try? link.handler.value.send(frame) }
    }

    private func open() {
        if case .ended = state { return }
        state = .opening
        connections += 1
        dialer.open(hello, connection: connections, owner: self)
    }
}

extension Feed: ConnectionOwner {
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
        guard case .opening = state, link.connection == connections else { return link.abandon() }
        state = .open(link)
        source.connected()
        send(Source.listen(correlation: 1))
    }

    private func received(_ frame: BrokerFrame, connection: UInt64) {
        guard case .open(let link) = state, link.connection == connection else { return }
        switch frame {
        case .done: backoff.succeeded()
        case .draining(let notice):
            drainDelay = .milliseconds(Int64(notice.reconnectDelayMilliseconds))
        case .error(let refusal):
            link.abandon()
            lost(refusal.error, connection: connection)
        default:
            switch source.receive(frame) {
            case .element(let element): hand(element, on: link)
            case .acknowledge(let acknowledgement): send(acknowledgement)
            case .nothing: break
            }
        }
    }

    private func hand(_ element: Element, on link: Link) {
        if let waiter = taker {
            taker = nil
            waiter.taker.resume(returning: element)
        } else {
            waiting.append(element)
            if waiting.count >= Source.bufferedMax { link.handler.value.pause() }
        }
    }

    private func lost(_ error: MartletError, connection: UInt64) {
        guard connection == connections else { return }
        switch state {
        case .opening, .open: break
        case .idle, .waiting, .ended: return
        }
        waiting = source.lost(waiting)
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
