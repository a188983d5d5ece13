// SPDX-License-Identifier: Apache-2.0
//
// The topics that a device chooses itself (TOP-10), and the bucket of its changes (TOP-11). Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("A device's own topics")
struct DeviceTopicTests {
    private func words(_ result: TopicChangeResult) -> [Int: ErrorWord] {
        Dictionary(uniqueKeysWithValues: result.failures.map { ($0.index, $0.word) })
    }

    @Test(
        "TOP-10: a policy allows all topics, none, or those with a prefix; leaving is always free")
    func policy() throws {
        let bench = Bench()
        let device = try bench.register(in: "tides")
        let topics = ["news", "news.sport", "user.7"]
        #expect(try bench.deviceChange(.subscribe, topics, device).failures.isEmpty)
        try bench.change(.policies(registration: nil, topics: .noTopics))
        #expect(try bench.deviceChange(.unsubscribe, topics, device).successCount == 3)
        #expect(
            words(try bench.deviceChange(.subscribe, topics, device))
                == [0: .permissionDenied, 1: .permissionDenied, 2: .permissionDenied])
        try bench.change(.policies(registration: nil, topics: .prefixes(["news.", "user.7"])))
        #expect(
            words(try bench.deviceChange(.subscribe, topics, device)) == [0: .permissionDenied])
        #expect(try bench.members(of: "news", in: device.project).isEmpty)
        #expect(try bench.members(of: "user.7", in: device.project) == [device.token])
        // Senders and devices may write a name with `/topics/`, and so may the policy.
        try bench.change(.policies(registration: nil, topics: .prefixes(["/topics/news"])))
        #expect(
            words(try bench.deviceChange(.subscribe, ["/topics/news", "users"], device))
                == [1: .permissionDenied])
        try bench.expectClean()
    }

    @Test(
        "TOP-7 TOP-10: a subscription that exists may be repeated, whatever the policy and the limit of topics are by then",
        arguments: [TopicPolicy.noTopics, .prefixes(["b"]), .all])
    func repeated(policy: TopicPolicy) throws {
        let bench = Bench()
        let device = try bench.register(in: "tides")
        #expect(try bench.deviceChange(.subscribe, ["a", "b"], device).successCount == 2)
        // TOP-4: a sender's subscription is one too.
        try bench.change(.subscribe, "c", [device], in: device.project)
        try bench.change(.policies(registration: nil, topics: policy))
        try bench.change(.limits([ProjectLimitChange(.topicsPerInstance, to: 1)]))
        let result = try bench.deviceChange(.subscribe, ["a", "/topics/b", "c", "d"], device)
        let word: ErrorWord = policy == .all ? .tooManyTopics : .permissionDenied
        #expect(words(result) == [3: word])
        #expect(result.successCount == 3)
        // Who leaves does not come back.
        #expect(try bench.deviceChange(.unsubscribe, ["a"], device).successCount == 1)
        #expect(words(try bench.deviceChange(.subscribe, ["a"], device)) == [0: word])
        try bench.expectClean()
    }

    @Test("TOP-10: a sender subscribes anybody to anything")
    func senders() throws {
        let bench = Bench()
        let device = try bench.register(in: "tides")
        try bench.change(.policies(registration: nil, topics: .noTopics))
        try bench.change(.subscribe, "news", [device], in: device.project)
        #expect(try bench.members(of: "news", in: device.project) == [device.token])
    }

    @Test("TOP-10: a ticket names more topics, and they go with the instance")
    func grants() throws {
        let bench = Bench()
        try bench.project("tides")
        try bench.addTicketKey()
        try bench.change(.policies(registration: .ticket, topics: .prefixes(["news."])))
        let proof = bench.ticket(1, topics: ["user.7", "team.*"])
        guard case .registered(let device, _) = try bench.register(proof) else {
            Issue.record("not registered")
            return
        }
        let topics = ["news.a", "user.7", "user.77", "team.", "team.x", "other"]
        #expect(
            words(try bench.deviceChange(.subscribe, topics, device))
                == [2: .permissionDenied, 5: .permissionDenied])
        try bench.expectClean()
        _ = try bench.apply(.unregister(project: device.project, ordinal: device.ordinal))
        #expect(try bench.rowCounts([.topicGrants]) == [0])
        guard case .registered(let next, _) = try bench.register(bench.ticket(2)) else {
            Issue.record("not registered")
            return
        }
        #expect(next.ordinal == device.ordinal)
        #expect(
            words(try bench.deviceChange(.subscribe, ["user.7"], next)) == [0: .permissionDenied])
    }

    @Test(
        "TOP-10: a policy has 1 to 64 prefixes of topic names",
        arguments: [
            [], [""], ["a b"], ["a*"], Array(repeating: "a", count: 65),
            [String(repeating: "a", count: 901)],
        ])
    func badPrefixes(_ prefixes: [String]) throws {
        let bench = Bench()
        try bench.project("tides")
        #expect(
            refusal(try bench.change(.policies(registration: nil, topics: .prefixes(prefixes))))
                == .invalidArgument)
    }

    private func bounded() throws -> (Bench, [Instance]) {
        var limits = BrokerLimits.none
        limits.topicChangesPerSecond = 3000
        limits.deviceTopicBurst = 100
        limits.deviceTopicRefillSeconds = 1
        let bench = Bench(limits: limits)
        try bench.project("tides")
        return (bench, try bench.register(2, in: "tides"))
    }

    private func change(_ count: Int, _ device: Instance, _ bench: Bench) throws -> Outcome {
        try bench.apply(
            .changeTopics(
                project: device.project, ordinal: device.ordinal, change: .subscribe,
                topics: Array(repeating: "a", count: count)))
    }

    @Test("TOP-11: a device makes 100 changes at once and then one a second, changed or not")
    func bucket() throws {
        let (bench, devices) = try bounded()
        #expect(refusal(try change(60, devices[0], bench)) == nil)
        #expect(refusal(try change(40, devices[0], bench)) == nil)
        guard case .refused(let error) = try change(3, devices[0], bench) else {
            Issue.record("not refused")
            return
        }
        #expect(error.word == .quotaExceeded)
        #expect(error.retryDelayMilliseconds == 3000)
        bench.now = bench.now.advanced(bySeconds: 2)
        #expect(refusal(try change(3, devices[0], bench)) == .quotaExceeded)
        bench.now = bench.now.advanced(bySeconds: 1)
        #expect(refusal(try change(3, devices[0], bench)) == nil)
        #expect(refusal(try change(1, devices[0], bench)) == .quotaExceeded)
        bench.now = bench.now.advanced(bySeconds: 100)
        #expect(refusal(try change(100, devices[0], bench)) == nil)
    }

    @Test("TOP-11: a hostile device does not use up its project's 3000 changes a second")
    func hostile() throws {
        let (bench, devices) = try bounded()
        for _ in 0..<10_000 { _ = try change(100, devices[0], bench) }
        #expect(refusal(try change(100, devices[1], bench)) == nil)
        // A sender has what is left of 3000: the two devices took 100 each.
        let tokens = Array(repeating: devices[1].token.text, count: 700)
        for _ in 0..<4 {
            let outcome = try bench.apply(
                .changeTopic(
                    project: devices[1].project, topic: "b", change: .subscribe, tokens: tokens))
            #expect(refusal(outcome) == nil)
        }
    }

    @Test("TOP-11: the next holder of an ordinal has a full bucket")
    func nextHolder() throws {
        let (bench, devices) = try bounded()
        _ = try change(100, devices[0], bench)
        _ = try bench.apply(
            .unregister(project: devices[0].project, ordinal: devices[0].ordinal))
        let next = try bench.register(1, in: "tides")[0]
        #expect(next.ordinal == devices[0].ordinal)
        #expect(refusal(try change(100, next, bench)) == nil)
    }

    @Test("TOP-11: a failed transaction takes nothing, and a clock that is set back stops nobody")
    func trouble() throws {
        let (bench, devices) = try bounded()
        let command = Command.changeTopics(
            project: devices[0].project, ordinal: devices[0].ordinal, change: .subscribe,
            topics: Array(repeating: "a", count: 100))
        try bench.applyInVain([command])
        #expect(refusal(try bench.apply(command)) == nil)
        bench.now = bench.now.advanced(bySeconds: -1_000_000)
        #expect(refusal(try change(1, devices[0], bench)) == .quotaExceeded)
        bench.now = bench.now.advanced(bySeconds: 100)
        #expect(refusal(try change(100, devices[0], bench)) == nil)
    }
}
