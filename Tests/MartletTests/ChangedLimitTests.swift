// SPDX-License-Identifier: Apache-2.0
//
// Limits that change while a broker serves (OPS-11), and limits that are not the documented ones (OPS-2).

import Martlet
import MartletWire
import Testing

@Suite("Changed limits", .timeLimit(.minutes(2)))
struct ChangedLimitTests {
    @Test("OPS-11 changed limits hold for open connections, which stay open")
    func whileServing() async throws {
        let test = try await TestBroker.open { $0.limits.topicChangesPerSecond = 1 }
        let (device, credentials) = try test.newDevice()
        func quota(_ name: String) throws -> UInt64? {
            try test.broker.quotas(in: TestBroker.project).first { $0.name == name }?.limit
        }
        #expect(try quota("topic-changes-per-second") == 1)
        var limits = test.broker.limits
        limits.topicChangesPerSecond = 0
        limits.deviceMessagesPerMinute = 2
        limits.senderConnectionsMax = 1
        limits.topicsPerInstanceMax = 2
        limits.storedPerInstanceMax = 7
        let inForce = test.broker.change(limits: limits)
        // The rules of mailboxes stay.
        #expect(inForce.storedPerInstanceMax == 0 && inForce.topicsPerInstanceMax == 2)
        #expect(inForce == test.broker.limits)
        // A change that is durable was applied with the limits of its transaction.
        while try quota("sender-connections-max") != 1 { await Task.yield() }
        #expect(try quota("topic-changes-per-second") == nil)
        let result = try device.subscribe("a", "b", "c")
        #expect(result.failures.map(\.word) == [.tooManyTopics])
        let message = OutgoingMessage(to: .token(credentials.token), Message(data: ["n": "1"]))
        for _ in 0..<2 { _ = try await test.broker.send(message, in: TestBroker.project) }
        let refused = await #expect(throws: MartletError.self) {
            try await test.broker.send(message, in: TestBroker.project)
        }
        #expect(refused?.word == .quotaExceeded)
        for _ in 0..<2 { #expect(try device.number() == "1") }
        try device.roundTrip()
        let first = try test.sender()
        let second = try test.peer()
        try second.send(.hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        #expect(try second.error().message.contains("sender-connections-max"))
        first.close()
        limits.deviceMessagesPerMinute = 0
        test.broker.change(limits: limits)
        // The committer takes the limits before its next transaction.
        _ = try await test.broker.createServerKey(named: "next", in: TestBroker.project)
        for _ in 0..<5 { _ = try await test.broker.send(message, in: TestBroker.project) }
        try await test.broker.close()
    }

    @Test("OPS-2 TOP-3 TOP-4 GRP-2 other numbers of topics, tokens and members")
    func others() async throws {
        let test = try await TestBroker.open {
            $0.limits.topicsPerInstanceMax = 3
            $0.limits.tokensPerTopicRequestMax = 2
            $0.limits.groupMembersMax = 25
        }
        let (device, _) = try test.newDevice()
        #expect(
            try device.subscribe("a", "b", "c", "d").failures.map(\.word) == [.tooManyTopics])
        var tokens: [String] = []
        for _ in 0..<26 {
            tokens.append(
                try await test.broker.register(
                    app: "app", platform: .android, in: TestBroker.project
                ).token)
        }
        let sender = test.broker.sender(in: TestBroker.project)
        let refused = await #expect(throws: MartletError.self) {
            try await test.broker.subscribe(Array(tokens[..<3]), to: "a", in: TestBroker.project)
        }
        #expect(refused?.message.contains("1 to 2 tokens (tokens-per-topic-request)") == true)
        _ = try await test.broker.subscribe(Array(tokens[..<2]), to: "a", in: TestBroker.project)
        let group = try await sender.createGroup(named: "g", tokens: Array(tokens[..<25]))
        #expect(group.tokens.count == 25)
        let many = await #expect(throws: MartletError.self) {
            try await sender.createGroup(named: "h", tokens: tokens)
        }
        #expect(many?.message.contains("25 members at most (group-members)") == true)
        try await test.broker.close()
    }
}
