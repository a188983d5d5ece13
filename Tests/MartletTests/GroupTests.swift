// SPDX-License-Identifier: Apache-2.0
//
// Groups and messages to several targets over real sockets, by a peer that knows only the codec, by the
// client library, and in this process (GRP-1 to GRP-6).

import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("Groups over sockets", .timeLimit(.minutes(2)))
struct GroupSocketTests {
    private func group(_ peer: Peer, _ frame: ClientFrame) throws -> GroupResult {
        try peer.send(frame)
        let answer = try peer.next()
        if case .error(let error) = answer { throw error.error }
        guard let group = answer.answer(as: GroupResult.self) else {
            throw Peer.Failure.unexpected(answer)
        }
        return group
    }

    private func create(_ peer: Peer, _ name: String, _ tokens: [String]) throws -> GroupResult {
        try group(
            peer,
            .request(
                CreateGroupRequest(
                    correlation: peer.nextCorrelation(), name: name, tokens: tokens)))
    }

    private func change(
        _ peer: Peer, _ operation: GroupOperation, _ group: GroupResult, _ tokens: [String]
    ) throws -> GroupResult {
        try self.group(
            peer,
            .request(
                ChangeGroupRequest(
                    correlation: peer.nextCorrelation(), operation: operation, name: group.name,
                    key: group.key, tokens: tokens)))
    }

    private func send(_ peer: Peer, to target: MessageTarget, n: String) throws -> BrokerFrame {
        try peer.send(
            .send(
                SendRequest(
                    correlation: peer.nextCorrelation(), target: target,
                    message: try Message(data: ["n": n]).encoded())))
        let answer = try peer.next()
        if case .error(let error) = answer { throw error.error }
        return answer
    }

    private func groupAccepted(
        _ peer: Peer, to group: GroupResult, n: String
    ) throws -> GroupAccepted {
        let answer = try send(peer, to: .group(group.key), n: n)
        guard case .groupAccepted(let accepted) = answer else {
            throw Peer.Failure.unexpected(answer)
        }
        return accepted
    }

    @Test(
        "GRP-1 GRP-2 GRP-3 GRP-4 GRP-5: a sender makes a group, changes it, finds it and sends to it; members on two loops and away get it"
    )
    func roundTrip() async throws {
        let test = try await TestBroker.open()
        let sender = try test.sender()
        let devices = try (0..<4).map { _ in try test.newDevice() }
        let tokens = devices.map(\.credentials.token)
        let made = try create(sender, "phones", [tokens[0], tokens[1]])
        #expect(made.key.utf8.count == 32 && !made.key.hasPrefix("-"))
        #expect(throws: MartletError.self) { try create(sender, "phones", [tokens[0]]) }
        let grown = try change(sender, .add, made, [tokens[2]])
        #expect(grown.tokens == Array(tokens[..<3]) && grown.key == made.key)
        let found = try group(
            sender,
            .request(FindGroupRequest(correlation: sender.nextCorrelation(), name: "phones"))
        )
        #expect(found.key == made.key && found.tokens == Array(tokens[..<3]))

        devices[2].peer.close()
        let accepted = try groupAccepted(sender, to: made, n: "1")
        #expect(accepted.successes == 3 && accepted.failures.isEmpty)
        #expect(accepted.accepted.recipients == 3)
        for device in devices[..<2] {
            let message = try device.peer.message()
            #expect(message.kind == .group && message.streamID == accepted.accepted.messageNumber)
        }
        let back = try test.connect(devices[2].credentials)
        #expect(try back.number() == "1")
        // REG-4: by its new token it is the same member.
        let other = try await test.broker.rotateToken(tokens[0], in: TestBroker.project)
        #expect(try change(sender, .add, made, [other]).tokens == [other, tokens[1], tokens[2]])
        #expect(try groupAccepted(sender, to: made, n: "2").successes == 3)
        #expect(try devices[0].peer.number() == "2")
        // REG-3
        try await test.broker.unregister(tokens[1], in: TestBroker.project)
        #expect(try groupAccepted(sender, to: made, n: "3").successes == 2)

        try sender.send(
            .request(ListGroupsRequest(correlation: sender.nextCorrelation(), after: "", limit: 10))
        )
        guard let page = try sender.next().answer(as: GroupPage.self) else {
            Issue.record("no page of groups")
            return
        }
        #expect(page.groups == [.init(name: "phones", key: made.key, memberCount: 2)])
        #expect(try change(sender, .remove, made, [other, tokens[2]]).tokens.isEmpty)
        let nobody = try groupAccepted(sender, to: made, n: "4")
        #expect(nobody.successes == 0 && nobody.failures.isEmpty)
        #expect(!devices[3].peer.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test("GRP-6: a device is refused, an administrator with a project is not")
    func roles() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        let none = GroupResult(correlation: 1, name: "g", key: "k", tokens: [])
        let attempts: [() throws -> Void] = [
            { _ = try create(device, "g", [credentials.token]) },
            { _ = try change(device, .add, none, [credentials.token]) },
            { _ = try change(device, .remove, none, [credentials.token]) },
            {
                _ = try group(
                    device,
                    .request(FindGroupRequest(correlation: device.nextCorrelation(), name: "g")))
            },
            {
                _ = try group(
                    device,
                    .request(
                        ListGroupsRequest(
                            correlation: device.nextCorrelation(), after: "", limit: 1)))
            },
            { _ = try send(device, to: .group("k"), n: "1") },
            { _ = try send(device, to: .several([.token(credentials.token)]), n: "1") },
        ]
        for attempt in attempts {
            do {
                try attempt()
                Issue.record("a device may do what a sender may")
            } catch let error as MartletError {
                #expect(error.word == .permissionDenied)
            }
        }
        let administrator = try test.peer()
        try administrator.send(
            .hello(
                .administrator(
                    administratorKey: test.broker.administratorKey, projectID: TestBroker.project)))
        _ = try administrator.welcome()
        #expect(try create(administrator, "g", [credentials.token]).tokens == [credentials.token])
        try await test.broker.close()
    }

