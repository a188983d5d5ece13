// SPDX-License-Identifier: Apache-2.0
//
// Changes of a topic for many tokens that are applied in several transactions (TOP-4, TOP-6, TOP-7), and
// transactions that end before all of their commands are applied. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Changes of topics in parts")
struct TopicPartTests {
    private func change(
        _ tokens: [String], _ topic: String = "t", in project: ProjectNumber,
        _ operation: TopicOperation = .subscribe, stepMax: Int = .max
    ) -> Command {
        var progress = TopicChangeProgress()
        progress.stepMax = stepMax
        return .changeTopic(
            project: project, topic: topic, change: operation, tokens: tokens, progress: progress)
    }

    /// The command, cut to some tokens.
    private func cut(_ command: Command, to stepMax: Int) throws -> Command {
        guard
            case .changeTopic(let project, let topic, let change, let tokens, var progress) =
                command
        else { throw Unexpected(.unfinished(command)) }
        progress.stepMax = stepMax
        return .changeTopic(
            project: project, topic: topic, change: change, tokens: tokens, progress: progress)
    }

    private func result(_ outcome: Outcome) throws -> TopicChangeResult {
        guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
        return result
    }

    private func rest(_ outcome: Outcome) throws -> Command {
        guard case .unfinished(let rest) = outcome else { throw Unexpected(outcome) }
        return rest
    }

    @Test(
        "TOP-4: however a request is cut and interrupted, its answer and the subscriptions are those of the whole",
        arguments: 0..<rounds(30))
    func likeTheWhole(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let benches = [Bench(), Bench()]
        let project = try benches.map { try $0.project("tides") }[0]
        let instances = try benches.map { try $0.register(300, in: "tides") }[0]
        for _ in 0..<6 {
            var tokens = (0..<generator.number(1...1000)).map { _ in
                instances.randomElement(using: &generator)!.token.text
            }
            for _ in 0..<generator.number(0...5) {
                let wrong = ["?", Token(words: (1, 2, generator.next())).text]
                tokens[generator.number(0...(tokens.count - 1))] = wrong[generator.number(0...1)]
            }
            let operation: TopicOperation = generator.chance(50) ? .subscribe : .unsubscribe
            let topic = "t\(generator.number(0...1))"
            let whole = try result(
                try benches[0].apply(change(tokens, topic, in: project, operation)))

            var command = change(tokens, topic, in: project, operation)
            var parts: TopicChangeResult?
            while parts == nil {
                if generator.chance(70) {
                    command = try cut(command, to: generator.number(1...200))
                }
                let outcomes = try benches[1].apply([command]) { generator.chance(80) }
                if case .unfinished(let rest) = outcomes[0] {
                    command = rest
                } else {
                    parts = try result(outcomes[0])
                }
            }
            #expect(parts == whole)
            for topic in ["t0", "t1"] {
                #expect(
                    try benches[0].members(of: topic, in: project)
                        == benches[1].members(of: topic, in: project))
            }
        }
        for bench in benches { try bench.expectClean() }
    }

    @Test(
        "TOP-6: a request in parts takes its quota once, for all its tokens, before the first part")
    func quota() throws {
        var limits = BrokerLimits.none
        limits.topicChangesPerSecond = 100
        let bench = Bench(limits: limits)
        let project = try bench.project("tides")
        let tokens = try bench.register(100, in: "tides").map(\.token.text)
        let first = try rest(try bench.apply(change(tokens, in: project, stepMax: 10)))
        let over = try bench.apply(change(tokens, "other", in: project, stepMax: 10))
        #expect(refusal(over) == .resourceExhausted)
        #expect(try bench.members(of: "other", in: project).isEmpty)
        #expect(try result(try bench.apply(first)).successCount == 100)
        #expect(try bench.members(of: "t", in: project).count == 100)
    }

    @Test(
        "TOP-7: what a crash leaves of a request that was not answered becomes whole when it is repeated"
    )
    func crash() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let tokens = try bench.register(1000, in: "tides").map(\.token.text)
        _ = try rest(try bench.apply(change(tokens, in: project, stepMax: 64)))
        try bench.reopen()
        #expect(try bench.members(of: "t", in: project).count == 64)
        try bench.expectClean()
        #expect(try result(try bench.apply(change(tokens, in: project))).successCount == 1000)
        #expect(try bench.members(of: "t", in: project).count == 1000)
        try bench.expectClean()
    }

    @Test(
        "FAN-2: a transaction that ends early has applied its first command; the others come back as they were, in their order"
    )
    func ended() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(200, in: "tides")
        let commands = (0..<5).map {
            change(instances.map(\.token.text), "t\($0)", in: project)
        }
        var questionCount = 0
        let outcomes = try bench.apply(commands) {
            questionCount += 1
            // The second command is interrupted after its second step.
            return questionCount < 6
        }
        #expect(questionCount == 6, "nobody is asked again who has said no")
        #expect(try result(outcomes[0]).successCount == 200)
        guard case .changeTopic(_, _, _, _, let progress) = try rest(outcomes[1]) else { return }
        #expect(progress.doneCount == 128 && progress.result.successCount == 128)
        for (index, outcome) in outcomes.enumerated().dropFirst(2) {
            guard case .changeTopic(_, let topic, _, _, let progress) = try rest(outcome) else {
                return
            }
            #expect(topic == "t\(index)" && progress == TopicChangeProgress())
        }
        for index in 1..<5 {
            #expect(try result(try bench.apply(try rest(outcomes[index]))).successCount == 200)
        }
        try bench.expectClean()
    }

    @Test("TTL-4 REP-1: a transaction that ends early still knows whose connections begin and end")
    func connections() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        let start = ConnectionStart(number: 1, position: MessageSequence(0))
        let outcomes = try bench.apply([
            change(instances.map(\.token.text), in: project),
            .connected(
                project: project, ordinal: instances[0].ordinal, holder: instances[0].holder,
                connection: start),
            .acknowledge([]),
            change(instances.map(\.token.text), "u", in: project),
        ]) { false }
        for outcome in outcomes[1...2] {
            guard case .done = outcome else { throw Unexpected(outcome) }
        }
        _ = try rest(outcomes[3])
    }
}
