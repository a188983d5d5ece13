// SPDX-License-Identifier: Apache-2.0
//
// What a device reports about itself and its messages, discards as events, and a new token (PRI-2, RCP-2, DEV-3, REG-4); a
// sender's options, cancelling and receipts (MSG-9, MSG-10, RCP-1); over real sockets.

import MartletBase
import MartletClient
import MartletWire
import Testing

private func device(
    _ broker: FakeBroker, state: DeviceState = .active
) -> MartletDevice {
    var options = DeviceOptions()
    options.backoff = quickBackoff
    options.acknowledgementDelay = .seconds(3600)
    return MartletDevice(
        host: "127.0.0.1", port: broker.port,
        credentials: DeviceCredentials(projectID: "tides", token: "tok", deviceKey: "dev"),
        deviceState: state, options: options)
}

private func sender(_ broker: FakeBroker) -> MartletSender {
    var options = ClientOptions()
    options.backoff = quickBackoff
    return MartletSender(
        host: "127.0.0.1", port: broker.port, projectID: "tides", serverKey: "key",
        options: options)
}

private func frame(_ connection: FakeConnection) async -> ClientFrame? {
    guard case .frame(let frame) = await connection.next() else { return nil }
    return frame
}

private func receipt(_ connection: FakeConnection) async -> ReceiptRequest? {
    guard case .receipt(let request) = await frame(connection) else { return nil }
    return request
}

