// SPDX-License-Identifier: Apache-2.0
//
// The messages of a project's devices as an embedder takes them (UPS-1). It listens beside the
// senders that are connected, each in its turn, and what it has not taken when it ends goes to
// another. Rests on Broker.

import MartletEngine
import Synchronization

/// See `Broker.upstreamMessages(in:)`.
public struct UpstreamSequence: AsyncSequence, Sendable {
    public typealias Element = DeviceMessage
    public typealias Failure = any Error

    let broker: Broker
    let project: String

    public func makeAsyncIterator() -> Iterator { Iterator(broker: broker, project: project) }

    public struct Iterator: AsyncIteratorProtocol {
        /// Messages that are taken in one write, while more wait.
        private static let takenTogetherMax = 10
        /// How long the first of them waits: far shorter than a message may take.
        private static let takenTogether = Duration.seconds(1)

        private let broker: Broker
        private let project: String
        private var feed: UpstreamFeed?
        private var last: UInt64?

        init(broker: Broker, project: String) {
            self.broker = broker
            self.project = project
        }

        /// Says that all messages so far were taken, where no other is asked for.
        public mutating func take() async throws {
            noteTaken()
            guard let feed, let taken = feed.taken else { return }
            _ = try await broker.perform(
                .takeUpstream(project: feed.project, numbers: taken.numbers))
            feed.settle(taken.numbers.count)
        }

        /// Says that the message before was taken, and waits for the next. nil when the task is
        /// cancelled.
        public mutating func next() async throws -> DeviceMessage? {
            noteTaken()
            let feed = try listening()
            // What was taken must not wait for what may never come.
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

/// One listener in this process. It listens as long as it lives.
private final class UpstreamFeed: Sendable {
    private typealias Waiter = CheckedContinuation<UpstreamMessage?, Never>

    private struct State {
        var listener: UInt64 = 0
        /// Handed to it; less than a window.
        var waiting: [UpstreamMessage] = []
        var waiter: Waiter?
        /// Taken by the application, and not in the store yet.
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

    /// Nobody waits for the end of the iteration, so nobody is told if this could not be stored:
    /// then it comes again.
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

    /// The first so many of them are in the store.
    func settle(_ count: Int) {
        state.withLock { state in
            state.taken?.numbers.removeFirst(count)
            if state.taken?.numbers.isEmpty ?? false { state.taken = nil }
        }
    }

    var isEmpty: Bool { state.withLock { $0.waiting.isEmpty } }

    /// No messages: none will come any more.
    private func received(_ messages: [UpstreamMessage]) {
        let (waiter, first) = state.withLock { state -> (Waiter?, UpstreamMessage?) in
            state.waiting += messages
            state.isClosed = state.isClosed || messages.isEmpty
            guard let waiter = state.waiter else { return (nil, nil) }
            state.waiter = nil
            return (waiter, state.waiting.isEmpty ? nil : state.waiting.removeFirst())
        }
        waiter?.resume(returning: first)
    }

    /// nil if the task is cancelled, or the broker closed.
    func next() async -> UpstreamMessage? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: Waiter) in
                let first = state.withLock { state -> UpstreamMessage?? in
                    if !state.waiting.isEmpty { return state.waiting.removeFirst() }
                    if state.isClosed || Task.isCancelled { return .some(nil) }
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
