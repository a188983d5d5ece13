// SPDX-License-Identifier: Apache-2.0
//
// Limits that a project has of its own, in place of the broker's (OPS-2), and how they change. Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Limits of a project")
struct ProjectLimitTests {
    /// Gives the project limits of its own.
    private func set(
        _ bench: SendBench, _ changes: (ProjectLimit, Int?)...
    ) throws {
        let outcome = try bench.apply(
            .changeRegistry(
                project: "tides", .limits(changes.map { ProjectLimitChange($0.0, to: $0.1) })))
        guard case .project = outcome else { throw Surprise(outcome) }
    }

    private func own(_ bench: SendBench) throws -> [ProjectLimit: Int] {
        let limits = try bench.store.read { (transaction) throws in
            try #require(try transaction.projects.project(bench.tides)).limits
        }
        return Dictionary(uniqueKeysWithValues: limits.own.map { ($0, limits[$0]!) })
    }

    private func topics(_ bench: SendBench, _ outcome: Outcome) throws -> TopicChangeResult {
        guard case .topicsChanged(let result) = outcome else { throw Surprise(outcome) }
        return result
    }

    private func message(
        _ instance: Instance, bytes: Int = 1, block: Int = 0, _ lifespan: Lifespan = .longest,
        on platforms: PlatformSet = .all, sendAt: Instant? = nil
    ) -> SendCommand {
        SendCommand(
            target: .token(instance.token.text),
            variants: [
                OutgoingVariant(
                    platforms: platforms, lifespan: lifespan, body: [1],
                    size: MessageSize(payloadBytes: bytes, blockBytes: block))
            ], sendAt: sendAt)
    }

