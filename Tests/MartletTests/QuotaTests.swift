// SPDX-License-Identifier: Apache-2.0
//
// The quotas of a project as its senders and devices meet them, over real sockets and on a clock that is
// told the time (QUO-3, QUO-4, TOP-6, NET-3).

import Martlet
import MartletWire
import Testing

@Suite("Quotas of a project", .timeLimit(.minutes(2)))
struct ProjectQuotaTests {
    private func open(
        _ clock: TestClock, _ change: @escaping (inout BrokerLimits) -> Void
    ) async throws -> TestBroker {
        try await TestBroker.open {
            change(&$0.limits)
            $0.clock = { clock.instant }
        }
    }

    /// A HELLO that is refused; the connection then ends.
    private func refusal(_ test: TestBroker, key: String? = nil) throws -> MartletError {
        let peer = try test.peer()
        try peer.send(
            .hello(.sender(projectID: TestBroker.project, serverKey: key ?? test.serverKey)))
        let error = try peer.error()
        try peer.waitForEnd()
        return error
    }

    private func left(_ test: TestBroker, _ name: String) throws -> UInt64? {
        try test.broker.quotas(in: TestBroker.project).first { $0.name == name }?.remaining
    }

    @Test(
        "QUO-3: 400 connections of senders in a minute over all loops; the next is refused, told the limit and when, and closed"
    )
    func perMinute() async throws {
        let clock = TestClock()
        let test = try await open(clock) {
            $0.senderConnectionsPerMinute = Limits.senderConnectionsPerMinute
        }
        for _ in 0..<400 { _ = try test.sender() }
        for _ in 0..<3 {
            let error = try refusal(test)
            #expect(error.word == .resourceExhausted && error.field == "connections")
            #expect(error.message.contains("400"))
            #expect(error.retryDelayMilliseconds == 150)
        }
        // Devices are not counted, nor is an administrator, who may have to look after this.
        _ = try test.newDevice()
        let administrator = try test.peer()
        try administrator.send(
            .hello(
                .administrator(
                    administratorKey: test.broker.administratorKey, projectID: TestBroker.project)))
        #expect(try administrator.welcome().role == .administrator)
        // Another project has its own.
        try await test.broker.createOpenProject("other")
        let key = try await test.broker.createServerKey(named: "k", in: "other").text
        let another = try test.peer()
        try another.send(.hello(.sender(projectID: "other", serverKey: key)))
        _ = try another.welcome()
        clock.advance(seconds: 3)
        for _ in 0..<20 { _ = try test.sender() }
        #expect(try refusal(test).retryDelayMilliseconds == 150)
        try await test.broker.close()
    }

    @Test("QUO-3: a wrong key counts nothing")
    func wrongKey() async throws {
        let test = try await open(TestClock()) { $0.senderConnectionsPerMinute = 2 }
        for _ in 0..<5 { #expect(try refusal(test, key: "no.key").word == .unauthenticated) }
        _ = try test.sender()
        _ = try test.sender()
        #expect(try refusal(test).retryDelayMilliseconds == 30_000)
        try await test.broker.close()
    }

    @Test(
        "QUO-3: so many connections of senders in parallel; one that closes, however it does, makes room"
    )
    func parallel() async throws {
        let test = try await open(TestClock()) {
            $0.senderConnectionsMax = 3
            $0.senderConnectionsPerMinute = 100
        }
        var senders = try (0..<3).map { _ in try test.sender() }
        for _ in 0..<5 {
            let error = try refusal(test)
            #expect(error.word == .resourceExhausted && error.field == "connections")
            #expect(error.message.contains("3 connections"))
            #expect(error.retryDelayMilliseconds != nil)
        }
        // Refused for that they were not opened.
        #expect(try left(test, "sender-connections-per-minute") == 97)
        #expect(try left(test, "sender-connections-max") == 0)
        // It sends everything and waits, it breaks the protocol, it is gone.
        senders[0].finish()
        try senders[0].waitForEnd()
        try senders[1].send(.hello(.sender(projectID: "", serverKey: "")))
        try senders[1].waitForEnd()
        senders.removeAll()
        while try left(test, "sender-connections-max") != 3 { await Task.yield() }
        senders = try (0..<3).map { _ in try test.sender() }
        #expect(try refusal(test).word == .resourceExhausted)
        // What was refused gave nothing back.
        #expect(try left(test, "sender-connections-max") == 0)
        for sender in senders { sender.close() }
        try await test.broker.close()
    }

    @Test(
        "TOP-6 QUO-4: a device and a sender are refused with the delay, keep their connections, and are served after it"
    )
    func topicChanges() async throws {
        let clock = TestClock()
        let test = try await open(clock) { $0.topicChangesPerSecond = 4 }
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        #expect(try device.subscribe("a", "b", "c").successes == 3)
        func change() throws -> BrokerFrame {
            try sender.send(
                .request(
                    ChangeTopicRequest(
                        correlation: sender.nextCorrelation(), operation: .subscribe, topic: "d",
                        tokens: [credentials.token, credentials.token])))
            return try sender.next()
        }
        guard case .error(let refused) = try change() else {
            Issue.record("two changes of one that is left were made")
            return
        }
        #expect(refused.error.word == .resourceExhausted)
        #expect(refused.error.retryDelayMilliseconds == 250)
        try device.send(
            .deviceTopics(
                DeviceTopicsRequest(
                    operation: .unsubscribe, correlation: device.nextCorrelation(),
                    topics: ["a", "b"])))
        #expect(try device.error().retryDelayMilliseconds == 250)
        let topics = try test.broker.topics(in: TestBroker.project)
        #expect(topics.entries.map(\.name) == ["a", "b", "c"])
        clock.advance(seconds: 1)
        guard case .topicResult(let result) = try change() else {
            Issue.record("a second later it is refused still")
            return
        }
        #expect(result.successes == 2)
        // Callers in the process are judged alike.
        _ = try await test.broker.subscribe(
            [credentials.token, credentials.token], to: "e", in: TestBroker.project)
        await #expect(throws: MartletError.self) {
            try await test.broker.unsubscribe(
                [credentials.token], from: "e", in: TestBroker.project)
        }
        try await test.broker.close()
    }

