// SPDX-License-Identifier: Apache-2.0
//
// A device's own messages, each until it is answered, and a sender that takes what devices send, over real sockets (DEV-4,
// UPS-1).

import MartletBase
import MartletClient
import MartletWire
import Testing

private func device(_ broker: FakeBroker) -> MartletDevice {
    var options = DeviceOptions()
    options.backoff = quickBackoff
    return MartletDevice(
        host: "127.0.0.1", port: broker.port,
        credentials: DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev"),
        options: options)
}

private func upstream(_ connection: FakeConnection) async -> UpstreamRequest? {
    guard case .frame(.upstream(let request)) = await connection.next() else { return nil }
    return request
}

extension FakeConnection {
    fileprivate func accept(_ request: UpstreamRequest?) {
        send(
            .upstreamAccepted(
                UpstreamAccepted(correlation: request?.correlation ?? 0, number: 1)))
    }
}

private let reading = Message(data: ["cm": "412"])

@Suite("Messages of a device", .timeLimit(.minutes(2))) struct UpstreamTests {
    @Test(
        "DEV-4 a message is sent again under its ID after a loss and after a quota refusal, until it is answered"
    )
    func again() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let sent: Void = device.sendUpstream(
                reading, messageID: "m1", timeToLiveSeconds: 600)
            let first = await broker.connection()
            _ = await first.welcome()
            let request = try #require(await upstream(first))
            #expect(request.messageID == "m1" && request.group.isEmpty)
            #expect(request.timeToLiveSeconds == 600)
            #expect(try Message(decoding: request.message, unknownTags: .refuse) == reading)
            await first.close()
            let second = await broker.connection()
            _ = await second.welcome()
            let again = try #require(await upstream(second))
            #expect(again.messageID == "m1" && again.message == request.message)
            second.fail(.quotaExceeded, correlation: again.correlation, retryDelay: 10)
            let third = try #require(await upstream(second))
            #expect(third.messageID == "m1")
            second.accept(third)
            try await sent
            await device.close()
        }
    }

    @Test("DEV-4 each message has its own end: one is refused for good, the others go on")
    func ends() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let good: Void = device.sendUpstream(reading, messageID: "good")
            let connection = await broker.connection()
            _ = await connection.welcome()
            let first = try #require(await upstream(connection))
            // UPS-1: the broker takes its longest time to live.
            #expect(first.timeToLiveSeconds == nil)
            async let bad = refusal {
                try await device.sendUpstream(reading, to: .group("key"), messageID: "bad")
            }
            let second = try #require(await upstream(connection))
            #expect(second.group == "key")
            connection.fail(.notFound, correlation: second.correlation)
            #expect(await bad?.word == .notFound)
            connection.accept(first)
            try await good
            // What can be known is said before anybody is asked.
            let shown = await refusal {
                try await device.sendUpstream(Message(notification: .init(title: "Hi")))
            }
            #expect(shown?.word == .invalidArgument)
            await device.close()
            #expect(await refusal { try await device.sendUpstream(reading) }?.word == .unavailable)
        }
    }

    @Test("DEV-4 twenty messages wait; the next is refused at once, until one has ended")
    func bounded() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<20 {
                    group.addTask { try await device.sendUpstream(reading, messageID: "\(number)") }
                }
                let connection = await broker.connection()
                _ = await connection.welcome()
                var requests: [UpstreamRequest?] = []
                for _ in 0..<20 { requests.append(await upstream(connection)) }
                let full = await refusal { try await device.sendUpstream(reading) }
                #expect(full?.word == .resourceExhausted && full?.field == "queue")
                connection.accept(requests[0])
                try await group.next()
                group.addTask { try await device.sendUpstream(reading, messageID: "more") }
                #expect(await upstream(connection)?.messageID == "more")
                await device.close()
                while let ended = await group.nextResult() {
                    #expect(throws: MartletError.self) { try ended.get() }
                }
            }
        }
    }

    @Test("DEV-4 a message waits no longer than its time to live, and now or never does not wait")
    func expires() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            let never = await refusal {
                try await device.sendUpstream(reading, timeToLiveSeconds: 0)
            }
            #expect(never?.word == .unavailable && never?.field == "ttl")
            // The broker never says WELCOME.
            let late = await refusal {
                try await device.sendUpstream(reading, timeToLiveSeconds: 1)
            }
            #expect(late?.word == .deadlineExceeded)
            await device.close()
        }
    }

    @Test("DEV-4 who gives up waiting makes room")
    func cancelled() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            let sending = Task { try await device.sendUpstream(reading, messageID: "a") }
            let connection = await broker.connection()
            _ = await connection.welcome()
            _ = await upstream(connection)
            sending.cancel()
            await #expect(throws: CancellationError.self) { try await sending.value }
            #expect(await device.upstreamCount == 0)
            await device.close()
        }
    }
}

