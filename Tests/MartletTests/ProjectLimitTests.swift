// SPDX-License-Identifier: Apache-2.0
//
// Limits that a project has of its own (OPS-2), over real connections that are open while the limits change.

import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("Limits of a project, over connections", .timeLimit(.minutes(2)))
struct ProjectLimitTests {
    private func refusal(_ body: () throws -> Void) throws -> MartletError {
        try #require(throws: MartletError.self) { try body() }
    }

    private func send(
        _ sender: Peer, _ message: Message, to target: MessageTarget, seconds: UInt32? = nil
    ) throws {
        let body = try message.encoded()
        try sender.send(
            .send(
                SendRequest(
                    correlation: sender.nextCorrelation(), target: target, message: body,
                    timeToLiveSeconds: seconds)))
        switch try sender.next() {
        case .accepted: return
        case .error(let error): throw error.error
        case let frame: throw Peer.Failure.unexpected(frame)
        }
    }

    private func upstream(_ device: Peer, _ id: String, bytes: Int) throws {
        let message = Message(data: ["n": String(repeating: "x", count: bytes - 1)])
        try device.send(
            .upstream(
                UpstreamRequest(
                    correlation: device.nextCorrelation(), messageID: id,
                    message: try message.encodedUpstream())))
        while true {
            switch try device.next() {
            case .upstreamAccepted: return
            case .deliver: continue
            case .error(let error): throw error.error
            case let frame: throw Peer.Failure.unexpected(frame)
            }
        }
    }

    private func data(_ bytes: Int) -> Message {
        Message(data: ["n": String(repeating: "x", count: bytes - 1)])
    }

    @Test(
        "OPS-2 OPS-11 MSG-3 TTL-1 TTL-2 a project's own limits hold at once on open connections of every loop, and end when they are taken back"
    )
    func atOnce() async throws {
        let test = try await TestBroker.open(loops: 3)
        try await test.broker.createOpenProject("other")
        let (device, credentials) = try test.newDevice()
        let senders = try (0..<6).map { _ in try test.sender() }
        let token = MessageTarget.token(credentials.token)
        // Stored, and now or never: another thread decides each.
        func isAllowed(_ bytes: Int, _ seconds: UInt32?) throws -> [Bool] {
            try senders.map { sender in
                do {
                    try send(sender, data(bytes), to: token, seconds: seconds)
                    return true
                } catch let error as MartletError {
                    #expect(error.word == .invalidArgument, "\(error)")
                    return false
                }
            }
        }
        let (all, none) = (Array(repeating: true, count: 6), Array(repeating: false, count: 6))
        #expect(try isAllowed(4000, nil) == all && isAllowed(4000, 0) == all)
        #expect(try isAllowed(4001, nil) == none && isAllowed(4001, 0) == none)
        var limits = try await test.broker.changeLimits(
            [.init(.payloadBytes, to: 6000), .init(.timeToLiveSeconds, to: 60)],
            in: TestBroker.project)
        #expect(limits.filter(\.isOwn).map(\.limit) == [.payloadBytes, .timeToLiveSeconds])
        #expect(limits.filter(\.isOwn).map(\.value) == [6000, 60])
        #expect(try isAllowed(6000, 60) == all && isAllowed(6000, 0) == all)
        #expect(try isAllowed(6001, 60) == none && isAllowed(6001, 0) == none)
        #expect(try isAllowed(1, 61) == none && isAllowed(1, nil) == all)
        try upstream(device, "a", bytes: 6000)
        #expect(try refusal { try upstream(device, "b", bytes: 6001) }.field == "message")
        // The broker's value changes beside the project's, and holds for the other project.
        var broker = test.broker.limits
        broker.payloadBytesMax = 100
        test.broker.change(limits: broker)
        limits = try await test.broker.limits(of: "other")
        #expect(limits.first { $0.limit == .payloadBytes }?.value == 100)
        #expect(limits.allSatisfy { !$0.isOwn })
        #expect(try isAllowed(6000, 60) == all && isAllowed(6000, 0) == all)
        limits = try await test.broker.changeLimits(
            [.init(.payloadBytes, to: nil), .init(.timeToLiveSeconds, to: nil)],
            in: TestBroker.project)
        #expect(limits.allSatisfy { !$0.isOwn })
        #expect(try isAllowed(100, 61) == all && isAllowed(100, 0) == all)
        #expect(try isAllowed(101, 61) == none && isAllowed(101, 0) == none)
        try await test.broker.close()
    }

