// SPDX-License-Identifier: Apache-2.0
//
// Lets a device subscribe and unsubscribe itself, retries what a retry can help, and repeats at start what earlier runs asked
// for (DEV-2). Subscribing twice gives one subscription, so these requests are repeated after a loss, unlike a SEND. Rests on
// `TopicWishes`, which knows the latest wish about each topic.

import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// Refusals that may wait for a listener. At the bound the oldest refusal is dropped.
    private static var refusalsMax: Int { 100 }

    /// DEV-2: subscribes this instance, after the store has the wish. After a loss or a quota refusal the device
    /// repeats the request, up to `attemptsMax` attempts, with growing pauses and not before the delay that the
    /// broker asks for. The wish stays in `askedTopics` until the broker refuses for good (INVALID_ARGUMENT,
    /// TOO_MANY_TOPICS).
    /// - Throws: the error of the last attempt.
    public func subscribe(toTopic topic: String) async throws {
        try await change(.subscribe, topic)
    }

    /// DEV-2: unsubscribes this instance, with the attempts and errors of `subscribe(toTopic:)`. The later of two
    /// calls for a topic wins, and the earlier call is not repeated.
    public func unsubscribe(fromTopic topic: String) async throws {
        try await change(.unsubscribe, topic)
    }

    /// DEV-2: wishes of the application that still hold, for `init` of the next run. A store keeps the wishes by
    /// itself.
    public var askedTopics: AskedTopics { topics.asked }

    /// DEV-2: wishes of an earlier run that the broker refuses for good after the call. Each call makes a new
    /// sequence, which ends with the device. Refusals of wishes from this run are thrown to the caller.
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

    // MARK: Wishes of this run

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
                    // UNREGISTERED does not forget the wish, because a device with another token may succeed.
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

    // MARK: Wishes of earlier runs

    /// Sends the next part of the unsaid wishes, unless a part is unanswered or a pause runs. The parts continue
    /// over as many connections as the broker needs to answer all wishes.
    func ensureTopics(on link: Link) {
        guard topicsTold == nil, topicTimer == nil else { return }
        // 16 bytes cover the type, the correlation and the count.
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

    /// - Returns: the error after which some wishes must be repeated; nil if all are settled.
    private func settle(_ wishes: [TopicWishes.Wish], _ result: TopicResult) -> MartletError? {
        var failures: [Int: ErrorWord] = [:]
        for failure in result.failures { failures[Int(failure.index)] = failure.word }
        var last: MartletError?
        // A wish that the application has replaced meanwhile is settled by the newer call.
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
