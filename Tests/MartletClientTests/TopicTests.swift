// SPDX-License-Identifier: Apache-2.0
//
// A device remembers the topics that it asked for, repeats them at its start and retries them; first the decisions alone, then
// over real sockets (DEV-2).

import MartletBase
import MartletClient
import MartletWire
import Testing

@Suite struct TopicWishesTests {
    @Test("DEV-2 what is asked for lasts: subscriptions for good, the reverse until it is done")
    func lasts() {
        var wishes = TopicWishes()
        let a = wishes.ask(.subscribe, "a")
        let b = wishes.ask(.unsubscribe, "b")
        #expect(wishes.asked == AskedTopics(subscriptions: ["a"], unsubscriptions: ["b"]))
        wishes.done(a)
        wishes.done(b)
        #expect(wishes.asked == AskedTopics(subscriptions: ["a"]))
        let c = wishes.ask(.subscribe, "c")
        wishes.forget(c)
        #expect(wishes.asked == AskedTopics(subscriptions: ["a"]))
        // Whoever asks says it; nothing is left to be said.
        #expect(wishes.next(bytesMax: 1000).isEmpty)
    }

    @Test("DEV-2 of two wishes about a topic the later holds, whatever becomes of the earlier")
    func later() {
        var wishes = TopicWishes()
        let first = wishes.ask(.subscribe, "a")
        let second = wishes.ask(.unsubscribe, "a")
        #expect(!wishes.isLast(first) && wishes.isLast(second))
        wishes.done(first)
        wishes.forget(first)
        #expect(wishes.asked == AskedTopics(unsubscriptions: ["a"]))
        let third = wishes.ask(.subscribe, "a")
        wishes.done(second)
        #expect(wishes.isLast(third) && wishes.asked == AskedTopics(subscriptions: ["a"]))
    }

    @Test("DEV-2 a wish that is taken back leaves what held before it, which is said once more")
    func takenBack() {
        var wishes = TopicWishes()
        let first = wishes.ask(.subscribe, "a")
        wishes.done(first)
        let second = wishes.ask(.unsubscribe, "a")
        wishes.takeBack(second, for: first)
        #expect(wishes.asked == AskedTopics(subscriptions: ["a"]))
        #expect(wishes.next(bytesMax: 100) == [first])
        let third = wishes.ask(.subscribe, "b")
        let fourth = wishes.ask(.unsubscribe, "b")
        wishes.takeBack(third, for: nil)
        #expect(wishes.isLast(fourth), "a later wish holds, whatever becomes of the earlier")
    }

    @Test("DEV-2 an earlier run's wishes are said in requests that the broker takes, each once")
    func batches() {
        let long = (0..<30).map { "\($0)" + String(repeating: "x", count: 890) }
        let short = (100..<350).map { "s\($0)" }
        var wishes = TopicWishes(
            AskedTopics(subscriptions: short + long, unsubscriptions: ["u1", "u2"]))
        var said: [TopicOperation: Set<String>] = [:]
        while let batch = Optional(wishes.next(bytesMax: 16_000)), !batch.isEmpty {
            #expect(batch.count <= Limits.topicsPerDeviceRequestMax)
            #expect(batch.reduce(0) { $0 + $1.topic.utf8.count + 2 } <= 16_000)
            #expect(Set(batch.map(\.operation)).count == 1)
            for wish in batch {
                #expect(said[wish.operation, default: []].insert(wish.topic).inserted)
                wishes.done(wish)
            }
        }
        #expect(said[.subscribe] == Set(short + long) && said[.unsubscribe] == ["u1", "u2"])
        #expect(wishes.asked.unsubscriptions.isEmpty)
        #expect(TopicWishes(wishes.asked).next(bytesMax: 1).count == 1)
    }

    @Test("DEV-2 what is asked for anew is not said a second time; what is given up waits")
    func anew() {
        var wishes = TopicWishes(AskedTopics(subscriptions: ["a", "b", "c"]))
        let batch = wishes.next(bytesMax: 1000)
        _ = wishes.ask(.unsubscribe, "b")
        wishes.giveUp(batch[0])
        #expect(wishes.next(bytesMax: 1000).map(\.topic) == ["c"])
        wishes.done(batch[1])
        #expect(
            wishes.asked == AskedTopics(subscriptions: ["a", "c"], unsubscriptions: ["b"]))
    }
}

private func device(
    _ broker: FakeBroker, asked: AskedTopics = AskedTopics(), store: MemoryStore = MemoryStore(),
    attemptsMax: Int = 5
) -> MartletDevice {
    var options = DeviceOptions()
    options.backoff = quickBackoff
    options.attemptsMax = attemptsMax
    return MartletDevice(
        host: "127.0.0.1", port: broker.port,
        stored: StoredDevice(
            credentials: DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev"),
            appName: "com.example.tides", platform: .apple, topics: asked), store: store,
        options: options)
}

extension FakeConnection {
    fileprivate func topicsRequest() async throws -> DeviceTopicsRequest {
        let seen = await next()
        guard case .frame(.deviceTopics(let request)) = seen else { throw Unexpected(seen: seen) }
        return request
    }

    fileprivate func answer(_ request: DeviceTopicsRequest, _ failures: [Int: ErrorWord] = [:]) {
        send(
            .topicResult(
                TopicResult(
                    correlation: request.correlation,
                    successes: UInt16(request.topics.count - failures.count),
                    failures: failures.sorted { $0.key < $1.key }.map {
                        .init(index: UInt16($0.key), word: $0.value)
                    })))
    }
}