    @Test(
        "QUO-3 QUO-4: senders and administrators are told what is left of each quota, devices are not"
    )
    func amounts() async throws {
        let clock = TestClock()
        let test = try await open(clock) {
            $0.topicChangesPerSecond = 1000
            $0.senderConnectionsPerMinute = 60
            $0.senderConnectionsMax = 10
            $0.fanoutsInProgressMax = 7
        }
        let (device, _) = try test.newDevice()
        let sender = try test.sender()
        let second = try test.sender()
        #expect(try device.subscribe("a", "b", "c").successes == 3)
        func ask(_ peer: Peer) throws -> [QuotaSummary] {
            try peer.send(.request(QuotasRequest(correlation: peer.nextCorrelation())))
            let frame = try peer.next()
            if case .error(let error) = frame { throw error.error }
            guard let list = frame.answer(as: QuotaList.self) else {
                throw Peer.Failure.unexpected(frame)
            }
            return list.quotas
        }
        let quotas = try ask(sender)
        #expect(
            quotas == [
                .init(
                    name: "topic-changes-per-second", limit: 1000, remaining: 997,
                    untilFullMilliseconds: 3),
                .init(
                    name: "sender-connections-per-minute", limit: 60, remaining: 58,
                    untilFullMilliseconds: 2000),
                .init(
                    name: "sender-connections-max", limit: 10, remaining: 8,
                    untilFullMilliseconds: nil),
                .init(
                    name: "fanouts-in-progress", limit: 7, remaining: 7, untilFullMilliseconds: 0),
            ])
        let administrator = try test.peer()
        try administrator.send(
            .hello(
                .administrator(
                    administratorKey: test.broker.administratorKey, projectID: TestBroker.project)))
        _ = try administrator.welcome()
        #expect(try ask(administrator) == quotas)
        #expect(
            try test.broker.quotas(in: TestBroker.project).map(\.remaining) == [997, 58, 8, 7])
        #expect(throws: MartletError.self) { try ask(device) }
        #expect(throws: MartletError.self) { try test.broker.quotas(in: "nowhere") }
        clock.advance(seconds: 60)
        #expect(try ask(second).map(\.remaining) == [1000, 60, 8, 7])
        sender.close()
        try await test.broker.close()
    }

    @Test("QUO-3 QUO-4: a quota that is turned off is not listed")
    func off() async throws {
        let test = try await open(TestClock()) { $0.senderConnectionsMax = 5 }
        #expect(
            try test.broker.quotas(in: TestBroker.project).map(\.name)
                == ["sender-connections-max"])
        for _ in 0..<5 { _ = try test.sender().roundTrip() }
        try await test.broker.close()
    }
}
