// SPDX-License-Identifier: Apache-2.0
//
// Peers with valid credentials that use what mailboxes brought to the protocol in ways nobody means to:
// floods, repetitions, numbers of others, everything at its limit. It costs them, and nobody else.

import Martlet
import MartletWire
import Testing

@Suite("Hostile use of mailboxes", .timeLimit(.minutes(3)))
struct MailboxHostilityTests {
    /// The same frame, many times over.
    private static func flood(_ frame: ClientFrame, _ count: Int) -> [UInt8] {
        var writer = WireWriter()
        frame.encode(into: &writer)
        return [UInt8]((0..<count).map { _ in writer.bytes }.joined())
    }

    @Test("RCP-1 NET-3 listening twice is listening once; a flood of RECEIPT_ACKs delays nobody")
    func floodsReceiptAcknowledgements() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, credentials) = try test.newDevice()
        let bystander = try test.sender()
        let accepted = try bystander.send(to: .token(credentials.token), wantsReceipts: true)
        _ = try device.message()
        try device.send(
            .receipt(
                ReceiptRequest(
                    correlation: 1, kind: .received, streamID: accepted.messageNumber)))
        try device.done()

        let listener = try test.sender()
        for correlation in 1...2 as ClosedRange<UInt32> {
            try listener.send(.listenReceipts(ListenReceiptsRequest(correlation: correlation)))
        }
        var doneCount = 0
        var events: [UInt64] = []
        while doneCount < 2 || events.isEmpty {
            switch try listener.next() {
            case .done: doneCount += 1
            case .receiptEvent(let event): events.append(event.eventID)
            case let frame: throw Peer.Failure.unexpected(frame)
            }
        }
        try listener.roundTrip()
        #expect(!listener.hasMore(milliseconds: 20))
        let again = Self.flood(
            .receiptAcknowledge(ReceiptAcknowledge(through: try #require(events.last))), 20_000)
        for _ in 0..<10 {
            try listener.send(raw: again)
            // More than the committer's queue holds is on its way: none of it is refused.
            try bystander.send(to: .token(credentials.token))
        }
        try listener.roundTrip()
        try await test.broker.close()
    }

    @Test("RCP-1 NET-3 a receipt that was not sent here cannot be acknowledged here")
    func refusesForeignReceiptAcknowledgements() async throws {
        let test = try await TestBroker.open(loops: 1)
        for (listens, through) in [(true, 1 as UInt64), (true, .max), (false, 0)] {
            let peer = try test.sender()
            if listens {
                try peer.send(.listenReceipts(ListenReceiptsRequest(correlation: 1)))
                try peer.done()
            }
            try peer.send(.receiptAcknowledge(ReceiptAcknowledge(through: through)))
            #expect(try peer.error().word == .protocolViolation)
            try peer.waitForEnd()
        }
        // Nor by a device, which may not listen either.
        let (device, _) = try test.newDevice()
        try device.send(.listenReceipts(ListenReceiptsRequest(correlation: 4)))
        #expect(try device.error().word == .permissionDenied)
        try device.roundTrip()
        try device.send(.receiptAcknowledge(ReceiptAcknowledge(through: 0)))
        #expect(try device.error().word == .permissionDenied)
        try device.waitForEnd()
        try await test.broker.close()
    }

    @Test("RCP-2 a flood of RECEIPTs is one receipt, and nobody tells anything in another's name")
    func floodsReceipts() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, credentials) = try test.newDevice()
        let (other, otherCredentials) = try test.newDevice()
        let sender = try test.sender()
        let mine = try sender.send(to: .token(credentials.token), wantsReceipts: true)
        _ = try device.message()
        let foreign = try sender.send(to: .token(otherCredentials.token), wantsReceipts: true)
        _ = try other.message()
        try device.send(
            raw: Self.flood(
                .receipt(
                    ReceiptRequest(
                        correlation: 1, kind: .opened, streamID: mine.messageNumber)), 5000))
        for _ in 0..<5000 { try device.done() }
        // Another's message, and numbers that no message has: whatever is answered, the connection stays.
        for streamID in [foreign.messageNumber, 0, .max, 1 << 63, 1 << 40, 1 << 62] {
            try device.send(
                .receipt(ReceiptRequest(correlation: 3, kind: .received, streamID: streamID)))
            switch try device.next() {
            case .done, .error: break
            case let frame: throw Peer.Failure.unexpected(frame)
            }
        }
        try sender.send(.listenReceipts(ListenReceiptsRequest(correlation: 9)))
        try sender.done()
        var numbers: [UInt64] = []
        repeat {
            guard case .receiptEvent(let event) = try sender.next() else {
                Issue.record("no receipt")
                return
            }
            #expect(event.token == credentials.token)
            numbers.append(event.messageNumber)
        } while sender.hasMore(milliseconds: 50)
        #expect(numbers.filter { $0 == mine.messageNumber }.count == 1)
        #expect(Set(numbers).isSubset(of: [mine.messageNumber, foreign.messageNumber]))
        try await test.broker.close()
    }

    @Test("PRI-2 FAN-6 a flood of STATEs delays nobody, and every message comes once, in order")
    func floodsStates() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (first, credentials) = try test.newDevice()
        first.finish()
        try first.waitForEnd()
        let (bystander, _) = try test.newDevice()
        let sender = try test.sender()
        for number in 0..<50 { try sender.send(to: .token(credentials.token), n: "\(number)") }
        let device = try test.connect(credentials, state: .doze)
        var block: [UInt8] = []
        for state in [DeviceState.active, .doze, .background, .doze] {
            block += Self.flood(.deviceState(DeviceStateReport(state: state)), 1)
        }
        let blocks = [UInt8]((0..<2500).map { _ in block }.joined())
        for number in 50..<60 {
            try device.send(raw: blocks)
            try bystander.roundTrip()
            try sender.send(to: .token(credentials.token), n: "\(number)")
        }
        try device.report(.active)
        for number in 0..<60 { #expect(try device.number() == "\(number)") }
        try sender.send(to: .token(credentials.token), n: "last")
        #expect(try device.number() == "last")
        // Not the number of a state.
        try device.send(raw: [2, 0, 0, 0, 0x15, 9])
        #expect(try device.error().word == .protocolViolation)
        try await test.broker.close()
    }

    @Test("REG-4 sends that a rotation overtakes are refused, and what was accepted arrives")
    func rotatesUnderLoad() async throws {
        let test = try await TestBroker.open(loops: 2)
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let message = try Message(data: ["n": "1"]).encoded()
        for correlation in 1...200 as ClosedRange<UInt32> {
            try sender.send(
                .send(
                    SendRequest(
                        correlation: correlation, target: .token(credentials.token),
                        message: message)))
            if correlation == 100 { try device.send(.rotate(RotateRequest(correlation: 1))) }
        }
        var acceptedCount = 0
        var isRefused = false
        for _ in 1...200 {
            switch try sender.next() {
            case .accepted:
                acceptedCount += 1
                #expect(!isRefused, "a token came back")
            case .error(let frame):
                #expect(frame.error.word == .unregistered)
                isRefused = true
            case let frame: throw Peer.Failure.unexpected(frame)
            }
        }
        var tokens: [String] = []
        var arrivedCount = 0
        while tokens.isEmpty || arrivedCount < acceptedCount {
            switch try device.next() {
            case .deliver: arrivedCount += 1
            case .rotated(let rotated): tokens.append(rotated.token)
            case let frame: throw Peer.Failure.unexpected(frame)
            }
        }
        // Many at once: each is a token of its own, and the last one counts.
        for correlation in 2...40 as ClosedRange<UInt32> {
            try device.send(.rotate(RotateRequest(correlation: correlation)))
        }
        for _ in 2...40 {
            guard case .rotated(let rotated) = try device.next() else {
                Issue.record("not rotated")
                return
            }
            tokens.append(rotated.token)
        }
        #expect(Set(tokens + [credentials.token]).count == 41)
        for token in tokens.dropLast() {
            #expect(throws: MartletError.self) { try sender.send(to: .token(token)) }
        }
        let last = try #require(tokens.last)
        try sender.send(to: .token(last), n: "last")
        #expect(try device.number() == "last")
        #expect(throws: MartletError.self) { try test.connect(credentials) }
        let new = InstanceCredentials(token: last, deviceKey: credentials.deviceKey)
        let back = try test.connect(new)
        for _ in 0..<acceptedCount { #expect(try back.number() == "1") }
        #expect(try back.number() == "last")
        try await test.broker.close()
    }

    @Test("TTL-4 HELLO with 1024 stream IDs: none of them comes again; with one more it is refused")
    func listsUnconfirmed() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (first, credentials) = try test.newDevice()
        first.finish()
        try first.waitForEnd()
        let sender = try test.sender()
        let message = try Message(data: ["n": "1"]).encoded()
        let count = 1100
        for correlation in 1...UInt32(count) {
            try sender.send(
                .send(
                    SendRequest(
                        correlation: correlation, target: .token(credentials.token),
                        message: message)))
        }
        var numbers: [UInt64] = []
        while numbers.count < count {
            guard case .accepted(let accepted) = try sender.next() else {
                Issue.record("not accepted")
                return
            }
            numbers.append(accepted.messageNumber)
        }
        // Every other one, so that no mark can stand for them.
        let taken = (0..<count).filter { $0 % 2 == 0 }.map { numbers[$0] }
        let others = (0..<count).filter { $0 % 2 == 1 }.map { numbers[$0] }
        let many = taken + taken.prefix(Limits.unconfirmedStreamIDsMax - taken.count)
        #expect(many.count == 1024)
        for _ in 0..<2 {
            let device = try test.connect(credentials, taken: many)
            for number in others { #expect(try device.message().streamID == number) }
            try device.roundTrip()
            #expect(!device.hasMore(milliseconds: 20))
            device.finish()
            try device.waitForEnd()
        }
        do {
            _ = try test.connect(credentials, taken: many + [numbers[0]])
            Issue.record("It was not refused.")
        } catch let error as MartletError {
            #expect(error.word == .invalidArgument && error.field == "unconfirmed")
        }
        try await test.broker.close()
    }

    @Test("MSG-10 a number that is no message of the project's cancels nothing")
    func cancelsNothing() async throws {
        let test = try await TestBroker.open(loops: 1)
        _ = try await test.broker.createProject("other")
        let foreign = try await test.broker.register(
            app: "com.example.other", platform: .web, in: "other")
        let receipt = try await test.broker.send(
            OutgoingMessage(to: .token(foreign.token), Message(data: ["n": "theirs"])), in: "other")
        let number = try MessageID.number(try #require(receipt.messageID), projectID: "other")
        let sender = try test.sender()
        for number in [number, 0, 7, 1 << 63, 1 << 63 | 1, .max, .max >> 1] as [UInt64] {
            try sender.send(.request(CancelRequest(correlation: 3, messageNumber: number)))
            #expect(try sender.error().word == .notFound)
        }
        let (device, _) = try test.newDevice()
        try device.send(.request(CancelRequest(correlation: 4, messageNumber: 1)))
        #expect(try device.error().word == .permissionDenied)
        try device.roundTrip()
        let peer = try test.peer()
        try peer.send(
            .hello(
                .device(
                    projectID: "other", token: foreign.token, deviceKey: foreign.deviceKey,
                    state: .active, unconfirmed: [])))
        _ = try peer.welcome()
        #expect(try peer.number() == "theirs")
        try await test.broker.close()
    }

    @Test("MSG-3 MSG-5 full blocks are taken, a byte beyond is refused, and nesting is bounded")
    func boundsBlocks() async throws {
        let test = try await TestBroker.open(loops: 1)
        let devices = try Platform.allCases.map { try test.newDevice(platform: $0) }
        for (device, _) in devices { _ = try device.subscribe("all") }
        let sender = try test.sender()
        func send(_ message: Message) throws -> BrokerFrame {
            var writer = WireWriter()
            message.encode(into: &writer)
            try sender.send(
                .send(SendRequest(correlation: 5, target: .topic("all"), message: writer.bytes)))
            return try sender.next()
        }
        // 4000 bytes of payload for each platform (MSG-3).
        func full(_ bytes: Int) -> Message {
            func value(_ letter: Character) -> String {
                String(repeating: letter, count: bytes - 1)
            }
            return Message(
                data: [], android: .init(data: [.init(key: "n", value: value("a"))]),
                apns: .init(data: [.init(key: "n", value: value("b"))]),
                webpush: .init(data: [.init(key: "n", value: value("c"))]))
        }
        guard case .accepted(let accepted) = try send(full(4000)) else {
            Issue.record("not accepted")
            return
        }
        #expect(accepted.recipients == 3)
        var values: [Platform: String] = [:]
        for (platform, device) in zip(Platform.allCases, devices) {
            values[platform] = try device.peer.number()
        }
        #expect(values.values.allSatisfy { $0.utf8.count == 3999 })
        #expect(values[.android]?.first == "a" && values[.apple]?.first == "b")
        #expect(values[.web]?.first == "c")

        let nested = String(repeating: "[", count: 2000) + String(repeating: "]", count: 2000)
        for (message, field) in [
            (full(4001), "message.android"),
            (
                Message(
                    data: [],
                    apns: .init(payload: .init(custom: [.init(key: "deep", value: nested)]))),
                "message.apns"
            ),
            (
                Message(
                    data: [],
                    webpush: .init(options: [
                        .init(key: "k", value: String(repeating: "v", count: 4100))
                    ])), "message.webpush"
            ),
        ] {
            guard case .error(let refusal) = try send(message) else {
                Issue.record("\(field) was accepted")
                continue
            }
            #expect(refusal.correlation == 5 && refusal.error.word == .invalidArgument)
            #expect(refusal.error.field.hasPrefix(field), "\(refusal.error)")
        }
        try sender.roundTrip()
        try await test.broker.close()
    }
}