@Suite(.timeLimit(.minutes(2))) struct ReportTests {
    @Test("PRI-2 the state is told at once, after what was taken, and in every HELLO")
    func states() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker, state: .background)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            guard case .device(_, _, _, .background, []) = await first.welcome() else {
                Issue.record("another HELLO")
                return
            }
            try await connected
            first.deliver([5])
            if let message = try await messages.next() { await device.acknowledge(message) }
            await device.report(.doze)
            await device.report(.doze)
            await device.report(.active)
            #expect(await first.acknowledgement() == 5)
            #expect(await frame(first) == .deviceState(DeviceStateReport(state: .doze)))
            #expect(await frame(first) == .deviceState(DeviceStateReport(state: .active)))
            await device.report(.doze)
            #expect(await frame(first) == .deviceState(DeviceStateReport(state: .doze)))
            await first.close()
            guard case .device(_, _, _, .doze, [5]) = await broker.connection().welcome() else {
                Issue.record("another HELLO")
                return
            }
            await device.close()
        }
    }

    @Test("DEV-3 discarded messages are an event in their place, acknowledged when taken")
    func deleted() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var events = device.events.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            first.send(.deleted(Deleted(streamID: 9, count: 101)))
            first.deliver([11])
            let event = try await events.next()
            guard case .deleted(let deleted) = event else {
                Issue.record("\(String(describing: event))")
                return
            }
            #expect(deleted.count == 101)
            guard case .message(let message) = try await events.next() else { return }
            #expect(message.streamID == 11)
            await device.close()
            #expect(await first.acknowledgement() == 9)
        }
    }

    @Test("DEV-3 who iterates over messages alone is not stopped by a discard")
    func skipped() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            first.send(.deleted(Deleted(streamID: 9, count: 101)))
            first.deliver([11])
            #expect(try await messages.next()?.streamID == 11)
            await device.close()
            #expect(await first.acknowledgement() == 9)
        }
    }

    @Test("TTL-4 CONFIRMED lets the device forget what it took")
    func confirmed() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            first.deliver(1...3)
            for _ in 1...3 { _ = try await messages.next() }
            #expect(await device.unconfirmed == [1, 2])
            first.send(.confirmed(Confirmed(through: 1)))
            first.deliver([4])
            _ = try await messages.next()
            #expect(await device.unconfirmed == [2, 3])
            await device.close()
        }
    }

    @Test("RCP-2 receipts are told where they are wanted, again until they are answered")
    func receipts() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let first = await broker.connection()
            await first.welcome()
            try await connected
            first.deliver([1 << 63 | 4, 4])
            let unwanted = try #require(try await messages.next())
            await device.opened(unwanted)
            let counted = try #require(try await messages.next())
            await device.opened(counted)
            // REP-1: what was opened is acknowledged before.
            #expect(await first.acknowledgement() == 4)
            let zero = try #require(await receipt(first))
            #expect(zero.kind == .opened && zero.streamID == 4)
            first.send(.done(Done(correlation: zero.correlation)))
            first.deliver([5, 1 << 63 | 6], wantsReceipts: true)
            let stored = try #require(try await messages.next())
            let other = try #require(try await messages.next())
            #expect(stored.wantsReceipts && other.wantsReceipts && !unwanted.wantsReceipts)
            let one = try #require(await receipt(first))
            #expect(one.kind == .received && one.streamID == 5)
            first.send(.done(Done(correlation: one.correlation)))
            let two = try #require(await receipt(first))
            #expect(two.kind == .received && two.streamID == 1 << 63 | 6)
            await device.displayed(stored)
            #expect(await first.acknowledgement() == 5)
            let three = try #require(await receipt(first))
            #expect(three.kind == .displayed && three.streamID == 5)
            first.fail(.notFound, correlation: three.correlation)
            // Proves that the answers above were read.
            first.deliver([7])
            _ = try await messages.next()
            await first.close()
            await device.opened(stored)
            await device.opened(stored)

            let second = await broker.connection()
            await second.welcome()
            let again = try #require(await receipt(second))
            #expect(again.kind == .received && again.streamID == 1 << 63 | 6)
            let opened = try #require(await receipt(second))
            #expect(opened.kind == .opened && opened.streamID == 5)
            await device.close()
        }
    }

    @Test("REG-4 another token: returned, told to who listens, and used for the next connection")
    func rotation() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var tokens = await device.registrationTokens().makeAsyncIterator()
            #expect(await tokens.next() == "tok")
            async let rotated = device.rotateToken()
            let first = await broker.connection()
            await first.welcome()
            guard case .rotate(let request) = await frame(first) else {
                Issue.record("ROTATE expected")
                return
            }
            first.send(.rotated(Rotated(correlation: request.correlation, token: "tok-2")))
            let token = try await rotated
            #expect(token == "tok-2" && device.credentials.token == "tok-2")
            #expect(device.credentials.deviceKey == "dev")
            #expect(await tokens.next() == "tok-2")
            await first.close()
            guard case .device(_, "tok-2", "dev", _, _) = await broker.connection().welcome()
            else {
                Issue.record("the old token")
                return
            }
            await device.close()
            #expect(await tokens.next() == nil)
        }
    }

    @Test(
        "DEV-1 REG-4 the answer to ROTATE is lost: the next WELCOME has the token, and it is not asked for twice"
    )
    func lostRotation() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var tokens = await device.registrationTokens().makeAsyncIterator()
            #expect(await tokens.next() == "tok")
            async let rotated = device.rotateToken()
            let first = await broker.connection()
            await first.welcome()
            guard case .rotate = await frame(first) else {
                Issue.record("ROTATE expected")
                return
            }
            await first.close()
            let second = await broker.connection()
            guard case .device(_, "tok", "dev", _, _) = await second.welcome(token: "tok-2") else {
                Issue.record("the new token cannot be known")
                return
            }
            let token = try await rotated
            #expect(token == "tok-2" && device.credentials.token == "tok-2")
            #expect(await tokens.next() == "tok-2")
            await device.close()
            #expect(await second.next() == .closed, "no second ROTATE")
        }
    }

    @Test(
        "DEV-1 REG-4 ROTATE that the broker never got is sent again; in the end the error is thrown"
    )
    func repeatedRotation() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            async let rotated = device.rotateToken()
            for _ in 0..<2 {
                let connection = await broker.connection()
                await connection.welcome()
                guard case .rotate = await frame(connection) else {
                    Issue.record("ROTATE expected")
                    return
                }
                await connection.close()
            }
            let third = await broker.connection()
            await third.welcome()
            guard case .rotate(let request) = await frame(third) else { return }
            third.send(.rotated(Rotated(correlation: request.correlation, token: "tok-2")))
            let token = try await rotated
            #expect(token == "tok-2")

            async let error = refusal { try await device.rotateToken() }
            for _ in 0..<DeviceOptions().attemptsMax {
                guard case .rotate(let request) = await frame(third) else { return }
                third.fail(.unavailable, correlation: request.correlation, retryDelay: 1)
            }
            #expect(await error?.word == .unavailable)
            #expect(device.credentials.token == "tok-2")
            await device.close()
        }
    }

    @Test("MSG-5 an Apple application gets its dictionary")
    func dictionary() async throws {
        try await FakeBroker.run { broker in
            let device = device(broker)
            var messages = device.messages.makeAsyncIterator()
            async let connected: Void = device.connect()
            let connection = await broker.connection()
            await connection.welcome()
            try await connected
            let message = Message(
                notification: .init(title: "Storm"), data: ["k": "v"],
                apns: .init(
                    notification: .init(body: "Force 9"),
                    payload: .init(
                        subtitle: "North Sea", badge: 3, sound: "horn.caf", category: "warning",
                        threadID: "sea", contentAvailable: true, mutableContent: true,
                        custom: [.init(key: "gusts", value: "[47, 52]")])))
            let variants = try Message.variants(of: message.encoded(), target: .token)
            connection.send(
                .deliver(
                    Deliver(
                        streamID: 1, accepted: Instant(millisecondsSince1970: 1),
                        expires: Instant(millisecondsSince1970: 2), kind: .token,
                        priority: .normal, from: "1", message: variants[0].body, ownNumber: 77)))
            let incoming = try #require(try await messages.next())
            #expect(incoming.messageID == "projects/tides/messages/77")
            #expect(incoming.streamID == 1)
            #expect(
                incoming.apns.text
                    == #"{"aps":{"alert":{"body":"Force 9","subtitle":"North Sea","title":"Storm"},"#
                    + #""badge":3,"category":"warning","content-available":1,"mutable-content":1,"#
                    + #""sound":"horn.caf","thread-id":"sea"},"gusts":[47,52],"k":"v"}"#)
            await device.close()
        }
    }

    @Test("MSG-8, MSG-9, MSG-10, RCP-1 a sender's options go out, and a message is cancelled")
    func senderOptions() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            let at = Instant(millisecondsSince1970: 1_760_000_000_000)
            async let sent = sender.send(
                OutgoingMessage(
                    to: .topic("t"), Message(data: ["k": "v"]), collapseKey: "c",
                    restrictedPackageName: "p", wantsReceipts: true, idempotencyKey: "i",
                    sendAt: at))
            let connection = await broker.connection()
            await connection.welcome()
            guard case .send(let request) = await frame(connection) else { return }
            #expect(request.collapseKey == "c" && request.restrictedPackageName == "p")
            #expect(request.idempotencyKey == "i" && request.sendAt == at)
            #expect(request.options.wantsReceipts && !request.validateOnly)
            connection.send(
                .accepted(
                    Accepted(
                        correlation: request.correlation, messageNumber: 7, recipients: 5,
                        rateLimited: 2, inactive: 1, deferredPlace: 3)))
            let result = try await sent
            #expect(result.rateLimitedCount == 2 && result.inactiveCount == 1)
            #expect(result.deferredPlace == 3)

            async let cancelled = sender.cancel(result.messageID ?? "")
            guard let cancel = await frame(connection)?.request(as: CancelRequest.self) else {
                return
            }
            #expect(cancel.messageNumber == 7)
            connection.send(
                .answer(
                    Cancelled(correlation: cancel.correlation, wasScheduled: true, delivered: 0)))
            let answer = try await cancelled
            #expect(answer.wasScheduled && answer.deliveredCount == 0)
            for text in ["", "projects/other/messages/7", "x", "0", "-1", "9223372036854775808"] {
                #expect(await refusal { try await sender.cancel(text) }?.field == "message_id")
            }
            await sender.close()
        }
    }

    @Test("RCP-1 receipts come one by one, are acknowledged when taken, and go on after a loss")
    func receiptFeed() async throws {
        func event(_ number: UInt64) -> BrokerFrame {
            .receiptEvent(
                ReceiptEvent(
                    eventID: number, messageNumber: 40 + number, token: "tok", kind: .opened,
                    instant: Instant(millisecondsSince1970: 9)))
        }
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let taken = {
                var receipts = sender.receipts.makeAsyncIterator()
                var all: [DeliveryReceipt] = []
                for _ in 1...3 { if let next = try await receipts.next() { all.append(next) } }
                return all
            }()
            let first = await broker.connection()
            await first.welcome()
            guard case .listenReceipts(let request) = await frame(first) else {
                Issue.record("LISTEN_RECEIPTS expected")
                return
            }
            first.send(.done(Done(correlation: request.correlation)), event(1), event(2))
            #expect(
                await frame(first) == .receiptAcknowledge(ReceiptAcknowledge(through: 1)))
            #expect(
                await frame(first) == .receiptAcknowledge(ReceiptAcknowledge(through: 2)))
            await first.close()
            // A broker takes no acknowledgement of what it has not sent on the connection.
            let second = await broker.connection()
            await second.welcome()
            guard case .listenReceipts = await frame(second) else {
                Issue.record("LISTEN_RECEIPTS expected")
                return
            }
            second.send(event(2))
            #expect(
                await frame(second) == .receiptAcknowledge(ReceiptAcknowledge(through: 2)))
            second.send(event(3))
            let all = try await taken
            #expect(all.map(\.messageID) == [41, 42, 43].map { "projects/tides/messages/\($0)" })
            #expect(await second.next() == .closed, "nobody iterates any more")
        }
    }

    @Test(
        "RCP-1 two copies of an iterator that wait at the same time end the process, which says why"
    )
    func copiedIterator() async throws {
        let result = await #expect(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            // Nobody listens there, so both would wait.
            let sender = MartletSender(
                host: "127.0.0.1", port: 1, projectID: "tides", serverKey: "key")
            nonisolated(unsafe) let receipts = sender.receipts.makeAsyncIterator()
            for _ in 0..<2 {
                Task {
                    var copy = receipts
                    _ = try await copy.next()
                }
            }
            try await Task.sleep(for: .seconds(30))
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("while a copy of the iterator waits"))
    }

    @Test("RCP-1 a refusal for good ends the sequence of receipts")
    func receiptsRefused() async throws {
        try await FakeBroker.run { broker in
            let sender = sender(broker)
            async let error = refusal { for try await _ in sender.receipts {} }
            await broker.connection().fail(.unauthenticated)
            #expect(await error?.word == .unauthenticated)
        }
    }
}
