// SPDX-License-Identifier: Apache-2.0
//
// A device over real sockets: it registers, gets messages once and in order, acknowledges, and retries only what should be
// retried (DEV-1 to DEV-3).

import MartletBase
import MartletClient
import MartletWire
import Synchronization
import Testing

private func options(_ change: (inout DeviceOptions) -> Void = { _ in }) -> DeviceOptions {
    var options = DeviceOptions()
    options.backoff = quickBackoff
    // No acknowledgement leaves because of time unless a test wants it.
    options.acknowledgementDelay = .seconds(3600)
    change(&options)
    return options
}

private func device(
    _ broker: FakeBroker, unconfirmed: [UInt64] = [], options: DeviceOptions = options()
) -> MartletDevice {
    MartletDevice(
        host: "127.0.0.1", port: broker.port,
        credentials: DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev"),
        unconfirmed: unconfirmed, options: options)
}

/// Answers the subscription that comes next, and with that proves that all before it was read.
private func answerSubscription(_ connection: FakeConnection) async -> [String]? {
    guard case .frame(.deviceTopics(let request)) = await connection.next() else { return nil }
    connection.send(.topicResult(TopicResult(correlation: request.correlation, successes: 1)))
    return request.topics
}

@Suite(.timeLimit(.minutes(2))) struct DeviceTests {
    @Test("DEV-1 a device registers and is told its token and key")
    func register() async throws {
        try await FakeBroker.run { broker in
            async let credentials = MartletDevice.register(
                host: "127.0.0.1", port: broker.port, projectID: "tides",
                appName: "com.example.tides", platform: .apple)
            let connection = await broker.connection()
            let hello = await connection.welcome(token: "tok", deviceKey: "dev")
            #expect(
                hello
                    == .newDevice(
                        projectID: "tides", appName: "com.example.tides", platform: .apple))
            let expected = DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev")
            let awaitedCredentials = try await credentials
            #expect(awaitedCredentials == expected)
            #expect(!"\(expected)".contains("dev)") && !"\(expected)".contains("tok"))
            #expect(await connection.next() == .closed)
        }
    }

    @Test("REG-7 a device presents a registration key, or a fresh ticket for each registration")
    func credentials() async throws {
        try await FakeBroker.run { broker in
            let fetchedCount = Mutex(0)
            var keyed = DeviceOptions()
            keyed.registration = .key("reg-secret")
            var ticketed = DeviceOptions()
            ticketed.registration = .ticket {
                "ticket \(fetchedCount.withLock { $0 += 1; return $0 })"
            }
            let expected: [(DeviceOptions, RegistrationCredential)] = [
                (DeviceOptions(), .none), (keyed, .key("reg-secret")),
                (ticketed, .ticket("ticket 1")), (ticketed, .ticket("ticket 2")),
            ]
            for (options, credential) in expected {
                async let registered = MartletDevice.register(
                    host: "127.0.0.1", port: broker.port, projectID: "tides", appName: "a.b",
                    platform: .web, options: options)
                let connection = await broker.connection()
                #expect(
                    await connection.welcome(token: "tok", deviceKey: "dev")
                        == .newDevice(
                            projectID: "tides", appName: "a.b", platform: .web,
                            credential: credential))
                _ = try await registered
            }
        }
    }

    @Test("REG-7 a ticket that cannot be fetched fails the registration before any connection")
    func noTicket() async throws {
        try await FakeBroker.run { broker in
            var options = DeviceOptions()
            options.registration = .ticket { throw CancellationError() }
            await #expect(throws: CancellationError.self) {
                _ = try await MartletDevice.register(
                    host: "127.0.0.1", port: broker.port, projectID: "tides", appName: "a.b",
                    platform: .web, options: options)
            }
        }
    }

    @Test("DEV-1 a refused registration throws the broker's error")
    func registrationRefused() async throws {
        try await FakeBroker.run { broker in
            async let error = refusal {
                _ = try await MartletDevice.register(
                    host: "127.0.0.1", port: broker.port, projectID: "none", appName: "a",
                    platform: .web)
            }
            await broker.connection().fail(.notFound)
            #expect(await error?.word == .notFound)
        }
    }

    @Test("DEV-3 messages arrive in order with all their fields, and are acknowledged when taken")
    func messages() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let taken = {
                var messages = device.messages.makeAsyncIterator()
                let first = try await messages.next()
                let second = try await messages.next()
                return (first, second, try await messages.next())
            }()
            let connection = await broker.connection()
            let hello = await connection.welcome()
            #expect(
                hello
                    == .device(
                        projectID: "tides", token: "tok", deviceKey: "dev", state: .active,
                        unconfirmed: [])
            )
            connection.deliver([5])
            connection.deliver([1 << 63 | 6])
            connection.deliver([9])
            let (first, second, third) = try await taken
            #expect(first?.messageID == "projects/tides/messages/5")
            #expect(first?.from == "/topics/t" && first?.priority == .high)
            #expect(first?["n"] == "5" && first?["other"] == nil)
            #expect(first?.accepted.millisecondsSince1970 == 1)
            #expect(second?.isStored == false && second?.streamID == 6)
            #expect(third?.streamID == 9)
            await device.close()
            #expect(await connection.acknowledgement() == 5, "before the connection ends")
            #expect(await connection.next() == .closed, "9 was not taken and is not acknowledged")
            var after = device.messages.makeAsyncIterator()
            #expect(try await after.next() == nil)
        }
    }

    @Test("DEV-3 one acknowledgement for ten messages, and for the rest when the device is closed")
    func coalesced() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            var last: IncomingMessage?
            // Whether they come one by one or at once: nothing is acknowledged earlier for it.
            for streamID in UInt64(1)...12 {
                connection.deliver([streamID])
                last = try await messages.next()
                #expect(last?.streamID == streamID)
            }
            connection.deliver(13...25)
            for _ in 13...25 { last = try await messages.next() }
            if let last { await device.acknowledge(last) }
            await device.close()
            #expect(await connection.acknowledgement() == 10)
            #expect(await connection.acknowledgement() == 20)
            #expect(await connection.acknowledgement() == 25)
            #expect(await connection.next() == .closed)
        }
    }

    @Test("DEV-3 a few taken messages are acknowledged after a short delay")
    func delayed() async throws {
        try await FakeBroker.run { broker in
            let device = device(
                broker, options: options { $0.acknowledgementDelay = .milliseconds(1) })
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            connection.deliver(1...3)
            for _ in 1...3 { _ = try await messages.next() }
            let first = await connection.acknowledgement()
            #expect(first == 1 || first == 2)
            connection.deliver([4])
            if let last = try await messages.next() { await device.acknowledge(last) }
            // The delay begins anew with each first message.
            var through = first
            while let reached = through, reached < 4 {
                through = await connection.acknowledgement()
                #expect(through ?? 0 > reached)
            }
            #expect(through == 4)
            await device.close()
        }
    }

    @Test("DEV-3 a delay of zero acknowledges every message at once")
    func immediate() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker, options: options { $0.acknowledgementDelay = .zero })
            async let subscribed: Void = device.subscribe(toTopic: "t")
            let connection = await broker.connection()
            await connection.welcome()
            connection.deliver(1...3)
            _ = await answerSubscription(connection)
            try await subscribed
            for try await message in device.messages where message.streamID == 3 {
                await device.acknowledge(message)
                break
            }
            for streamID in UInt64(1)...3 {
                #expect(await connection.acknowledgement() == streamID)
            }
            await device.close()
            #expect(await connection.next() == .closed)
        }
    }

    @Test("DEV-3 what waits to be acknowledged leaves before the next request")
    func piggybacked() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            connection.deliver(1...3)
            for _ in 1...3 { _ = try await messages.next() }
            async let subscribed: Void = device.subscribe(toTopic: "t")
            #expect(await connection.acknowledgement() == 2, "the application still has 3")
            #expect(await answerSubscription(connection) == ["t"])
            try await subscribed
            await device.close()
            #expect(await connection.next() == .closed)
        }
    }

    @Test("TTL-4 what was taken but not acknowledged comes again after a reconnect, to nobody")
    func redeliveryOfDelayed() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            first.deliver(1...4)
            for _ in 1...4 { _ = try await messages.next() }
            await first.close()

            let second = await broker.connection()
            // A broker that did not commit what HELLO makes good delivers it all again.
            guard case .device(_, _, _, _, let unconfirmed) = await second.welcome() else {
                Issue.record("no HELLO")
                return
            }
            #expect(unconfirmed == [1, 2, 3], "the application still has 4")
            second.deliver(1...5)
            #expect(try await messages.next()?.streamID == 5)
            await device.close()
            #expect(await second.acknowledgement() == 4)
            #expect(await second.next() == .closed)
        }
    }

    @Test("TTL-4 after a lost connection, redelivered messages are dropped and acknowledged")
    func redelivery() async throws {
        try await FakeBroker.run { broker in
            let device = device(
                broker, unconfirmed: [2, 3], options: options { $0.acknowledgementDelay = .zero })
            async let taken = {
                var streamIDs: [UInt64] = []
                for try await message in device.messages { streamIDs.append(message.streamID) }
                return streamIDs
            }()
            let first = await broker.connection()
            let hello = await first.welcome(acknowledgedThrough: 2)
            guard case .device(_, _, _, _, let unconfirmed) = hello else {
                Issue.record("\(String(describing: hello))")
                return
            }
            #expect(unconfirmed == [2, 3])
            first.deliver([3, 4])
            #expect(await first.acknowledgement() == 3)
            #expect(await first.acknowledgement() == 4)
            first.deliver([5])
            #expect(await first.acknowledgement() == 5)
            await first.close()

            let second = await broker.connection()
            guard case .device(_, _, _, _, let again) = await second.welcome(acknowledgedThrough: 4)
            else { return }
            #expect(again == [3, 4, 5], "HELLO makes good for acknowledgements that were lost")
            second.deliver([5, 6])
            #expect(await second.acknowledgement() == 5)
            #expect(await second.acknowledgement() == 6)
            await device.close()
            let awaitedTaken = try await taken
            #expect(awaitedTaken == [4, 5, 6])
            #expect(await device.unconfirmed == [5, 6])
        }
    }

    @Test("DEV-1 it connects again after refusals that pass, and not before a delay it was told")
    func retries() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let connected: Void = device.connect()
            for word in [ErrorWord.unavailable, .resourceExhausted, .internal] {
                await broker.connection().fail(word, retryDelay: 1)
            }
            await broker.connection().close()
            await broker.connection().welcome()
            try await connected
            await device.close()
        }
    }

    @Test(
        "DEV-1 refusals that cannot pass end the sequence with the error",
        arguments: [ErrorWord.unregistered, .unauthenticated, .replaced, .invalidArgument])
    func final(word: ErrorWord) async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let error = refusal { for try await _ in device.messages {} }
            let connection = await broker.connection()
            if word == .replaced { await connection.welcome() }
            connection.fail(word)
            #expect(await error?.word == word)
            #expect(await refusal { try await device.connect() }?.word == word)
            #expect(await refusal { try await device.subscribe(toTopic: "t") }?.word == word)
        }
    }

    @Test("NET-5 after DRAINING it stays until the broker closes, then connects again")
    func draining() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let message = {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }()
            let first = await broker.connection()
            await first.welcome()
            first.send(.draining(Draining(reconnectDelayMilliseconds: 2)))
            await first.close()
            let second = await broker.connection()
            await second.welcome()
            second.deliver([1])
            let awaitedMessage = try await message
            #expect(awaitedMessage?.streamID == 1)
            await device.close()
        }
    }

    @Test(
        "DEV-2 a subscription is tried again after a loss or a quota refusal, and in the end fails")
    func subscription() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker, options: options { $0.attemptsMax = 4 })
            async let subscribed: Void = device.subscribe(toTopic: "t")
            let first = await broker.connection()
            await first.welcome()
            _ = await first.next()
            await first.close()
            let second = await broker.connection()
            await second.welcome()
            guard case .frame(let request) = await second.next() else { return }
            second.fail(.resourceExhausted, correlation: request.correlation ?? 0, retryDelay: 1)
            #expect(await answerSubscription(second) == ["t"])
            try await subscribed

            async let error = refusal { try await device.unsubscribe(fromTopic: "t") }
            for _ in 0..<4 {
                guard case .frame(let request) = await second.next() else { return }
                second.fail(
                    .resourceExhausted, correlation: request.correlation ?? 0, retryDelay: 1)
            }
            #expect(await error?.word == .resourceExhausted)

            async let refused = refusal { try await device.subscribe(toTopic: "u") }
            guard case .frame(let last) = await second.next() else { return }
            second.send(
                .topicResult(
                    TopicResult(
                        correlation: last.correlation ?? 0, successes: 0,
                        failures: [.init(index: 0, word: .tooManyTopics)])))
            #expect(await refused?.word == .tooManyTopics)
            #expect(
                await refusal { try await device.subscribe(toTopic: "a b") }?.word
                    == .invalidArgument)
            await device.close()
        }
    }

    @Test("REG-3 unregistering ends the sequence without an error")
    func unregister() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let unregistered: Void = device.unregister()
            let connection = await broker.connection()
            await connection.welcome()
            guard case .frame(.unregister(let request)) = await connection.next() else { return }
            connection.send(.done(Done(correlation: request.correlation)))
            try await unregistered
            var messages = device.messages.makeAsyncIterator()
            #expect(try await messages.next() == nil)
        }
    }

    @Test(
        "DEV-3 an application that does not take stops the socket: 20,000 messages, few in memory")
    func backPressure() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker, options: options { $0.bufferedMessagesMax = 4 })
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            for start in stride(from: 1 as UInt64, through: 19_901, by: 100) {
                connection.deliver(start..<start + 100, valueBytes: 1000)
            }
            var messages = device.messages.makeAsyncIterator()
            var most = 0
            for expected in 1...20_000 as ClosedRange<UInt64> {
                guard try await messages.next()?.streamID == expected else {
                    Issue.record("\(expected) is missing")
                    break
                }
                if expected % 16 == 1 { most = max(most, await device.bufferedMessages) }
            }
            // The bound, and what one read of at most 64 KiB brings on top of it.
            #expect(most <= 4 + 66)
            await device.close()
        }
    }

    @Test("DEV-3 a message that cannot be read does not hold up those behind it")
    func unreadable() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let message = {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }()
            let connection = await broker.connection()
            await connection.welcome()
            connection.send(
                .deliver(
                    Deliver(
                        streamID: 1, accepted: Instant(millisecondsSince1970: 0),
                        expires: Instant(millisecondsSince1970: 0), kind: .token, priority: .normal,
                        from: "1", message: [1, 9, 0])))
            connection.deliver([2])
            let awaitedMessage = try await message
            #expect(awaitedMessage?.streamID == 2)
            await device.close()
            #expect(await connection.acknowledgement() == 1)
        }
    }

    @Test("NET-2 a silent connection is pinged, and given up and made anew when nothing answers")
    func heartbeat() async throws {
        try await FakeBroker.run { broker in
            let device = device(
                broker,
                options: options {
                    $0.heartbeat.shortest = .milliseconds(1)
                    $0.heartbeat.first = .milliseconds(20)
                    $0.heartbeat.answerTimeout = .milliseconds(20)
                })
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            #expect(await first.next() == .frame(.ping(Ping(value: 0))))
            await broker.connection().welcome()
            #expect(await first.next() == .closed)
            #expect(await device.heartbeat < .milliseconds(20), "DEV-5")
            await device.close()
        }
    }

    @Test("DEV-3 a cancelled task stops waiting for a connection or a message")
    func cancelled() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            let connecting = Task { try await device.connect() }
            let connection = await broker.connection()
            connecting.cancel()
            await #expect(throws: CancellationError.self) { try await connecting.value }
            await connection.welcome()
            try await device.connect()
            let taking = Task {
                var messages = device.messages.makeAsyncIterator()
                return try await messages.next()
            }
            taking.cancel()
            #expect(try await taking.value == nil)
            await device.close()
        }
    }

    @Test("NET-2 the broker's ping is answered")
    func pong() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            connection.send(.ping(Ping(value: 77)))
            #expect(await connection.next() == .frame(.pong(Pong(value: 77))))
            await device.close()
        }
    }
}
