// SPDX-License-Identifier: Apache-2.0
//
// Changes subscriptions (TOP-1 … TOP-7, TOP-10, TOP-11). A transaction keeps two indexes in step: a topic's set of ordinals,
// and an instance's list of topics. The list decides whether anything changes. However many tokens a request has, it rewrites
// each set once. Each item counts towards the project's quota, even if it changes nothing (TOP-6); a request that is refused
// as a whole counts nothing.
//
// A request for many tokens is applied in steps, and after each the rest may be left to later transactions, because all
// projects share the committer's transactions and a thousand tokens take some milliseconds. The first step takes the quota
// for all, and the answer comes with the last. After a crash in between, part of an unanswered request has been applied;
// repeating the request changes nothing twice (TOP-7). Rests on the ledgers and ProjectQuotas.

import MartletBase
import MartletRows

extension Engine {
    /// Changes several topics of one instance (TOP-5).
    mutating func changeTopics(
        of ordinal: Ordinal, of holder: Holder?, in number: ProjectNumber,
        _ change: TopicOperation, names: [String], now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        guard (1...Limits.topicsPerDeviceRequestMax).contains(names.count) else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "A request names 1 to \(Limits.topicsPerDeviceRequestMax) topics.",
                    field: "topics"))
        }
        guard var project = try storage.projects.project(number),
            let instance = try storage.instances.instance(ordinal, in: number),
            holder == nil || holder == instance.holder
        else {
            return .refused(
                MartletError(.unregistered, "The instance is not registered.", field: "token"))
        }
        // The device's own bucket first: if it is refused, it takes nothing from the project's (TOP-11).
        if let delay = topicRates.delay(names.count, ordinal, in: number, at: now) {
            return .refused(tooManyChanges(after: delay))
        }
        do {
            try quotas.takeTopicChanges(
                names.count, in: number, perSecond: topicChangesPerSecond(of: project), at: now)
        } catch { return .refused(error) }
        topicRates.take(names.count, ordinal, in: number, at: now)
        let choice = try topicChoice(of: ordinal, change, in: number, storage)
        let topicsMax = topicsPerInstanceMax(of: project)
        var numbers = try storage.topics.topicNumbers(of: ordinal, in: number)
        var result = TopicChangeResult(successCount: 0, failures: [])
        for (index, text) in names.enumerated() {
            let name: TopicName
            do { name = try TopicName(validating: text) } catch {
                result.failures.append(.init(index: index, word: error.word))
                continue
            }
            let topic = try storage.topics.topic(named: name, in: number)
            let isSubscribed = topic.map { numbers.containsSorted($0.number.rawValue) } ?? false
            switch change {
            case .subscribe where !isSubscribed:
                // Repeating a subscription that it has takes neither permission nor room (TOP-7).
                guard choice.policy.allows(name, grants: choice.grants) else {
                    result.failures.append(.init(index: index, word: .permissionDenied))
                    continue
                }
                guard numbers.count < topicsMax else {
                    result.failures.append(.init(index: index, word: .tooManyTopics))
                    continue
                }
                guard let joined = try join(name, topic, [ordinal.rawValue], &project, storage)
                else {
                    result.failures.append(.init(index: index, word: .resourceExhausted))
                    continue
                }
                numbers.insertSorted(joined.rawValue)
            case .unsubscribe where isSubscribed:
                if let topic {
                    try leave(topic, [ordinal.rawValue], &project, storage)
                    numbers.removeSorted(topic.number.rawValue)
                }
            case .subscribe, .unsubscribe:
                break
            }
            result.successCount += 1
        }
        invariant(
            Int(result.successCount) + result.failures.count == names.count,
            "Each topic of a request has a result.")
        try storage.topics.setTopicNumbers(numbers, of: ordinal, in: number)
        try storage.projects.put(project, isNew: false)
        return .topicsChanged(result)
    }

    private func topicsPerInstanceMax(of project: Project) -> Int {
        project.limits[.topicsPerInstance] ?? limits.topicsPerInstanceMax
    }

    private func topicChangesPerSecond(of project: Project) -> Int {
        project.limits[.topicChangesPerSecond] ?? limits.topicChangesPerSecond
    }

    /// The topics that an instance may join itself. It may always leave (TOP-10).
    private func topicChoice(
        of ordinal: Ordinal, _ change: TopicOperation, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> (policy: TopicPolicy, grants: [String]) {
        guard change == .subscribe else { return (.all, []) }
        let policy = try storage.registrations.policies(of: project).topics
        guard policy != .all else { return (.all, []) }
        return (policy, try storage.registrations.grants(of: ordinal, in: project))
    }

    private func tooManyChanges(after milliseconds: UInt64) -> MartletError {
        MartletError(
            .quotaExceeded,
            """
            A device changes at most \(limits.deviceTopicBurst) subscriptions at a time \
            (device-topic-burst), and then one in \(limits.deviceTopicRefillSeconds) s; nothing of \
            this request was applied. Repeat it later.
            """, field: "topic", retryDelayMilliseconds: UInt32(clamping: milliseconds))
    }

    /// After so many tokens, some 100 microseconds, we ask whether to go on. A request with no more is never split.
    private static var tokensPerStep: Int { 64 }

    /// Changes one topic for up to 1000 tokens, or for as many of them as one transaction takes (TOP-4).
    func changeTopic(
        _ text: String, in number: ProjectNumber, _ change: TopicOperation, tokens: [String],
        _ progress: TopicChangeProgress, now: Instant,
        _ storage: borrowing Transaction, _ goesOn: () -> Bool
    ) throws(StorageError) -> Outcome {
        // Copies: with this many exits, the compiler takes seconds to check reads of a noncopyable value's properties.
        let (limits, quotas) = (self.limits, self.quotas)
        guard var project = try storage.projects.project(number) else {
            return .refused(.noProject)
        }
        let tokensMax = project.limits[.tokensPerTopicRequest] ?? limits.tokensPerTopicRequestMax
        // If it goes on, it was within the limit when it came.
        guard !tokens.isEmpty, tokens.count <= tokensMax || progress.doneCount > 0 else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    """
                    A request names 1 to \(tokensMax) tokens (tokens-per-topic-request); this one names \
                    \(tokens.count). Split it.
                    """, field: "tokens"))
        }
        let name: TopicName
        do { name = try TopicName(validating: text) } catch { return .refused(error) }
        let first = progress.doneCount
        if first == 0 {
            do {
                try quotas.takeTopicChanges(
                    tokens.count, in: number, perSecond: topicChangesPerSecond(of: project),
                    at: now)
            } catch { return .refused(error) }
        }

        let topicsMax = topicsPerInstanceMax(of: project)
        var topic = try storage.topics.topic(named: name, in: number)
        var (order, result) = (progress.order, progress.result)
        if first == 0, progress.stepMax < tokens.count {
            order = try inOrderOfOrdinals(tokens, storage)
        }
        invariant(first < tokens.count, "A topic change that goes on has tokens left.")
        invariant(
            order.isEmpty || order.count == tokens.count,
            "The order of a topic change has each token.")
        var changed: [UInt32] = []
        var end = first + min(max(progress.stepMax, 1), tokens.count - first)
        for place in first..<end {
            if place > first, (place - first) % Self.tokensPerStep == 0, !goesOn() {
                end = place
                break
            }
            let index = order.isEmpty ? place : Int(order[place])
            guard let token = Token(text: tokens[index]) else {
                result.failures.append(.init(index: index, word: .invalidArgument))
                continue
            }
            guard let place = try storage.instances.locate(token), place.project == number else {
                result.failures.append(.init(index: index, word: .notFound))
                continue
            }
            var numbers = try storage.topics.topicNumbers(of: place.ordinal, in: number)
            let isSubscribed = topic.map { numbers.containsSorted($0.number.rawValue) } ?? false
            switch change {
            case .subscribe where !isSubscribed:
                guard numbers.count < topicsMax else {
                    result.failures.append(.init(index: index, word: .tooManyTopics))
                    continue
                }
                let known: Topic
                if let topic {
                    known = topic
                } else {
                    guard let created = try create(name, &project, storage) else {
                        result.failures.append(.init(index: index, word: .resourceExhausted))
                        continue
                    }
                    known = created
                    topic = known
                }
                numbers.insertSorted(known.number.rawValue)
                try storage.topics.setTopicNumbers(numbers, of: place.ordinal, in: number)
                changed.append(place.ordinal.rawValue)
            case .unsubscribe where isSubscribed:
                if let topic { numbers.removeSorted(topic.number.rawValue) }
                try storage.topics.setTopicNumbers(numbers, of: place.ordinal, in: number)
                changed.append(place.ordinal.rawValue)
            case .subscribe, .unsubscribe:
                break
            }
            result.successCount += 1
        }
        invariant(
            Int(result.successCount) + result.failures.count == end,
            "Each token of a topic change has a result.")
        if let topic, !changed.isEmpty {
            changed.sort()
            switch change {
            case .subscribe: _ = try join(name, topic, changed, &project, storage)
            case .unsubscribe: try leave(topic, changed, &project, storage)
            }
            try storage.projects.put(project, isNew: false)
        }
        invariant(end > first, "Each step of a topic change takes a token.")
        guard end < tokens.count else {
            if !order.isEmpty { result.failures.sort { $0.index < $1.index } }
            return .topicsChanged(result)
        }
        var rest = progress
        rest.doneCount = end
        rest.order = order
        rest.result = result
        rest.stepMax = .max
        return .unfinished(
            .changeTopic(
                project: number, topic: text, change: change, tokens: tokens, progress: rest))
    }

    /// The tokens in the order of their ordinals. Neighbours have their rows in the same pages, so a split request writes
    /// fewer pages per transaction this way.
    /// - Returns: indexes of the tokens.
    private func inOrderOfOrdinals(
        _ tokens: [String], _ storage: borrowing Transaction
    ) throws(StorageError) -> [UInt16] {
        var ordinals: [UInt32] = []
        ordinals.reserveCapacity(tokens.count)
        for text in tokens {
            let place = try Token(text: text).flatMap { (token) throws(StorageError) in
                try storage.instances.locate(token)
            }
            ordinals.append(place?.ordinal.rawValue ?? .max)
        }
        // A request has at most 10,000 tokens (TOP-4), so `UInt16` holds each index.
        return (0..<UInt16(tokens.count)).sorted {
            (ordinals[Int($0)], $0) < (ordinals[Int($1)], $1)
        }
    }

    /// Makes a topic; nil if the project has no topic number left.
    private func create(
        _ name: TopicName, _ project: inout Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Topic? {
        let number: TopicNumber
        if let free = try storage.instances.takeFree(.topic, in: project.number) {
            number = TopicNumber(free)
        } else {
            guard project.nextTopic < .nobody else { return nil }
            number = project.nextTopic
            project.nextTopic = TopicNumber(number.rawValue + 1)
        }
        invariant(SetKey.isTopic(number.rawValue), "The number of a topic has 28 bits.")
        project.topicCount += 1
        let topic = Topic(number: number, name: name, subscriberCount: 0)
        try storage.topics.put(topic, in: project.number, isNew: true)
        return topic
    }

    /// Adds subscribers to a topic. A topic exists from its first subscriber on (TOP-1).
    /// - Parameter ordinals: sorted, without present subscribers.
    /// - Returns: nil if the topic cannot be made.
    private func join(
        _ name: TopicName, _ known: Topic?, _ ordinals: [UInt32], _ project: inout Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> TopicNumber? {
        let found = if let known { known } else { try create(name, &project, storage) as Topic? }
        guard var topic = found else { return nil }
        let added = try storage.sets.add(ordinals, to: .topic(topic.number), in: project.number)
        invariant(added <= ordinals.count, "A topic gains its new subscribers alone.")
        topic.subscriberCount += UInt64(added)
        try storage.topics.put(topic, in: project.number, isNew: false)
        return topic.number
    }

    /// Removes subscribers from a topic. With the last one the topic ends, and its number is free at once, because nobody's
    /// list has it any more.
    /// - Parameter ordinals: sorted; all are subscribers.
    func leave(
        _ known: Topic, _ ordinals: [UInt32], _ project: inout Project,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        var topic = known
        let removed = try storage.sets.remove(
            ordinals, from: .topic(topic.number), in: project.number)
        invariant(removed <= ordinals.count, "A topic loses its leaving subscribers alone.")
        topic.subscriberCount -= min(topic.subscriberCount, UInt64(removed))
        if topic.subscriberCount == 0 {
            try storage.topics.remove(topic, in: project.number)
            try storage.instances.putFree(topic.number.rawValue, .topic, in: project.number)
            project.topicCount = try project.topicCount.less(in: .topics)
        } else {
            try storage.topics.put(topic, in: project.number, isNew: false)
        }
    }
}

extension [UInt32] {
    /// The first index whose element is not below `value`.
    func lowerBound(_ value: UInt32) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    func containsSorted(_ value: UInt32) -> Bool {
        let at = lowerBound(value)
        return at < count && self[at] == value
    }

    mutating func insertSorted(_ value: UInt32) {
        let at = lowerBound(value)
        if at == count || self[at] != value { insert(value, at: at) }
    }

    mutating func removeSorted(_ value: UInt32) {
        let at = lowerBound(value)
        if at < count, self[at] == value { remove(at: at) }
    }
}