    @Test(
        "MSG-1 QUO-1: one message to several targets; each device gets it once, failures by index")
    func several() async throws {
        let test = try await TestBroker.open { $0.limits.deviceMessagesPerMinute = 3 }
        let sender = try test.sender()
        let devices = try (0..<3).map { _ in try test.newDevice() }
        let tokens = devices.map(\.credentials.token)
        #expect(try devices[0].peer.subscribe("a", "b").successes == 2)
        #expect(try devices[1].peer.subscribe("b").successes == 1)
        let targets: [MessageTarget] = [
            .token(tokens[0]), .topic("a"), .token("x"), .condition("'b' in topics"),
            .token(tokens[2]),
        ]
        for (n, failures) in [("1", [2]), ("2", [2]), ("3", [2])] {
            guard case .multicastResult(let result) = try send(sender, to: .several(targets), n: n)
            else {
                Issue.record("another answer")
                return
            }
            #expect(result.accepted.recipients == 3 && result.successes == 2)
            #expect(result.failures.map { Int($0.index) } == failures)
            for device in devices {
                let message = try device.peer.message()
                #expect(message.kind == .several)
                #expect(try Message(decoding: message.message, unknownTags: .skip)["n"] == n)
            }
        }
        guard case .multicastResult(let last) = try send(sender, to: .several(targets), n: "4")
        else { return }
        #expect(last.accepted.recipients == 0 && last.accepted.rateLimited == 3)
        #expect(
            last.failures == [
                .init(index: 0, word: .quotaExceeded), .init(index: 2, word: .invalidArgument),
                .init(index: 4, word: .quotaExceeded),
            ])
        for device in devices { #expect(!device.peer.hasMore(milliseconds: 20)) }
        try await test.broker.close()
    }

    @Test("Ten thousand tokens fit into one frame, beside a topic; one more token does not")
    func tenThousand() async throws {
        let test = try await TestBroker.open {
            $0.limits.multicastTokensMax = Limits.multicastTokensMax
        }
        let sender = try test.sender()
        let (device, credentials) = try test.newDevice()
        let nobody = String(repeating: "A", count: 32)
        var targets = [MessageTarget](
            repeating: .token(nobody), count: Limits.multicastTokensMax)
        targets[9999] = .token(credentials.token)
        targets.append(.topic("t"))
        guard case .multicastResult(let result) = try send(sender, to: .several(targets), n: "1")
        else { return }
        #expect(result.successes == 1 && result.failures.count == 9999)
        #expect(try device.number() == "1")
        do {
            _ = try send(sender, to: .several(targets + [.token(nobody)]), n: "2")
            Issue.record("10,001 tokens are taken")
        } catch let error as MartletError {
            #expect(error.word == .invalidArgument && error.field == "targets")
        }
        // The connection stays, and the requests were given back.
        try sender.roundTrip()
        #expect(test.broker.statistics.requestBytes == 0)
        try await test.broker.close()
    }