    @Test("MSG-3 MSG-5 the largest payload that can be configured is sent, stored and delivered")
    func largest() async throws {
        let folder = TemporaryFolder()
        var test = try await TestBroker.open(in: folder)
        try await test.broker.changeLimits(
            [.init(.payloadBytes, to: Limits.payloadBytesCeiling)], in: TestBroker.project)
        let devices = try Platform.allCases.map {
            try test.newDevice(app: "com.example", platform: $0)
        }
        let away = try test.newDevice()
        away.peer.close()
        // 256 entries need the most bytes beside the payload.
        let long = Message.DataEntry(
            key: "n", value: String(repeating: "x", count: Limits.payloadBytesCeiling - 1 - 255 * 3)
        )
        let entries =
            [long] + (0..<255).map { Message.DataEntry(key: String($0 + 100), value: "") }
        let sender = try test.sender()
        let targets = MessageTarget.several(
            (devices + [away]).map { MessageTarget.token($0.credentials.token) })
        let sent = try await test.broker.send(
            OutgoingMessage(to: targets, Message(data: entries)), in: TestBroker.project)
        #expect(sent.recipientCount == 4)
        // A block takes 4096 bytes, and what the payload's limit has beyond the documented one.
        let longest = Message.DataEntry(
            key: "n", value: String(repeating: "y", count: Limits.payloadBytesCeiling - 1))
        let blocks = Message(
            data: [], android: .init(data: [longest]), apns: .init(data: [longest]),
            webpush: .init(data: [longest]))
        for device in devices {
            try send(sender, blocks, to: .token(device.credentials.token))
            for value in [long.value, longest.value] {
                #expect(try device.peer.number() == value)
            }
        }
        let device = devices[0].peer
        try device.send(
            .upstream(
                UpstreamRequest(
                    correlation: 5, messageID: String(repeating: "i", count: 128),
                    message: try Message(data: entries).encodedUpstream())))
        guard case .upstreamAccepted = try device.next() else {
            Issue.record("the device's message was not accepted")
            return
        }
        try await test.broker.close()
        test = try await TestBroker.open(in: folder)
        let back = try test.connect(away.credentials)
        #expect(try back.number() == long.value)
        // The limit is still the project's.
        let limits = try await test.broker.limits(of: TestBroker.project)
        #expect(limits.filter(\.isOwn).map(\.limit) == [.payloadBytes])
        try await test.broker.close()
    }

    @Test("CON-3 CON-8 CON-9 sends, audiences and explanations obey the project's number of topics")
    func conditions() async throws {
        let test = try await TestBroker.open { $0.limits.conditionTopicsMax = 2 }
        let sender = test.broker.sender(in: TestBroker.project)
        func condition(_ count: Int) -> String {
            (0..<count).map { "'t\($0)' in topics" }.joined(separator: " || ")
        }
        func isAllowed(_ count: Int) async throws -> [Bool] {
            var answers: [Bool] = []
            for ask in [
                { _ = try await sender.audience(of: condition(count)) },
                { _ = try await sender.explain(condition(count)) },
                { _ = try await sender.tokens(matching: condition(count)) },
                {
                    _ = try await sender.send(
                        OutgoingMessage(to: .condition(condition(count)), Message()))
                },
            ] as [() async throws -> Void] {
                do {
                    try await ask()
                    answers.append(true)
                } catch let error as MartletError {
                    #expect(error.word == .invalidArgument, "\(error)")
                    answers.append(false)
                }
            }
            return answers
        }
        let (yes, no) = (Array(repeating: true, count: 4), Array(repeating: false, count: 4))
        #expect(try test.broker.project(TestBroker.project).conditionTopicsMax == 2)
        #expect(try await isAllowed(2) == yes)
        #expect(try await isAllowed(3) == no)
        try await test.broker.changeProject(TestBroker.project, conditionTopicsMax: 7)
        #expect(try await isAllowed(7) == yes)
        #expect(try await isAllowed(8) == no)
        try await test.broker.changeLimits(
            [.init(.topicsPerCondition, to: nil)], in: TestBroker.project)
        #expect(try test.broker.project(TestBroker.project).conditionTopicsMax == 2)
        #expect(try await isAllowed(3) == no)
        try await test.broker.close()
    }

    @Test(
        "OPS-2 only an administrator changes limits, of projects that exist, within bounds"
    )
    func refused() async throws {
        let test = try await TestBroker.open()
        let sender = try test.sender()
        let change = ChangeLimitsRequest(
            correlation: 3, projectID: TestBroker.project,
            changes: [ProjectLimitChange(.groupMembers, to: 50)])
        try sender.send(.request(change))
        #expect(try sender.error().word == .permissionDenied)
        try sender.send(.request(FindLimitsRequest(correlation: 4, projectID: TestBroker.project)))
        #expect(try sender.error().word == .permissionDenied)
        let broker = test.broker
        for (changes, project, word) in [
            ([ProjectLimitChange(.groupMembers, to: 50)], "nowhere", ErrorWord.notFound),
            ([ProjectLimitChange(.groupMembers, to: 0)], TestBroker.project, .invalidArgument),
            ([ProjectLimitChange(.groupMembers, to: -1)], TestBroker.project, .invalidArgument),
            ([ProjectLimitChange(.groupMembers, to: .max)], TestBroker.project, .invalidArgument),
        ] {
            let error = await #expect(throws: MartletError.self) {
                try await broker.changeLimits(changes, in: project)
            }
            #expect(error?.word == word)
        }
        await #expect(throws: MartletError.self) { try await broker.limits(of: "nowhere") }
        #expect(try await broker.limits(of: TestBroker.project).allSatisfy { !$0.isOwn })
        try await broker.close()
    }
}
