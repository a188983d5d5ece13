// SPDX-License-Identifier: Apache-2.0
//
// What a broker holds back, discards, counts and tells of, over real sockets and a clock that the
// tests move: nothing waits for real.

import Glibc
import Martlet
import MartletClient
import MartletWire
import Testing

@Suite("Mailboxes", .timeLimit(.minutes(2)))
struct MailboxTests {
    private func open(
        _ clock: TestClock, _ change: (inout BrokerLimits) -> Void = { _ in }
    ) async throws -> TestBroker {
        var limits = BrokerLimits()
        change(&limits)
        return try await TestBroker.open(loops: 1) {
            $0.clock = { clock.instant }
            $0.limits = limits
        }
    }

    @Test("PRI-1 PRI-2 a doze holds normal messages back, and their end brings them in order")
    func dozes() async throws {
        let test = try await open(TestClock())
        let (device, credentials) = try test.newDevice()
        try device.report(.doze)
        try device.roundTrip()
        let sender = try test.sender()
        for number in 0..<3 {
            try sender.send(to: .token(credentials.token), n: "normal \(number)")
            try sender.send(
                to: .token(credentials.token), n: "high \(number)", priority: .high)
        }
        for number in 0..<3 { #expect(try device.number() == "high \(number)") }
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        try device.report(.background)
        for number in 0..<3 { #expect(try device.number() == "normal \(number)") }
        try sender.send(to: .token(credentials.token), n: "live")
        #expect(try device.number() == "live")
        try await test.broker.close()
    }

    @Test("PRI-1 TTL-2 now or never is never for a dozing device, unless it is urgent")
    func nowOrNever() async throws {
        let test = try await open(TestClock())
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        try sender.send(to: .token(credentials.token), n: "awake", timeToLiveSeconds: 0)
        #expect(try device.number() == "awake")
        try device.report(.doze)
        try device.roundTrip()
        try sender.send(to: .token(credentials.token), n: "normal", timeToLiveSeconds: 0)
        try sender.send(
            to: .token(credentials.token), n: "high", timeToLiveSeconds: 0, priority: .high)
        #expect(try device.number() == "high")
        try device.report(.active)
        try device.roundTrip()
        device.close()
        try sender.send(to: .token(credentials.token), n: "away", timeToLiveSeconds: 0)
        let next = try test.connect(credentials)
        try next.roundTrip()
        #expect(!next.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test(
        "TTL-4 what the broker has read an acknowledgement of does not come to the next connection")
    func acknowledgedAtOnce() async throws {
        let test = try await open(TestClock()) { $0.deviceMessagesPerMinute = 0 }
        let sender = try test.sender()
        var (device, credentials) = try test.newDevice()
        for number in 0..<50 {
            try sender.send(to: .token(credentials.token), n: "\(number)")
            let message = try device.message()
            let text = try Message(decoding: message.message, unknownTags: .skip)["n"]
            #expect(text == "\(number)")
            try device.acknowledge(through: message.streamID)
            // The answer says that everything before it was read.
            if number % 2 == 0 { try device.roundTrip() }
            device.close()
            device = try test.connect(credentials)
        }
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test("COL-4 the 21st collapsible message waits for a token, three minutes away")
    func throttles() async throws {
        let clock = TestClock()
        let test = try await open(clock)
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        for number in 1...22 {
            try sender.send(
                to: .token(credentials.token), n: "\(number)", collapseKey: "key \(number % 4)")
        }
        try sender.send(to: .token(credentials.token), n: "plain")
        for number in 1...20 { #expect(try device.number() == "\(number)") }
        #expect(try device.number() == "plain")
        clock.advance(seconds: 179)
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        clock.advance(seconds: 1)
        #expect(try device.number() == "21")
        // Collapsed while it waits (COL-1).
        try sender.send(to: .token(credentials.token), n: "last", collapseKey: "key 2")
        clock.advance(seconds: 180)
        #expect(try device.number() == "last")
        try await test.broker.close()
    }

    @Test("TTL-3 what has expired is not delivered")
    func expires() async throws {
        let clock = TestClock()
        let test = try await open(clock)
        let (first, credentials) = try test.newDevice()
        first.close()
        let sender = try test.sender()
        try sender.send(to: .token(credentials.token), n: "short", timeToLiveSeconds: 60)
        try sender.send(to: .token(credentials.token), n: "long", timeToLiveSeconds: 61)
        clock.advance(seconds: 60)
        let device = try test.connect(credentials)
        #expect(try device.number() == "long")
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    /// A device that comes back to so many messages, and is told first that most were discarded.
    private func returning(
        behind count: Int, _ test: TestBroker
    ) throws -> (device: Peer, credentials: InstanceCredentials, deleted: Deleted) {
        let (first, credentials) = try test.newDevice()
        first.close()
        let sender = try test.sender()
        for number in 1...count { try sender.send(to: .token(credentials.token), n: "\(number)") }
        let device = try test.connect(credentials)
        let frame = try device.next()
        guard case .deleted(let deleted) = frame else { throw Peer.Failure.unexpected(frame) }
        return (device, credentials, deleted)
    }

    @Test("STO-1 the 101st stored message discards all, which is told once, with the count")
    func overflows() async throws {
        let test = try await open(TestClock()) { $0.deviceMessagesPerMinute = 0 }
        let (device, credentials, deleted) = try returning(behind: 103, test)
        #expect(deleted.count == 101)
        #expect(try device.number() == "102")
        let last = try device.message()
        try device.acknowledge(through: last.streamID)
        try device.roundTrip()
        device.finish()
        try device.waitForEnd()
        let next = try test.connect(credentials)
        try next.roundTrip()
        #expect(!next.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test("STO-1 TTL-4 a device that names the notice when it connects again is not told once more")
    func namesNotice() async throws {
        let test = try await open(TestClock()) { $0.deviceMessagesPerMinute = 0 }
        let (device, credentials, deleted) = try returning(behind: 102, test)
        #expect(try device.number() == "102")
        device.close()
        let next = try test.connect(credentials, taken: [deleted.streamID])
        #expect(try next.number() == "102")
        try next.roundTrip()
        #expect(!next.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test(
        "STO-1 the 101st message that a doze holds back discards all, which is told when it ends, whatever the clock does",
        arguments: [0, -3600, 3600])
    func overflowsInDoze(clockLeapSeconds: Int64) async throws {
        let clock = TestClock()
        let test = try await open(clock) { $0.deviceMessagesPerMinute = 0 }
        let (device, credentials) = try test.newDevice()
        try device.report(.doze)
        try device.roundTrip()
        let sender = try test.sender()
        for number in 1...205 {
            if number == 60 { clock.advance(seconds: clockLeapSeconds) }
            try sender.send(to: .token(credentials.token), n: "\(number)")
        }
        try sender.send(to: .token(credentials.token), n: "high", priority: .high)
        #expect(try device.number() == "high")
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        try device.report(.active)
        let frame = try device.next()
        guard case .deleted(let deleted) = frame else { throw Peer.Failure.unexpected(frame) }
        #expect(deleted.count == 202)
        for number in 203...205 { #expect(try device.number() == "\(number)") }
        // It is not acknowledged, and told again.
        device.close()
        let next = try test.connect(credentials, taken: [])
        guard case .deleted(let again) = try next.next() else {
            throw Peer.Failure.unexpected(frame)
        }
        #expect(again.count == 202)
        try await test.broker.close()
    }

    @Test("STO-1 messages for a device that is awake are on their way, however many, however slow")
    func doesNotOverflow() async throws {
        let test = try await open(TestClock()) { $0.deviceMessagesPerMinute = 0 }
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        for number in 1...150 { try sender.send(to: .token(credentials.token), n: "\(number)") }
        for number in 1...150 { #expect(try device.number() == "\(number)") }
        // Nothing was acknowledged, and the next connection comes at once.
        device.close()
        let next = try test.connect(credentials)
        for number in 1...150 { #expect(try next.number() == "\(number)") }
        try await test.broker.close()
    }

    @Test("QUO-1 the 241st message to a device in a minute is refused with a retry delay")
    func refuses() async throws {
        let clock = TestClock()
        let test = try await open(clock)
        let (_, credentials) = try test.newDevice()
        let sender = try test.sender()
        for number in 1...240 { try sender.send(to: .token(credentials.token), n: "\(number)") }
        do {
            try sender.send(to: .token(credentials.token))
            Issue.record("It was not refused.")
        } catch let error as MartletError {
            #expect(error.word == .quotaExceeded)
            #expect(error.retryDelayMilliseconds == 250)
        }
        clock.advance(seconds: 1)
        try sender.send(to: .token(credentials.token))
        try await test.broker.close()
    }

    @Test("MSG-10 who has not got a cancelled message does not get it; who has is counted")
    func cancels() async throws {
        let clock = TestClock()
        let test = try await open(clock)
        let (here, _) = try test.newDevice()
        let (away, credentials) = try test.newDevice()
        _ = try here.subscribe("storms")
        _ = try away.subscribe("storms")
        away.finish()
        try away.waitForEnd()
        let sender = try test.sender()
        let accepted = try sender.send(to: .topic("storms"))
        let message = try here.message()
        try here.acknowledge(through: message.streamID)
        try here.roundTrip()
        here.finish()
        try here.waitForEnd()
        let later = try sender.send(
            to: .topic("storms"), n: "later", sendAt: clock.instant.advanced(bySeconds: 60))
        for (number, wasScheduled) in [
            (accepted.messageNumber, false), (later.messageNumber, true),
        ] {
            try sender.send(.request(CancelRequest(correlation: 99, messageNumber: number)))
            let frame = try sender.next()
            guard let cancelled = frame.answer(as: Cancelled.self) else {
                throw Peer.Failure.unexpected(frame)
            }
            #expect(cancelled.wasScheduled == wasScheduled)
            if !wasScheduled { #expect(cancelled.delivered == 1) }
        }
        let device = try test.connect(credentials)
        clock.advance(seconds: 61)
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test("MSG-10 a scheduled message comes when it is due, to whom it is for by then")
    func schedules() async throws {
        let clock = TestClock()
        let test = try await open(clock)
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let accepted = try sender.send(
            to: .token(credentials.token), n: "later",
            sendAt: clock.instant.advanced(bySeconds: 60))
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 50))
        clock.advance(seconds: 60)
        let message = try device.message()
        #expect(message.streamID > accepted.messageNumber)
        try await test.broker.close()
    }

    @Test("RCP-1 RCP-2 receipts are kept while no sender listens, and told in order until taken")
    func receipts() async throws {
        let test = try await open(TestClock())
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let accepted = try sender.send(to: .token(credentials.token), wantsReceipts: true)
        sender.close()
        let message = try device.message()
        let kinds: [ReceiptKind] = [.received, .displayed, .opened]
        for kind in kinds + [.opened] {
            try device.send(
                .receipt(
                    ReceiptRequest(correlation: 7, kind: kind, streamID: message.streamID)))
            try device.done()
        }
        // Nobody acknowledges the first time.
        for _ in 0..<2 {
            let listener = try test.sender()
            try listener.send(.listenReceipts(ListenReceiptsRequest(correlation: 1)))
            try listener.done()
            var last: UInt64 = 0
            for kind in kinds {
                let frame = try listener.next()
                guard case .receiptEvent(let event) = frame else {
                    throw Peer.Failure.unexpected(frame)
                }
                #expect(event.kind == kind && event.eventID > last)
                #expect(event.messageNumber == accepted.messageNumber)
                #expect(event.token == credentials.token)
                last = event.eventID
            }
            try listener.roundTrip()
            #expect(!listener.hasMore(milliseconds: 50))
            listener.close()
        }
        try await test.broker.close()
    }

    @Test(
        "RCP-1 an embedder that waits for receipts writes nothing until the next one was handed out"
    )
    func embeddedReceipts() async throws {
        let test = try await open(TestClock())
        let (device, credentials) = try test.newDevice()
        let accepted = try test.sender().send(to: .token(credentials.token), wantsReceipts: true)
        try device.send(
            .receipt(
                ReceiptRequest(
                    correlation: 7, kind: .received, streamID: try device.message().streamID)))
        try device.done()
        let (broker, file) = (test.broker, test.folder.path + "/data.mdb")
        let waiting = Task {
            var receipts = broker.receipts(in: TestBroker.project).makeAsyncIterator()
            let first = try await receipts.next()
            try await receipts.take()
            // Without its data file the broker refuses everything that it would have to write.
            unlink(file)
            return (first, try await receipts.next())
        }
        // The wait for the second one ends at once.
        waiting.cancel()
        let (first, second) = try await waiting.value
        #expect(first?.kind == .received && first?.token == credentials.token)
        #expect(
            first?.messageID
                == MessageID.text(accepted.messageNumber, projectID: TestBroker.project))
        #expect(second == nil)
        try await test.broker.close()
    }

    @Test("RCP-1 a sender that listens goes on after a restart of the broker, without repetition")
    func listensOn() async throws {
        let folder = TemporaryFolder()
        var test = try await TestBroker.open(in: folder, loops: 1) {
            $0.reconnectDelayMilliseconds = 1
        }
        let port = test.broker.port!
        let sender = MartletSender(
            host: "127.0.0.1", port: Int(port), projectID: TestBroker.project,
            serverKey: test.serverKey)
        var receipts = sender.receipts.makeAsyncIterator()
        let (first, credentials) = try test.newDevice()
        var device = first
        let accepted = try test.sender().send(to: .token(credentials.token), wantsReceipts: true)
        func tell(_ kind: ReceiptKind) throws {
            try device.send(
                .receipt(
                    ReceiptRequest(
                        correlation: 1, kind: kind, streamID: accepted.messageNumber)))
            try device.done()
        }
        _ = try device.message()
        try tell(.received)
        #expect(try await receipts.next()?.kind == .received)

        // That is taken only when the next one is asked for: on another connection.
        try await test.broker.close()
        test = try await TestBroker.open(in: folder, loops: 1) { $0.address!.port = port }
        device = try test.connect(credentials)
        _ = try device.message()
        try tell(.displayed)
        #expect(try await receipts.next()?.kind == .displayed)
        try tell(.opened)
        #expect(try await receipts.next()?.kind == .opened)
        await receipts.take()

        // A receipt is taken a moment after that was said.
        var isEmpty = false
        for _ in 0..<100 where !isEmpty {
            let listener = try test.sender()
            try listener.send(.listenReceipts(ListenReceiptsRequest(correlation: 1)))
            try listener.done()
            isEmpty = !listener.hasMore(milliseconds: 20)
            if !isEmpty { try await Task.sleep(for: .milliseconds(20)) }
        }
        #expect(isEmpty)
        await sender.close()
        try await test.broker.close()
    }

    @Test("TTL-4 a device is told when its acknowledgements are on disk, and need not repeat them")
    func confirms() async throws {
        let test = try await open(TestClock()) { $0.deviceMessagesPerMinute = 0 }
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let count = 80
        var numbers: [UInt64] = []
        for number in 0..<count {
            numbers.append(
                try sender.send(to: .token(credentials.token), n: "\(number)").messageNumber)
        }
        for number in numbers {
            let message = try device.message()
            #expect(message.streamID == number)
            try device.acknowledge(through: number)
        }
        let frame = try device.next()
        guard case .confirmed(let confirmed) = frame else { throw Peer.Failure.unexpected(frame) }
        #expect(confirmed.through >= numbers[63] && confirmed.through <= numbers[79])
        // WELCOME says the same.
        let peer = try test.peer()
        try peer.send(
            .hello(
                .device(
                    projectID: TestBroker.project, token: credentials.token,
                    deviceKey: credentials.deviceKey, state: .active, unconfirmed: [])))
        #expect(try peer.welcome().acknowledgedThrough >= confirmed.through)
        try await test.broker.close()
    }
}
