// SPDX-License-Identifier: Apache-2.0
//
// DEV-2: a device subscribes and unsubscribes itself, tries again where that can help, and says at its
// start what was asked for in earlier runs. Subscribing twice is one subscription, so these are repeated
// after a loss, unlike a SEND. Rests on `TopicWishes`, which knows who asked last.

import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// Refusals that wait for one listener; the oldest are forgotten first.
    private static var refusalsMax: Int { 100 }

    /// DEV-2: subscribes this instance, once its store knows that it was asked for. After a loss or
    /// a quota refusal it is tried again, later each time and not before the broker wishes,
    /// `attemptsMax` times; then the last error is thrown. Until it is refused for good
    /// (INVALID_ARGUMENT, TOO_MANY_TOPICS) it stays in `askedTopics`.
    public func subscribe(toTopic topic: String) async throws {
        try await change(.subscribe, topic)
    }

    /// DEV-2: unsubscribes this instance. As `subscribe(toTopic:)`; of two calls for one topic the later
    /// one holds, and the earlier is not tried again.
    public func unsubscribe(fromTopic topic: String) async throws {
        try await change(.unsubscribe, topic)
    }

    /// DEV-2: what the application has asked for and is to hold; for `init` of the next run, where
    /// no store keeps it.
    public var askedTopics: AskedTopics { topics.asked }

    /// DEV-2: everything of an earlier run that the broker refuses for good from now on. Each call makes a
    /// sequence of its own; it ends with the device. Refusals in this run are thrown to whoever asked.
    public func topicRefusals() -> AsyncStream<TopicRefusal> {
        let (stream, listener) = AsyncStream.makeStream(
            of: TopicRefusal.self, bufferingPolicy: .bufferingNewest(Self.refusalsMax))
        if case .ended = state {
            listener.finish()
            return stream
        }
        waitersEver += 1
        let number = waitersEver
        refusalListeners[number] = listener
        listener.onTermination = { [weak self] _ in
            Task { await self?.removeRefusalListener(number) }
        }
        return stream
    }

    private func removeRefusalListener(_ number: UInt64) { refusalListeners[number] = nil }

    // MARK: What is asked for now

    private func change(_ operation: TopicOperation, _ topic: String) async throws {
        let name = try TopicName(validating: topic).text
        let earlier = topics.last(about: name)
        let wish = topics.ask(operation, name)
        do {
            try await save()
        } catch {
            topics.takeBack(wish, for: earlier)
            throw error
        }
        guard topics.isLast(wish) else {
            throw MartletError(
                .replaced, "A later call for this topic came before the broker was told.",
                field: "topic")
        }
        defer { saveSoon() }
        var backoff = options.backoff
        while true {
            do {
                try await changeOnce(operation, name)
                return topics.done(wish)
            } catch let error as MartletError {
                if case .ended = state { throw error }
                if error.isFinal {
                    // Under another token it may well be possible.
                    if error.word != .unregistered { topics.forget(wish) }
                    throw error
                }
                guard backoff.attempts + 1 < options.attemptsMax else { throw error }
                try await Task.sleep(
                    for: backoff.next(notBefore: error.retryDelayMilliseconds, using: &random))
                guard topics.isLast(wish) else { throw error }
            }
        }
    }

    private func changeOnce(_ operation: TopicOperation, _ topic: String) async throws {
        let answer = try await request { correlation in
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: operation, correlation: correlation, topics: [topic]))
        }
        guard case .topicResult(let result) = answer else { throw unexpected(answer) }
        if let failure = result.failures.first { throw Self.refusal(operation, failure.word) }
    }

    private static func refusal(_ operation: TopicOperation, _ word: ErrorWord) -> MartletError {
        MartletError(word, "The broker refused to \(operation) this device.", field: "topic")
    }

    // MARK: What was asked for in earlier runs

    /// Says the next part of it, unless one is out or waits for its time. Goes on until the broker has
    /// answered everything, over as many connections as that takes.
    func ensureTopics(on link: Link) {
        guard topicsTold == nil, topicTimer == nil else { return }
        // Beside the names there are a type, a correlation and a count.
        let wishes = topics.next(bytesMax: Int(clamping: link.welcome.frameBytesMax) - 16)
        guard let operation = wishes.first?.operation else { return }
        let correlation = nextCorrelation()
        let frame = DeviceTopicsRequest(
            operation: operation, correlation: correlation, topics: wishes.map(\.topic))
        guard (try? link.handler.value.send(.deviceTopics(frame))) != nil else { return }
        topicsTold = (correlation, wishes)
    }

    func answered(_ wishes: [TopicWishes.Wish], by frame: BrokerFrame, on link: Link) {
        let error: MartletError?
        switch frame {
        case .topicResult(let result): error = settle(wishes, result)
        case .error(let refusal) where refusal.error.isFinal:
            error = nil
            for wish in wishes {
                tell(wish, refusal.error)
                topics.giveUp(wish)
            }
        case .error(let refusal): error = refusal.error
        default:
            error = nil
            for wish in wishes {
                tell(wish, unexpected(frame))
                topics.giveUp(wish)
            }
        }
        guard let error else {
            topicBackoff.succeeded()
            return ensureTopics(on: link)
        }
        let pause = topicBackoff.next(notBefore: error.retryDelayMilliseconds, using: &random)
        topicTimer = eventLoop.scheduleTask(in: TimeAmount(pause)) { [weak self] in
            self?.assumeIsolated { device in
                device.topicTimer = nil
                if case .open(let link) = device.state { device.ensureTopics(on: link) }
            }
        }
    }

    /// - Returns: why some of it is to be said again; nil if nothing is.
    private func settle(_ wishes: [TopicWishes.Wish], _ result: TopicResult) -> MartletError? {
        var failures: [Int: ErrorWord] = [:]
        for failure in result.failures { failures[Int(failure.index)] = failure.word }
        var last: MartletError?
        // What was asked for anew meanwhile is said by whoever asked.
        for (index, wish) in wishes.enumerated() where topics.isLast(wish) {
            guard let word = failures[index] else {
                topics.done(wish)
                continue
            }
            let error = Self.refusal(wish.operation, word)
            if error.isFinal {
                tell(wish, error)
                topics.forget(wish)
            } else {
                last = error
            }
        }
        saveSoon()
        return last
    }

    private func tell(_ wish: TopicWishes.Wish, _ error: MartletError) {
        let refusal = TopicRefusal(topic: wish.topic, operation: wish.operation, error: error)
        for listener in refusalListeners.values { listener.yield(refusal) }
    }
}