private struct Unexpected: Error {
    var seen: Seen
}

@Suite(.timeLimit(.minutes(2))) struct TopicTests {
    @Test(
        "DEV-2 what was asked for in an earlier run is said at the start, and again over quota refusals and lost connections until it is answered; refusals for good are told"
    )
    func ensured() async throws {
        try await FakeBroker.run { broker in
            let store = MemoryStore()
            let device = device(
                broker,
                asked: AskedTopics(
                    subscriptions: ["a", "b", "c"], unsubscriptions: ["x"]), store: store,
                attemptsMax: 2)
            let refusals = await device.topicRefusals()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            // More often than an application's own request is tried.
            for _ in 0..<4 {
                let request = try await first.topicsRequest()
                #expect(request.operation == .subscribe && request.topics == ["a", "b", "c"])
                first.fail(.resourceExhausted, correlation: request.correlation, retryDelay: 1)
            }
            _ = try await first.topicsRequest()
            await first.close()

            let second = await broker.connection()
            await second.welcome()
            let again = try await second.topicsRequest()
            #expect(again.topics == ["a", "b", "c"])
            second.answer(again, [0: .tooManyTopics, 2: .resourceExhausted])
            let rest = try await second.topicsRequest()
            #expect(rest.topics == ["c"])
            second.answer(rest)
            let leaving = try await second.topicsRequest()
            #expect(leaving.operation == .unsubscribe && leaving.topics == ["x"])
            second.answer(leaving)

            var iterator = refusals.makeAsyncIterator()
            let refusal = await iterator.next()
            #expect(refusal?.topic == "a" && refusal?.operation == .subscribe)
            #expect(refusal?.error.word == .tooManyTopics)
            while await !device.askedTopics.unsubscriptions.isEmpty { await Task.yield() }
            async let subscribed: Void = device.subscribe(toTopic: "/topics/d")
            second.answer(try await second.topicsRequest())
            try await subscribed
            #expect(await device.askedTopics == AskedTopics(subscriptions: ["b", "c", "d"]))
            #expect(store.saved.last?.topics == AskedTopics(subscriptions: ["b", "c", "d"]))
            // It was said in this run: not on every connection.
            await second.close()
            let third = await broker.connection()
            await third.welcome()
            async let last: Void = device.unsubscribe(fromTopic: "d")
            let only = try await third.topicsRequest()
            #expect(only.operation == .unsubscribe && only.topics == ["d"])
            third.answer(only)
            try await last
            await device.close()
            #expect(await iterator.next() == nil)
        }
    }

    @Test(
        "DEV-2 a wish is kept before the broker hears of it, and survives a failure that may pass")
    func remembered() async throws {
        try await FakeBroker.run { broker in
            let store = MemoryStore()
            let device = device(broker, store: store, attemptsMax: 2)
            async let error = refusal { try await device.subscribe(toTopic: "t") }
            let connection = await broker.connection()
            await connection.welcome()
            for _ in 0..<2 {
                let request = try await connection.topicsRequest()
                #expect(store.saved.map(\.topics) == [AskedTopics(subscriptions: ["t"])])
                connection.fail(
                    .resourceExhausted, correlation: request.correlation, retryDelay: 1)
            }
            #expect(await error?.word == .resourceExhausted)
            #expect(await error?.retryDelayMilliseconds == 1)
            #expect(await device.askedTopics == AskedTopics(subscriptions: ["t"]))
            // Refused for good it is forgotten.
            async let refused = refusal { try await device.subscribe(toTopic: "u") }
            connection.answer(try await connection.topicsRequest(), [0: .tooManyTopics])
            #expect(await refused?.word == .tooManyTopics)
            #expect(await device.askedTopics == AskedTopics(subscriptions: ["t"]))
            await device.close()
            #expect(store.saved.last?.topics == AskedTopics(subscriptions: ["t"]))
        }
    }

    @Test("DEV-2 what cannot be kept is not asked for, and the error of the store is thrown")
    func unkept() async throws {
        try await FakeBroker.run { broker in
            let store = MemoryStore()
            let device = device(broker, store: store)
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            store.isBroken = true
            #expect(await refusal { try await device.subscribe(toTopic: "t") }?.field == "state")
            #expect(await device.askedTopics == AskedTopics())
            store.isBroken = false
            async let subscribed: Void = device.subscribe(toTopic: "u")
            let request = try await connection.topicsRequest()
            #expect(request.topics == ["u"])
            connection.answer(request)
            try await subscribed
            store.isBroken = true
            #expect(
                await refusal { try await device.unsubscribe(fromTopic: "u") }?.field == "state")
            #expect(await device.askedTopics == AskedTopics(subscriptions: ["u"]))
            await device.close()
            #expect(store.saved.map(\.topics) == [AskedTopics(subscriptions: ["u"])])
        }
    }

    @Test("DEV-2 a later call for the same topic holds: the earlier one is not tried again")
    func overtaken() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            async let early = refusal { try await device.subscribe(toTopic: "t") }
            let first = try await connection.topicsRequest()
            async let late: Void = device.unsubscribe(fromTopic: "t")
            let second = try await connection.topicsRequest()
            #expect(second.operation == .unsubscribe)
            connection.fail(.resourceExhausted, correlation: first.correlation, retryDelay: 1)
            #expect(await early?.word == .resourceExhausted)
            connection.answer(second)
            try await late
            #expect(await device.askedTopics == AskedTopics())
            await device.close()
            #expect(await connection.next() == .closed)
        }
    }
}