    @Test("GRP-1 GRP-5: the client library and the embedding interface say the same")
    func interfaces() async throws {
        let test = try await TestBroker.open()
        let broker = test.broker
        let project = TestBroker.project
        let tokens = try (0..<3).map { _ in try test.newDevice().credentials.token }
        let sender = MartletSender(
            host: "127.0.0.1", port: Int(broker.port!), projectID: project,
            serverKey: test.serverKey)
        let made = try await sender.createGroup(named: "phones", tokens: [tokens[0], tokens[1]])
        #expect(try broker.group(named: "phones", in: project).key == made.key)
        try await broker.addToGroup(
            named: "phones", key: made.key, tokens: [tokens[2]], in: project)
        #expect(try await sender.group(named: "phones").tokens == tokens)
        try await sender.removeFromGroup(named: "phones", key: made.key, tokens: [tokens[0]])
        let listed = try broker.groups(in: project).entries
        #expect(listed.map(\.name) == ["phones"] && listed.map(\.key) == [made.key])
        #expect(listed.map(\.memberCount) == [2])
        #expect(try await sender.groups().entries == listed)

        let message = Message(data: ["n": "1"])
        let expected = TokenResults(successCount: 2, failures: [])
        let wire = try await sender.send(message, to: .group(made.key))
        #expect(wire.tokens == expected && wire.recipientCount == 2)
        let embedded = try await broker.send(
            OutgoingMessage(to: .group(made.key), message), in: project)
        #expect(embedded.tokens == expected && embedded.recipientCount == 2)

        let targets: [MessageTarget] = [.token(tokens[0]), .token("x"), .group(made.key)]
        let failed = TokenResults(
            successCount: 1,
            failures: [.init(token: "x", index: 1, word: .invalidArgument)])
        #expect(try await sender.send(message, toAll: targets).tokens == failed)
        #expect(try await broker.send(message, toAll: targets, in: project).tokens == failed)
        #expect(
            try await broker.send(OutgoingMessage(to: .token(tokens[0]), message), in: project)
                .tokens == nil)
        let key = made.key
        await #expect(throws: MartletError.self) {
            try await broker.removeFromGroup(
                named: "others", key: key, tokens: [tokens[0]], in: project)
        }
        try await broker.removeFromGroup(named: "phones", key: key, tokens: tokens, in: project)
        #expect(throws: MartletError.self) { try broker.group(named: "phones", in: project) }
        await sender.close()
        try await broker.close()
    }

    @Test("FAN-8: a message to several targets in progress is listed with its first targets")
    func listed() async throws {
        // A clock that stands still: one delivery, and no more.
        let clock = TestClock()
        let test = try await TestBroker.open {
            $0.clock = { clock.instant }
            $0.limits.fanoutsInProgressMax = 1
            $0.deliveriesPerSecond = 50
        }
        let sender = try test.sender()
        let devices = try (0..<3).map { _ in try test.newDevice() }
        for device in devices { #expect(try device.peer.subscribe("t").successes == 1) }
        let targets =
            [MessageTarget.topic("t")] + (0..<30).map { MessageTarget.topic("nobody-\($0)") }
        for n in ["1", "2"] { _ = try send(sender, to: .several(targets), n: n) }
        let listed = try await test.broker.fanouts(in: TestBroker.project).entries
        #expect(listed.count == 2 && listed.allSatisfy { $0.kind == .several })
        #expect(listed.allSatisfy { $0.target.hasPrefix("t, nobody-0, ") })
        try sender.send(
            .request(
                ListFanoutsRequest(
                    correlation: sender.nextCorrelation(), projectID: "", cursor: "", limit: 10)))
        guard let page = try sender.next().answer(as: FanoutPage.self) else { return }
        #expect(page.fanouts.map(\.kind) == [.several, .several])
        #expect(page.fanouts.map(\.target) == listed.map(\.target))
        // Until here they are connected: a fanout to nobody ends at once.
        for device in devices { device.peer.close() }
        try await test.broker.close()
    }
}