    @Test("OPS-2: a project's own value holds until it is taken back, and survives a restart")
    func values() throws {
        let bench = try SendBench()
        #expect(try own(bench) == [:])
        try set(bench, (.groupMembers, 3), (.payloadBytes, 10), (.topicsPerCondition, 6))
        try bench.restart()
        #expect(
            try own(bench) == [.groupMembers: 3, .payloadBytes: 10, .topicsPerCondition: 6])
        try set(bench, (.groupMembers, nil), (.payloadBytes, 20), (.payloadBytes, 30))
        #expect(try own(bench) == [.payloadBytes: 30, .topicsPerCondition: 6])
        // The older request for topics of a condition sets the same limit.
        _ = try bench.apply(.changeProject(id: "tides", conditionTopicsMax: 9))
        #expect(try own(bench) == [.payloadBytes: 30, .topicsPerCondition: 9])
        // A transaction that fails changes nothing.
        try bench.applyInVain([
            .changeRegistry(
                project: "tides", .limits([ProjectLimitChange(.payloadBytes, to: 1)]))
        ])
        #expect(try own(bench)[.payloadBytes] == 30)
    }

    @Test(
        "OPS-2: values out of a limit's bounds are refused with the bounds, and nothing is changed",
        arguments: ProjectLimit.allCases)
    func bounds(limit: ProjectLimit) throws {
        let bench = try SendBench()
        for value in [limit.bounds.lowerBound - 1, limit.bounds.upperBound + 1] {
            let outcome = try bench.apply(
                .changeRegistry(
                    project: "tides",
                    .limits([
                        ProjectLimitChange(.topicsPerInstance, to: 7),
                        ProjectLimitChange(limit, to: value),
                    ])))
            guard case .refused(let error) = outcome else { throw Surprise(outcome) }
            #expect(error.word == .invalidArgument && error.field == limit.name)
            #expect(
                error.message.contains("\(limit.bounds.lowerBound) to \(limit.bounds.upperBound)"))
        }
        #expect(try own(bench) == [:])
        for value in [limit.bounds.lowerBound, limit.bounds.upperBound] {
            try set(bench, (limit, value))
            #expect(try own(bench) == [limit: value])
        }
    }

    @Test("TOP-3: a project's own number of topics per instance; what is there beyond it stays")
    func topicsPerInstance() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        func change(_ operation: TopicOperation, _ names: String...) throws -> TopicChangeResult {
            try topics(
                bench,
                try bench.apply(
                    .changeTopics(
                        project: bench.tides, ordinal: instance.ordinal, change: operation,
                        topics: names)))
        }
        #expect(try change(.subscribe, "a", "b", "c").successCount == 3)
        try set(bench, (.topicsPerInstance, 2))
        #expect(try change(.subscribe, "d").failures.map(\.word) == [.tooManyTopics])
        // A subscription that is there is none more.
        #expect(try change(.subscribe, "c").successCount == 1)
        #expect(try change(.unsubscribe, "a", "b").successCount == 2)
        #expect(try change(.subscribe, "d").successCount == 1)
        let sender = try topics(
            bench,
            try bench.apply(
                .changeTopic(
                    project: bench.tides, topic: "e", change: .subscribe,
                    tokens: [instance.token.text])))
        #expect(sender.failures.map(\.word) == [.tooManyTopics])
        try set(bench, (.topicsPerInstance, nil))
        #expect(try change(.subscribe, "e", "f").successCount == 2)
    }

    @Test("TOP-4: a project's own number of tokens in a request")
    func tokensPerRequest() throws {
        let bench = try SendBench()
        let tokens = try (0..<4).map { _ in try bench.register().token.text }
        func change(_ count: Int) throws -> Outcome {
            try bench.apply(
                .changeTopic(
                    project: bench.tides, topic: "t", change: .subscribe,
                    tokens: Array(tokens[..<count])))
        }
        try set(bench, (.tokensPerTopicRequest, 3))
        #expect(try topics(bench, try change(3)).successCount == 3)
        guard case .refused(let error) = try change(4) else { throw Surprise("4 tokens") }
        #expect(error.word == .invalidArgument && error.message.contains("1 to 3 tokens"))
        try set(bench, (.tokensPerTopicRequest, nil))
        #expect(try topics(bench, try change(4)).successCount == 4)
    }

    @Test("TOP-6 QUO-4: a project's own rate of changes, with the exact delay; others keep theirs")
    func topicChanges() throws {
        let bench = try SendBench()
        _ = try bench.apply(.createProject(id: "other", senderID: 1, conditionTopicsMax: 0))
        func change(_ count: Int, in project: ProjectNumber? = nil) throws -> Outcome {
            try bench.apply(
                .changeTopic(
                    project: project ?? bench.tides, topic: "t", change: .subscribe,
                    tokens: (0..<count).map { _ in bench.token().text }))
        }
        try set(bench, (.topicChangesPerSecond, 4))
        _ = try topics(bench, try change(4))
        guard case .refused(let error) = try change(2) else { throw Surprise("6 changes") }
        #expect(error.word == .resourceExhausted && error.retryDelayMilliseconds == 500)
        #expect(error.message.contains("4 times in a second"))
        _ = try topics(bench, try change(1000, in: ProjectNumber(bench.tides.rawValue + 1)))
        // A change of the rate begins with a full bucket.
        try set(bench, (.topicChangesPerSecond, 5))
        _ = try topics(bench, try change(5))
        guard case .refused = try change(1) else { throw Surprise("6 of 5 changes") }
        try set(bench, (.topicChangesPerSecond, 0))
        for _ in 0..<5 { _ = try topics(bench, try change(1000)) }
        try set(bench, (.topicChangesPerSecond, nil))
        for _ in 0..<3 { _ = try topics(bench, try change(1000)) }
        guard case .refused = try change(1) else { throw Surprise("3001 changes") }
    }

    @Test("GRP-2: a project's own number of members; a larger group stays, and loses members")
    func groupMembers() throws {
        let bench = try SendBench()
        let instances = try (0..<4).map { _ in try bench.register() }
        let key = GroupKey(bytes: [UInt8](repeating: 7, count: Limits.groupKeyBytes))
        func change(_ operation: GroupOperation, _ indices: Int...) throws -> Outcome {
            try bench.apply(
                .changeGroup(
                    project: bench.tides, name: "g", key: key.text, change: operation,
                    tokens: indices.map { instances[$0].token.text }))
        }
        let created = try bench.apply(
            .createGroup(
                project: bench.tides, name: "g", key: key,
                tokens: instances[..<3].map(\.token.text)))
        guard case .group = created else { throw Surprise(created) }
        try set(bench, (.groupMembers, 2))
        guard case .refused(let error) = try change(.add, 3) else { throw Surprise("4 members") }
        #expect(error.word == .invalidArgument && error.message.contains("2 members at most"))
        guard case .group(let less) = try change(.remove, 0, 1) else { throw Surprise("remove") }
        #expect(less.tokens.count == 1)
        guard case .group(let two) = try change(.add, 3) else { throw Surprise("2 members") }
        #expect(two.tokens.count == 2)
        try set(bench, (.groupMembers, nil))
        guard case .group(let all) = try change(.add, 0, 1) else { throw Surprise("4 of 20") }
        #expect(all.tokens.count == 4)
    }

    @Test(
        "MSG-3: 4000 bytes are accepted and 4001 are not, unless broker or project say other numbers"
    )
    func payload() throws {
        for (broker, project, max) in [
            (nil, nil, 4000), (100, nil, 100), (100, 5000, 5000), (12_288, 10, 10),
        ] as [(Int?, Int?, Int)] {
            var limits = BrokerLimits()
            limits.payloadBytesMax = broker ?? limits.payloadBytesMax
            let bench = try SendBench(limits)
            let instance = try bench.register()
            try set(bench, (.payloadBytes, project))
            _ = try bench.accepted(message(instance, bytes: max))
            let error = try bench.refused(message(instance, bytes: max + 1))
            #expect(error.word == .invalidArgument && error.field == "message")
            #expect(error.message.contains("\(max + 1) bytes; at most \(max) are allowed"))
            let web = try bench.refused(
                message(instance, bytes: max + 1, on: PlatformSet(.web)))
            #expect(web.field == "message.webpush")
            // A block may hold the whole payload, and what it could hold before.
            let blockMax = 4096 + Swift.max(0, max - 4000)
            _ = try bench.accepted(message(instance, block: blockMax))
            let block = try bench.refused(
                message(instance, block: blockMax + 1, on: PlatformSet(.android)))
            #expect(block.field == "message.android" && block.message.contains("\(blockMax)"))
        }
    }

    @Test("MSG-3 UPS-1: the limits hold for messages of devices too")
    func upstream() throws {
        let bench = try SendBench()
        let device = try bench.register()
        func send(_ id: String, bytes: Int, seconds: UInt32? = nil) throws -> Outcome {
            try bench.apply(
                .upstream(
                    UpstreamCommand(
                        project: device.project, ordinal: device.ordinal, holder: device.holder,
                        target: .project, messageID: id, timeToLiveSeconds: seconds, body: [1],
                        size: MessageSize(payloadBytes: bytes))))
        }
        guard case .refused(let usual) = try send("a", bytes: 4001) else { throw Surprise("4001") }
        #expect(usual.word == .invalidArgument && usual.field == "message")
        try set(bench, (.payloadBytes, 5000), (.timeToLiveSeconds, 60))
        guard case .upstreamAccepted = try send("a", bytes: 5000, seconds: 60) else {
            throw Surprise("5000 bytes")
        }
        guard case .refused(let long) = try send("b", bytes: 1, seconds: 61) else {
            throw Surprise("61 seconds")
        }
        #expect(long.field == "ttl" && long.message.contains("0 to 60 seconds"))
        // Without a number the message lives as long as it may.
        guard case .upstreamAccepted = try send("c", bytes: 1) else { throw Surprise("no ttl") }
        func kept() throws -> UInt64 {
            try bench.store.read { (transaction) throws in
                try transaction.upstream.count(in: bench.tides)
            }
        }
        #expect(try kept() == 2)
        bench.wait(seconds: 61)
        _ = try bench.advance()
        #expect(try kept() == 0)
    }

    @Test("TTL-1: the longest time to live is the default, and a longer one is refused")
    func timeToLive() throws {
        let day: Int64 = 86_400
        for (broker, project, max) in [
            (nil, nil, 28 * day), (60, nil, 60), (60, 365 * day, 365 * day), (nil, 5, 5),
        ] as [(Int?, Int64?, Int64)] {
            var limits = BrokerLimits()
            limits.timeToLiveSecondsMax = broker ?? limits.timeToLiveSecondsMax
            let bench = try SendBench(limits)
            let instance = try bench.register()
            try set(bench, (.timeToLiveSeconds, project.map { Int($0) }))
            func expires(_ lifespan: Lifespan) throws -> Instant {
                try bench.accepted(message(instance, lifespan)).fanouts[0].header.expires
            }
            func after(_ seconds: Int64) -> Instant { bench.now.advanced(bySeconds: seconds) }
            #expect(try expires(.longest) == after(max))
            #expect(try expires(.seconds(UInt32(max))) == after(max))
            #expect(try expires(.until(after(max + 1))) == after(max))
            #expect(try expires(.until(after(max + 2 * day))) == after(max))
            for tooLong in [Lifespan.seconds(UInt32(max) + 1), .until(after(max + 2 * day + 1))] {
                let error = try bench.refused(message(instance, tooLong))
                #expect(error.word == .invalidArgument && error.field == "time_to_live")
                #expect(error.message.contains("time-to-live-seconds-max"))
            }
            let android = try bench.refused(
                message(instance, .seconds(.max), on: PlatformSet(.android)))
            #expect(android.field == "message.android.ttl")
        }
    }

    @Test("TTL-1 MSG-10 FAN-1: a message that waits keeps the terms under which it was accepted")
    func waiting() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let due = bench.now.advanced(bySeconds: 100)
        try set(bench, (.timeToLiveSeconds, 1000), (.topicsPerCondition, 6), (.payloadBytes, 5000))
        _ = try bench.accepted(message(instance, bytes: 5000, sendAt: due))
        var toAll = message(instance, .until(due.advanced(bySeconds: 1001)), sendAt: due)
        toAll.target = .condition(
            (0..<6).map { "!('t\($0)' in topics)" }.joined(separator: " && "))
        _ = try bench.accepted(toAll)
        try set(bench, (.timeToLiveSeconds, 10), (.topicsPerCondition, nil), (.payloadBytes, 1))
        try bench.restart()
        bench.now = due
        let sent = try bench.advance().map { outcome in
            guard case .accepted(_, let fanouts) = outcome else { throw Surprise(outcome) }
            return fanouts.map(\.header.expires)
        }
        #expect(sent == [[due.advanced(bySeconds: 1000)], [due.advanced(bySeconds: 1000)]])
    }

    @Test("CON-3: topics of a condition, by the broker and by the project")
    func conditionTopics() throws {
        var limits = BrokerLimits()
        limits.conditionTopicsMax = 2
        let bench = try SendBench(limits)
        func condition(_ count: Int) -> SendCommand {
            SendCommand(
                target: .condition(
                    (0..<count).map { "'t\($0)' in topics" }.joined(separator: " || ")), body: [1])
        }
        _ = try bench.accepted(condition(2))
        #expect(try bench.refused(condition(3)).field == "condition")
        try set(bench, (.topicsPerCondition, 64))
        _ = try bench.accepted(condition(64))
        try set(bench, (.topicsPerCondition, nil))
        #expect(try bench.refused(condition(3)).field == "condition")
    }

    @Test("REG-8: a project's own number of instances, and its own rate of registrations")
    func registrations() throws {
        let bench = try SendBench()
        func register(_ proof: RegistrationProof) throws -> MartletError? {
            let outcome = try bench.apply(
                .register(
                    NewInstance(
                        project: "tides", app: "a", platform: .android, token: bench.token(),
                        keyDigest: SecretDigest(bytes: [UInt8](repeating: 1, count: 32)),
                        proof: proof)))
            if case .refused(let error) = outcome { return error }
            return nil
        }
        try set(bench, (.instancesPerProject, 2))
        #expect(try register(.trusted) == nil && register(.trusted) == nil)
        let full = try #require(try register(.trusted))
        #expect(full.word == .resourceExhausted && full.message.contains("has 2 instances"))
        try set(bench, (.instancesPerProject, 0), (.registrationsPerSecond, 1))
        _ = try bench.apply(
            .changeRegistry(project: "tides", .policies(registration: .key, topics: nil)))
        let digest = SecretDigest(bytes: [UInt8](repeating: 9, count: 32))
        _ = try bench.apply(
            .changeRegistry(
                project: "tides",
                .createRegistrationKey(NewKey(id: "k", name: "", digest: digest))))
        #expect(try register(.key(id: "k", digest: digest)) == nil)
        let fast = try #require(try register(.key(id: "k", digest: digest)))
        #expect(fast.word == .resourceExhausted && fast.retryDelayMilliseconds == 1000)
        #expect(fast.message.contains("at most 1 devices in a second"))
    }

    @Test("STO-2: how long an inactive instance is told of a discard is a setting")
    func discardNotice() throws {
        var limits = BrokerLimits()
        limits.inactiveSeconds = 10
        limits.discardNoticeSeconds = 100
        let bench = try SendBench(limits)
        let instance = try bench.register()
        bench.wait(seconds: 11)
        _ = try bench.advance()
        _ = try bench.accepted(message(instance))
        #expect(try bench.mailbox(instance).discardedCount == 1)
        bench.wait(seconds: 101)
        _ = try bench.advance()
        #expect(try bench.mailbox(instance).discardedCount == 0)
    }
}
