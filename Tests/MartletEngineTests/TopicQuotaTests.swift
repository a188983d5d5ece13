// SPDX-License-Identifier: Apache-2.0
//
// How often a project's subscriptions may change (TOP-6, QUO-4) with a clock that is
// told the time. Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("The quota of changes of subscriptions")
struct TopicQuotaTests {
    private func change(
        _ bench: SendBench, _ tokens: [Token], _ topic: String = "t",
        in project: ProjectNumber? = nil, operation: TopicOperation = .subscribe
    ) -> Command {
        .changeTopic(
            project: project ?? bench.tides, topic: topic, change: operation,
            tokens: tokens.map(\.text))
    }

    private func refusal(_ outcome: Outcome) throws -> MartletError {
        guard case .refused(let error) = outcome else { throw Surprise(outcome) }
        return error
    }

    private func result(_ outcome: Outcome) throws -> TopicChangeResult {
        guard case .topicsChanged(let result) = outcome else { throw Surprise(outcome) }
        return result
    }

    private func topics(_ bench: SendBench, _ instance: Instance) throws -> Int {
        try bench.store.read { (transaction) throws in
            try transaction.topics.topicNumbers(of: instance.ordinal, in: instance.project).count
        }
    }

    @Test(
        "TOP-6 QUO-4: past 3000 changes at once RESOURCE_EXHAUSTED with the exact delay, and nothing of that request is applied"
    )
    func defaults() throws {
        // A device's own bucket (TOP-11) would be empty first.
        var limits = BrokerLimits()
        limits.deviceTopicBurst = 0
        let bench = try SendBench(limits)
        let instance = try bench.register()
        // Tokens that are not registered are asked for like others.
        let nobody = (0..<999).map { _ in bench.token() }
        for name in ["a", "b"] {
            let done = try result(try bench.apply(change(bench, [instance.token] + nobody, name)))
            #expect(done.successCount == 1 && done.failures.count == 999)
        }
        // A device's own count as well, and so does what changes nothing.
        let own = Command.changeTopics(
            project: bench.tides, ordinal: instance.ordinal, change: .subscribe,
            topics: (0..<100).map { "own-\($0)" })
        for _ in 0..<10 { #expect(try result(try bench.apply(own)).successCount == 100) }
        #expect(try topics(bench, instance) == 102)

        let many = change(bench, [instance.token] + nobody, "c")
        let error = try refusal(try bench.apply(many))
        #expect(error.word == .resourceExhausted && error.field == "topic")
        #expect(error.retryDelayMilliseconds == 334)
        #expect(error.message.contains("3000"))
        let leaving = Command.changeTopics(
            project: bench.tides, ordinal: instance.ordinal, change: .unsubscribe,
            topics: ["own-1", "own-2"])
        #expect(try refusal(try bench.apply(leaving)).retryDelayMilliseconds == 1)
        #expect(try topics(bench, instance) == 102)
        // Another project has its own.
        let other = try bench.apply(
            .createProject(id: "other", senderID: 4712, conditionTopicsMax: 0))
        guard case .project(let another) = other else { throw Surprise(other) }
        #expect(
            try result(try bench.apply(change(bench, nobody, in: another.number))).failures.count
                == 999)

        bench.wait(seconds: 0.333)
        #expect(try refusal(try bench.apply(many)).retryDelayMilliseconds == 1)
        bench.wait(seconds: 0.001)
        #expect(try result(try bench.apply(many)).successCount == 1)
        #expect(try topics(bench, instance) == 103)
        try bench.expectClean()
    }

    private func bench(perSecond: Int) throws -> SendBench {
        var limits = BrokerLimits()
        limits.topicChangesPerSecond = perSecond
        return try SendBench(limits)
    }

    @Test("TOP-6: a request that is wrong as a whole, and a transaction that fails, take nothing")
    func takesNothing() throws {
        let bench = try bench(perSecond: 5)
        let instance = try bench.register()
        let all = change(bench, Array(repeating: instance.token, count: 5))
        for wrong in [
            change(bench, [instance.token], "a b"), change(bench, []),
            change(bench, [instance.token], in: ProjectNumber(77)),
            .changeTopics(
                project: bench.tides, ordinal: Ordinal(77), change: .subscribe, topics: ["t"]),
            .changeTopics(
                project: bench.tides, ordinal: instance.ordinal, change: .subscribe, topics: []),
        ] {
            #expect(try refusal(try bench.apply(wrong)).word != .resourceExhausted)
        }
        for _ in 0..<3 { try bench.applyInVain([change(bench, [instance.token]), all, all]) }
        #expect(try result(try bench.apply(all)).successCount == 5)
        // What was taken for good is not given back with what comes later, whatever is refused in it.
        try bench.applyInVain([all])
        bench.wait(seconds: 0.4)
        try bench.applyInVain([change(bench, [instance.token])])
        let three = change(bench, Array(repeating: instance.token, count: 3))
        #expect(try refusal(try bench.apply(three)).retryDelayMilliseconds == 200)
        // In one transaction both are judged one after the other.
        bench.wait(seconds: 0.2)
        let outcomes = try bench.apply([three, three])
        #expect(try result(outcomes[0]).successCount == 3)
        #expect(try refusal(outcomes[1]).retryDelayMilliseconds == 600)
    }

    @Test("TOP-6: a request larger than the limit is possible, when the quota is full")
    func larger() throws {
        let bench = try bench(perSecond: 10)
        let instance = try bench.register()
        let large = change(bench, Array(repeating: instance.token, count: 1000))
        #expect(try result(try bench.apply(large)).successCount == 1000)
        let one = change(bench, [instance.token], operation: .unsubscribe)
        #expect(try refusal(try bench.apply(one)).retryDelayMilliseconds == 99_100)
        bench.wait(seconds: 99.1)
        #expect(try result(try bench.apply(one)).successCount == 1)
        #expect(try refusal(try bench.apply(large)).retryDelayMilliseconds == 1000)
    }

    @Test("TOP-6: 0 is no limit")
    func off() throws {
        let bench = try bench(perSecond: 0)
        let instance = try bench.register()
        let large = change(bench, Array(repeating: instance.token, count: 1000))
        for _ in 0..<10 { #expect(try result(try bench.apply(large)).successCount == 1000) }
    }
}
