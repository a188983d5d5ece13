// SPDX-License-Identifier: Apache-2.0
//
// Messages from devices to listening senders, on several loops and in this process, and what becomes of them when a sender
// leaves, is slow or breaks the rules, over real sockets (UPS-1, QUO-2).

import Martlet
import MartletWire
import Testing

extension Peer {
    /// Sends and waits for the answer.
    @discardableResult
    fileprivate func sendUpstream(
        _ id: String, _ n: String = "1", seconds: UInt32? = nil, group: String = ""
    ) throws -> UInt64 {
        try send(
            .upstream(
                UpstreamRequest(
                    correlation: nextCorrelation(), group: group, messageID: id,
                    timeToLiveSeconds: seconds, message: try Message(data: ["n": n]).encoded())))
        let frame = try next()
        switch frame {
        case .upstreamAccepted(let accepted): return accepted.number
        case .error(let error): throw error.error
        default: throw Failure.unexpected(frame)
        }
    }

    fileprivate func listenUpstream() throws {
        try send(.listenUpstream(ListenUpstreamRequest(correlation: nextCorrelation())))
        try done()
    }

    fileprivate func upstreamMessage() throws -> UpstreamDelivery {
        let frame = try next()
        guard case .upstreamMessage(let message) = frame else { throw Failure.unexpected(frame) }
        return message
    }

    fileprivate func takeUpstream(_ numbers: UInt64...) throws {
        try send(.upstreamAcknowledge(UpstreamAcknowledge(numbers: numbers)))
    }
}

@Suite("Messages of devices over the wire", .timeLimit(.minutes(2)))
struct UpstreamTests {
    private func listener(_ test: TestBroker) throws -> Peer {
        let sender = try test.sender()
        try sender.listenUpstream()
        return sender
    }

    @Test(
        "UPS-1: each message comes to one of the senders that listen, whatever loops they are on; what it has not acknowledged when it goes comes to the other, and to whoever listens after a restart"
    )
    func handedOver() async throws {
        let test = try await TestBroker.open(loops: 2)
        let (device, credentials) = try test.newDevice(app: "com.example.gauge")
        let senders = try (0..<4).map { _ in try listener(test) }
        for number in 1...8 as ClosedRange<UInt64> {
            #expect(try device.sendUpstream("m\(number)", "\(number)") == number)
        }
        var numbers: [UInt64] = []
        for sender in senders {
            for _ in 0..<2 {
                let message = try sender.upstreamMessage()
                #expect(message.token == credentials.token)
                #expect(message.appName == "com.example.gauge")
                #expect(message.messageID == "m\(message.number)")
                let content = try Message(decoding: message.message, unknownTags: .skip)
                #expect(content["n"] == "\(message.number)")
                numbers.append(message.number)
            }
        }
        #expect(numbers.sorted() == Array(1...8))
        // The first takes one of its two and goes; the second takes both.
        try senders[0].takeUpstream(numbers[0])
        try senders[0].roundTrip()
        try senders[1].takeUpstream(numbers[2], numbers[3])
        try senders[1].roundTrip()
        senders[0].close()
        var again: UpstreamDelivery?
        for sender in senders[1...] where again == nil && sender.hasMore(milliseconds: 1000) {
            again = try sender.upstreamMessage()
        }
        #expect(again?.number == numbers[1])
        try await test.broker.close()

        let later = try await TestBroker.open(in: test.folder)
        let sender = try listener(later)
        let left = try (0..<5).map { _ in try sender.upstreamMessage().number }
        #expect(left == (numbers[4...] + [numbers[1]]).sorted())
        // Repeated over the restart, it is not sent twice.
        let same = try later.connect(credentials)
        #expect(try same.sendUpstream("m3") == 3)
        #expect(try same.sendUpstream("m9") == 9)
        #expect(try sender.upstreamMessage().number == 9)
        try await later.broker.close()
    }