@Suite("A sender that takes messages of devices", .timeLimit(.minutes(2)))
struct UpstreamFeedTests {
    private func deliver(_ numbers: [UInt64], _ connection: FakeConnection) {
        connection.send(
            numbers.map { number in
                var body = WireWriter()
                reading.encode(into: &body)
                return .upstreamMessage(
                    UpstreamDelivery(
                        number: number, accepted: Instant(millisecondsSince1970: 1),
                        expires: Instant(millisecondsSince1970: 2), token: "tok",
                        appName: "com.example.tides", messageID: "m\(number)",
                        message: body.bytes))
            })
    }

    private func listening(_ broker: FakeBroker) async -> FakeConnection {
        let connection = await broker.connection()
        _ = await connection.welcome()
        guard case .frame(.listenUpstream(let request)) = await connection.next() else {
            Issue.record("another frame")
            return connection
        }
        connection.send(.done(Done(correlation: request.correlation)))
        return connection
    }

    private func taken(_ connection: FakeConnection) async -> [UInt64]? {
        guard case .frame(.upstreamAcknowledge(let frame)) = await connection.next() else {
            return nil
        }
        return frame.numbers
    }

    @Test(
        "UPS-1 a message is taken when the next is asked for; after a loss nothing comes twice, and what the broker did not hear is said again"
    )
    func taking() async throws {
        try await FakeBroker.run { broker in
            var options = ClientOptions()
            options.backoff = quickBackoff
            let sender = MartletSender(
                host: "127.0.0.1", port: broker.port, projectID: "tides", serverKey: "key",
                options: options)
            let messages = sender.upstreamMessages
            let all = Task {
                var iterator = messages.makeAsyncIterator()
                var numbers: [UInt64] = []
                while numbers.count < 5, let message = try await iterator.next() {
                    #expect(message["cm"] == "412" && message.messageID == "m\(message.number)")
                    numbers.append(message.number)
                }
                await iterator.take()
                return numbers
            }
            let first = await listening(broker)
            deliver([3], first)
            deliver([4], first)
            #expect(await taken(first) == [3])
            await first.close()
            let second = await listening(broker)
            // 3 was heard of, 4 was not; 5 is new.
            deliver([4, 5, 6, 7], second)
            var heard: Set<UInt64> = []
            while heard.count < 4 { heard.formUnion(await taken(second) ?? []) }
            #expect(heard == [4, 5, 6, 7])
            let numbers = try await all.value
            #expect(numbers == [3, 4, 5, 6, 7])
            await sender.close()
        }
    }

    @Test("UPS-1 numbers are remembered from when they come until long after they were taken")
    func ledger() {
        var ledger = UpstreamLedger()
        #expect(ledger.receive(1) == .new)
        #expect(ledger.receive(1) == .outstanding)
        ledger.forget(1)
        #expect(ledger.receive(1) == .new)
        ledger.take(1)
        #expect(ledger.receive(1) == .taken)
        for number in 2...1000 as ClosedRange<UInt64> {
            #expect(ledger.receive(number) == .new)
            ledger.take(number)
        }
        #expect(ledger.receive(1) == .taken)
        for number in 1001...3000 as ClosedRange<UInt64> {
            _ = ledger.receive(number)
            ledger.take(number)
        }
        #expect(ledger.receive(1) == .new)
        #expect(ledger.receive(2001) == .taken)
    }
}
