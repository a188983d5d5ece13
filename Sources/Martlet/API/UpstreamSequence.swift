// SPDX-License-Identifier: Apache-2.0
//
// The messages of a project's devices for an embedder (UPS-1). An iteration is a listener beside the connected
// senders, and listeners take turns. At the end of an iteration, its unconfirmed messages go to another
// listener. Rests on Broker.

import MartletCommitter
import MartletEngine
import MartletThreads
public import MartletWire
import Synchronization

/// The messages of a project's devices: see `Broker.upstreamMessages(in:)`.
public struct UpstreamSequence: AsyncSequence, Sendable {
    /// A message of a device.
    public typealias Element = DeviceMessage
    /// `MartletError`, thrown by the iterator.
    public typealias Failure = any Error

    let broker: Broker
    let project: String

    /// Makes an iterator from the oldest unconfirmed message on. The first `next()` begins to listen.
    public func makeAsyncIterator() -> Iterator { Iterator(broker: broker, project: project) }

    /// A listener for messages, from the first `next()` to the end of the iteration. Unconfirmed messages then go to
    /// another listener.
    public struct Iterator: AsyncIteratorProtocol {
        /// Confirmations in one write, while more messages wait.
        private static let takenTogetherMax = 10
        /// Longest wait of the first confirmation. The value is far below the time after which an unconfirmed
        /// message goes to another listener.
        private static let takenTogether = Duration.seconds(1)

        private let broker: Broker
        private let project: String
        private var feed: UpstreamFeed?
        private var last: UInt64?

        init(broker: Broker, project: String) {
            self.broker = broker
            self.project = project
        }

        /// Confirms all messages returned so far, without asking for the next message.
        /// - Throws: `MartletError` if the confirmation could not be stored.
        public mutating func take() async throws {
            noteTaken()
            guard let feed, let taken = feed.taken else { return }
            _ = try await broker.perform(
                .takeUpstream(project: feed.project, numbers: taken.numbers))
            feed.settle(taken.numbers.count)
        }

        /// Confirms the message returned before, and waits for the next message. Copies of an iterator must not wait
        /// at the same time.
        /// - Returns: nil when the task is cancelled.
        /// - Throws: `NOT_FOUND` for the project, `UNAVAILABLE` if the broker is closed.
        public mutating func next() async throws -> DeviceMessage? {
            noteTaken()
            let feed = try listening()
            // Confirmations must not wait for a message that may never come.
            if let taken = feed.taken,
                feed.isEmpty || taken.numbers.count >= Self.takenTogetherMax
                    || ContinuousClock.now - taken.since >= Self.takenTogether
            {
                try await take()
            }
            guard let message = await feed.next() else {
                if Task.isCancelled { return nil }
                throw MartletError(.unavailable, "The broker is closed.")
            }
            last = message.number
            return try DeviceMessage(message)
        }

        private mutating func noteTaken() {
            guard let number = last else { return }
            last = nil
            feed?.noteTaken(number)
        }

        private mutating func listening() throws(MartletError) -> UpstreamFeed {
            if let feed { return feed }
            let new = UpstreamFeed(broker.committer, try broker.number(of: project))
            feed = new
            return new
        }
    }
}

/// A listener of this process, from `init` to `deinit`.
private final class UpstreamFeed: Sendable {
    private typealias Waiter = CheckedContinuation<UpstreamMessage?, Never>

    private struct State {
        var listener: UInt64 = 0
        /// Messages handed to the listener and not asked for yet, at most `Limits.upstreamWindow`
        /// (`boundWaiting`).
        var waiting: [UpstreamMessage] = []
        var waiter: Waiter?
        /// Messages confirmed by the application and not yet in the store, and the time of the first
        /// confirmation.
        var taken: (numbers: [UInt64], since: ContinuousClock.Instant)?
        var isClosed = false
    }

    let project: ProjectNumber
    private let committer: Committer
    private let state = Mutex(State())

    init(_ committer: Committer, _ project: ProjectNumber) {
        self.committer = committer
        self.project = project
        let listener = committer.upstream.listen(
            to: project, .caller { [weak self] messages in self?.received(messages) })
        state.withLock { $0.listener = listener }
        committer.wake()
    }

    /// Hands over the last confirmations. The end of an iteration has no caller to report to: if the store
    /// refuses the confirmations, the messages come again.
    deinit {
        let (listener, taken) = state.withLock { ($0.listener, $0.taken) }
        if let taken {
            _ = committer.inbox.push([
                Request(
                    command: .takeUpstream(project: project, numbers: taken.numbers),
                    reply: .caller { _ in })
            ])
        }
        committer.upstream.leave(listener)
        committer.wake()
    }

    var taken: (numbers: [UInt64], since: ContinuousClock.Instant)? {
        state.withLock { $0.taken }
    }

    func noteTaken(_ number: UInt64) {
        state.withLock { state in
            if state.taken == nil { state.taken = ([], ContinuousClock.now) }
            state.taken?.numbers.append(number)
        }
    }

    /// Removes the first `count` confirmations, because the store has applied them.
    func settle(_ count: Int) {
        state.withLock { state in
            state.taken?.numbers.removeFirst(count)
            if state.taken?.numbers.isEmpty ?? false { state.taken = nil }
        }
    }

    var isEmpty: Bool { state.withLock { $0.waiting.isEmpty } }

    /// Takes messages from the committer. An empty list means that no more messages come.
    private func received(_ messages: [UpstreamMessage]) {
        let (waiter, first) = state.withLock { state -> (Waiter?, UpstreamMessage?) in
            state.waiting += messages
            state.isClosed = state.isClosed || messages.isEmpty
            guard let waiter = state.waiter else { return (nil, nil) }
            state.waiter = nil
            return (waiter, state.waiting.isEmpty ? nil : state.waiting.removeFirst())
        }
        waiter?.resume(returning: first)
        boundWaiting()
    }

    /// Drops waiting messages that other listeners have acknowledged. A message leaves the listener's window with
    /// such an acknowledgement, so more messages than a window may have come.
    private func boundWaiting() {
        let (listener, count) = state.withLock { ($0.listener, $0.waiting.count) }
        guard count > Limits.upstreamWindow else { return }
        let held = committer.upstream.held(by: listener)
        state.withLock { $0.waiting.removeAll { !held.contains($0.number) } }
    }

    /// Waits for the next message. The result is nil if the task is cancelled or the broker is closed.
    func next() async -> UpstreamMessage? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: Waiter) in
                let first = state.withLock { state -> UpstreamMessage?? in
                    if !state.waiting.isEmpty { return state.waiting.removeFirst() }
                    if state.isClosed || Task.isCancelled { return .some(nil) }
                    guard state.waiter == nil else {
                        fatalError(
                            "next() was called while a copy of the iterator waits in next().")
                    }
                    state.waiter = waiter
                    return nil
                }
                if let first { waiter.resume(returning: first) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: nil)
        }
    }
}

extension DeviceMessage {
    init(_ message: UpstreamMessage) throws(MartletError) {
        do throws(WireError) {
            try self.init(UpstreamDelivery(message))
        } catch {
            throw error.martletError
        }
    }
}