    @Test("UPS-1: who has had a message for 60 seconds without a word sees it go to another")
    func slow() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        let (device, _) = try test.newDevice()
        let slow = try listener(test)
        try device.sendUpstream("a")
        #expect(try slow.upstreamMessage().number == 1)
        let other = try listener(test)
        clock.advance(seconds: 59)
        #expect(!other.hasMore(milliseconds: 1500))
        clock.advance(seconds: 1)
        #expect(try other.upstreamMessage().number == 1)
        // Both may take it.
        try slow.takeUpstream(1)
        try other.takeUpstream(1)
        try slow.roundTrip()
        try other.roundTrip()
        slow.close()
        other.close()
        #expect(try !listener(test).hasMore(milliseconds: 300))
        try await test.broker.close()
    }

    @Test(
        "UPS-1 OPS-5: for an embedder that asks for nothing a window of messages waits, without those that another has taken"
    )
    func slowEmbedder() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        let (device, _) = try test.newDevice()
        var slow = test.broker.upstreamMessages(in: TestBroker.project).makeAsyncIterator()
        try device.sendUpstream("first")
        #expect(try await slow.next()?.messageID == "first")
        try await slow.take()
        let window = Limits.upstreamWindow
        for round in 0..<3 {
            for number in 0..<window { try device.sendUpstream("\(round) \(number)") }
            clock.advance(seconds: 60)
            let other = try listener(test)
            let numbers = try (0..<window).map { _ in try other.upstreamMessage().number }
            try other.send(.upstreamAcknowledge(UpstreamAcknowledge(numbers: numbers)))
            try other.roundTrip()
            other.close()
        }
        try device.sendUpstream("last")
        var count = 0
        while try await slow.next()?.messageID != "last" { count += 1 }
        #expect(count <= window)
        try await test.broker.close()
    }

    @Test(
        "UPS-1: a message expires with its time to live; now or never needs a sender that listens")
    func lives() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open { $0.clock = { clock.instant } }
        let (device, _) = try test.newDevice()
        #expect(throws: MartletError.self) { try device.sendUpstream("never", seconds: 0) }
        try device.sendUpstream("short", seconds: 10)
        try device.sendUpstream("long", seconds: 20)
        clock.advance(seconds: 10)
        let sender = try listener(test)
        #expect(try sender.upstreamMessage().messageID == "long")
        try device.sendUpstream("now", seconds: 0)
        let now = try sender.upstreamMessage()
        #expect(now.messageID == "now" && now.accepted == now.expires)
        sender.close()
        let other = try listener(test)
        #expect(try other.upstreamMessage().messageID == "long")
        #expect(!other.hasMore(milliseconds: 300))
        try await test.broker.close()
    }

    @Test(
        "UPS-1 OPS-5: a sender that acknowledges nothing has a hundred messages and no more, of whatever size; what it takes makes room"
    )
    func window() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, _) = try test.newDevice()
        let text = String(repeating: "x", count: 3900)
        for number in 0..<250 { try device.sendUpstream("\(number)", text) }
        let peer = try test.peer(receiveBufferBytes: 4096)
        try peer.send(
            .hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        _ = try peer.welcome()
        try peer.listenUpstream()
        var numbers = try (0..<100).map { _ in try peer.upstreamMessage().number }
        #expect(!peer.hasMore(milliseconds: 300))
        try peer.takeUpstream(numbers[0], numbers[1])
        numbers += try (0..<2).map { _ in try peer.upstreamMessage().number }
        #expect(!peer.hasMore(milliseconds: 300))
        try peer.send(.upstreamAcknowledge(UpstreamAcknowledge(numbers: Array(numbers[2...]))))
        while numbers.count < 250 {
            let number = try peer.upstreamMessage().number
            numbers.append(number)
            try peer.takeUpstream(number)
        }
        #expect(numbers == Array(1...250))
        try await test.broker.close()
    }

    @Test(
        "GRP-7: a member's message comes to the others of its group, connected or not, once, from the group; who is none is refused"
    )
    func group() async throws {
        let test = try await TestBroker.open(loops: 2)
        let members = try (0..<3).map { _ in try test.newDevice() }
        let (stranger, _) = try test.newDevice()
        let listening = try listener(test)
        let group = try await test.broker.createGroup(
            named: "phones", tokens: members.map(\.credentials.token), in: TestBroker.project)
        members[2].peer.close()
        let number = try members[0].peer.sendUpstream("a", "hello", group: group.key)
        // Who does not know whether it was accepted sends it again.
        #expect(
            try members[0].peer.sendUpstream("a", "hello", group: group.key) == number)
        let away = try test.connect(members[2].credentials)
        for member in [members[1].peer, away] {
            let message = try member.message()
            #expect(message.from == group.key)
            #expect(
                try Message(decoding: message.message, unknownTags: .skip)["n"] == "hello")
            try member.roundTrip()
            #expect(!member.hasMore(milliseconds: 20))
        }
        // Neither the member itself nor the project's senders hear of it.
        try members[0].peer.roundTrip()
        #expect(!members[0].peer.hasMore(milliseconds: 20))
        #expect(!listening.hasMore(milliseconds: 20))
        #expect(throws: MartletError.self) {
            try stranger.sendUpstream("b", group: group.key)
        }
        try await test.broker.close()
    }

    @Test(
        "UPS-1 REG-5 GRP-7: only devices send and only senders listen; what is wrong names its field"
    )
    func rules() async throws {
        let test = try await TestBroker.open()
        let (device, _) = try test.newDevice()
        let sender = try test.sender()
        func refusal(_ body: () throws -> Void) -> MartletError? {
            do { try body() } catch { return error as? MartletError }
            return nil
        }
        #expect(refusal { try device.listenUpstream() }?.word == .permissionDenied)
        #expect(refusal { try sender.sendUpstream("a") }?.word == .permissionDenied)
        #expect(refusal { try device.sendUpstream("") }?.field == "message_id")
        #expect(refusal { try device.sendUpstream("a", seconds: 2_419_201) }?.field == "ttl")
        let group = refusal { try device.sendUpstream("a", group: "no-such-key") }
        #expect(group?.word == .notFound && group?.field == "group")
        try device.send(
            .upstream(
                UpstreamRequest(
                    correlation: 77, messageID: "a",
                    message: try Message(notification: .init(title: "Hi")).encoded())))
        let shown = try device.error()
        #expect(shown.word == .invalidArgument && shown.field == "message")
        // What was never sent cannot be acknowledged.
        try sender.listenUpstream()
        try sender.takeUpstream(1)
        #expect(try sender.error().word == .protocolViolation)
        try sender.waitForEnd()
        try await test.broker.close()
    }

    @Test("QUO-2: over the wire, with the delay, and readable by the project's senders")
    func quotas() async throws {
        let clock = TestClock()
        let test = try await TestBroker.open {
            $0.limits.deviceUpstreamPerMinute = 2
            $0.limits.upstreamPerMinute = 3
            $0.clock = { clock.instant }
        }
        let (one, _) = try test.newDevice()
        let (two, _) = try test.newDevice()
        try one.sendUpstream("a")
        try one.sendUpstream("b")
        do {
            try one.sendUpstream("c")
            Issue.record("The third was accepted.")
        } catch let error as MartletError {
            #expect(error.word == .quotaExceeded && error.retryDelayMilliseconds == 30_000)
        }
        try two.sendUpstream("a")
        do {
            try two.sendUpstream("b")
            Issue.record("The project's fourth was accepted.")
        } catch let error as MartletError {
            #expect(error.word == .resourceExhausted && error.retryDelayMilliseconds == 20_000)
        }
        let left = try test.broker.quotas(in: TestBroker.project)
        #expect(
            left.map(\.name) == ["upstream-per-minute"] && left[0].limit == 3
                && left[0].remaining == 0 && left[0].untilFullMilliseconds == 60_000)
        clock.advance(seconds: 20)
        try two.sendUpstream("b")
        try await test.broker.close()
    }

    @Test(
        "UPS-1 EMB-1: an embedder sends for a device and takes what devices send, beside senders that are connected; what it does not take comes again"
    )
    func embedded() async throws {
        let test = try await TestBroker.open()
        let (broker, project) = (test.broker, TestBroker.project)
        let (_, credentials) = try test.newDevice()
        for number in 1...3 {
            let message = Message(data: ["n": "\(number)"])
            let place = try await broker.sendUpstream(
                message, from: credentials.token, in: project, messageID: "\(number)")
            #expect(place == UInt64(number))
        }
        do {
            var messages = broker.upstreamMessages(in: project).makeAsyncIterator()
            let first = try #require(try await messages.next())
            #expect(first.number == 1 && first["n"] == "1" && first.token == credentials.token)
            #expect(try await messages.next()?.messageID == "2")
        }
        // The first was taken, the second not.
        var again = broker.upstreamMessages(in: project).makeAsyncIterator()
        var numbers: Set<UInt64> = []
        while !numbers.isSuperset(of: [2, 3]) {
            numbers.insert(try #require(try await again.next()).number)
        }
        try await again.take()
        // Nothing comes any more: the wait ends with the task, and with the broker.
        let waiting = Task {
            var messages = broker.upstreamMessages(in: project).makeAsyncIterator()
            return try await messages.next()
        }
        try await Task.sleep(for: .milliseconds(50))
        waiting.cancel()
        #expect(try await waiting.value == nil)
        let other = Task {
            var messages = broker.upstreamMessages(in: project).makeAsyncIterator()
            return try await messages.next()
        }
        try await Task.sleep(for: .milliseconds(50))
        try await broker.close()
        await #expect(throws: MartletError.self) { try await other.value }
    }
}
