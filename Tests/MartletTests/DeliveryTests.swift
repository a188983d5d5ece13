// SPDX-License-Identifier: Apache-2.0
//
// A message's whole way over real sockets: live, from the mailbox, in order, once.

import Martlet
import MartletWire
import Testing

@Suite("Delivery")
struct DeliveryTests {
    @Test("MSG-6 TTL-4 a message to a token reaches its connected device", arguments: [1, 2])
    func deliversLive(loops: Int) async throws {
        let test = try await TestBroker.open(loops: loops)
        let (device, credentials) = try test.newDevice()
        let (other, _) = try test.newDevice()
        let sender = try test.sender()
        let accepted = try sender.send(to: .token(credentials.token), n: "7")
        #expect(accepted.recipients == 1)
        let message = try device.message()
        #expect(message.streamID == accepted.messageNumber)
        #expect(message.kind == .token)
        let senderID = try test.broker.project(TestBroker.project).senderID
        #expect(message.from == String(senderID))
        #expect(
            message.expires.millisecondsSince1970 - message.accepted.millisecondsSince1970
                == 2_419_200_000)
        try other.roundTrip()
        #expect(!other.hasMore(milliseconds: 50))
        try await test.broker.close()
    }

    @Test("TOP-5 CON-10 a condition reaches each match once, and nobody else")
    func deliversConditions() async throws {
        let test = try await TestBroker.open()
        let sets: [[String]] = [
            [], ["dogs"], ["cats"], ["dogs", "cats"], ["silent"], ["dogs", "silent"],
        ]
        var devices: [Peer] = []
        for topics in sets {
            let (device, _) = try test.newDevice()
            for topic in topics {
                let result = try device.subscribe(topic)
                #expect(result.successes == 1)
            }
            devices.append(device)
        }
        let sender = try test.sender()
        let cases: [(String, [Int])] = [
            ("'dogs' in topics || 'cats' in topics", [1, 2, 3, 5]),
            ("'dogs' in topics && 'cats' in topics", [3]),
            ("('dogs' in topics || 'cats' in topics) && !('silent' in topics)", [1, 2, 3]),
            ("!('dogs' in topics)", [0, 2, 4]),
            ("'dogs' in topics || 'cats' in topics && 'silent' in topics", [5]),
            ("'nobody' in topics", []),
        ]
        for (number, (condition, matches)) in cases.enumerated() {
            let accepted = try sender.send(to: .condition(condition), n: "\(number)")
            #expect(accepted.recipients == UInt64(matches.count), "\(condition)")
            for (index, device) in devices.enumerated() {
                if matches.contains(index) {
                    #expect(try device.number() == "\(number)", "\(condition) to \(sets[index])")
                }
            }
        }
        for device in devices {
            try device.roundTrip()
            #expect(!device.hasMore(milliseconds: 20))
        }
        try await test.broker.close()
    }

    @Test("TTL-3 TTL-4 what was stored comes in order on the next connection, until acknowledged")
    func deliversStored() async throws {
        let test = try await TestBroker.open()
        let (first, credentials) = try test.newDevice()
        _ = try first.subscribe("weather")
        first.close()
        let sender = try test.sender()
        var numbers: [UInt64] = []
        for index in 0..<40 {
            let target: MessageTarget =
                index % 2 == 0 ? .topic("weather") : .token(credentials.token)
            numbers.append(try sender.send(to: target, n: "\(index)").messageNumber)
        }
        // Twice, because nothing is acknowledged the first time.
        for _ in 0..<2 {
            let device = try test.connect(credentials)
            for index in 0..<40 {
                let message = try device.message()
                #expect(message.streamID == numbers[index])
            }
            device.close()
        }
        let half = try test.connect(credentials)
        for _ in 0..<40 { _ = try half.message() }
        try half.acknowledge(through: numbers[19])
        try half.roundTrip()
        half.finish()
        try half.waitForEnd()
        let rest = try test.connect(credentials, taken: Array(numbers[...24]))
        for index in 25..<40 { #expect(try rest.message().streamID == numbers[index]) }
        try rest.roundTrip()
        #expect(!rest.hasMore(milliseconds: 20))
        try await test.broker.close()
    }

    @Test("TTL-4 a single acknowledgement above the others is remembered")
    func acknowledgesSingly() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        var numbers: [UInt64] = []
        for _ in 0..<5 {
            numbers.append(try sender.send(to: .token(credentials.token)).messageNumber)
            _ = try device.message()
        }
        try device.send(
            .acknowledge(Acknowledge(through: numbers[0], streamIDs: [numbers[2], numbers[4]])))
        try device.roundTrip()
        device.finish()
        try device.waitForEnd()
        // The committer learns of acknowledgements lazily; closing hands over what there is.
        try await test.broker.close()
        let again = try await TestBroker.open(in: test.folder)
        let back = try again.connect(credentials)
        #expect(try back.message().streamID == numbers[1])
        #expect(try back.message().streamID == numbers[3])
        try back.roundTrip()
        #expect(!back.hasMore(milliseconds: 20))
        try await again.broker.close()
    }

    @Test("MSG-6 NET-5 accepted messages and subscriptions survive a restart")
    func survivesRestart() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        _ = try device.subscribe("weather")
        device.close()
        let sender = try test.sender()
        for index in 0..<10 { try sender.send(to: .topic("weather"), n: "\(index)") }
        try await test.broker.close()

        let again = try await TestBroker.open(in: test.folder)
        let sender2 = try again.sender()
        try sender2.send(to: .topic("weather"), n: "10")
        let back = try again.connect(credentials)
        for index in 0...10 { #expect(try back.number() == "\(index)") }
        try await again.broker.close()
    }

    @Test("TTL-2 TTL 0 reaches who is connected and is stored for nobody")
    func deliversNowOrNever() async throws {
        let test = try await TestBroker.open()
        let (here, _) = try test.newDevice()
        _ = try here.subscribe("weather")
        let (away, credentials) = try test.newDevice()
        _ = try away.subscribe("weather")
        away.close()
        let sender = try test.sender()
        try here.roundTrip()
        let accepted = try sender.send(to: .topic("weather"), n: "now", timeToLiveSeconds: 0)
        let message = try here.message()
        #expect(!message.isStored)
        #expect(message.messageNumber == accepted.messageNumber)
        let back = try test.connect(credentials)
        try back.roundTrip()
        #expect(!back.hasMore(milliseconds: 20))
        try await test.broker.close()
    }

    @Test("MSG-7 validate_only checks everything and sends nothing")
    func validates() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        let accepted = try sender.send(to: .token(credentials.token), validateOnly: true)
        #expect(accepted.messageNumber == 0 && accepted.recipients == 1)
        #expect(throws: MartletError.self) {
            try sender.send(to: .condition("'a' in"), validateOnly: true)
        }
        try device.roundTrip()
        #expect(!device.hasMore(milliseconds: 20))
        try await test.broker.close()
    }

    @Test("NET-4 a new connection of an instance replaces its old one", arguments: [1, 4])
    func replaces(loops: Int) async throws {
        let test = try await TestBroker.open(loops: loops)
        let (first, credentials) = try test.newDevice()
        let sender = try test.sender()
        var old = first
        var received: [UInt64] = []
        for round in 0..<8 {
            let new = try test.connect(credentials, taken: received)
            #expect(try old.error().word == .replaced)
            try old.waitForEnd()
            let number = try sender.send(to: .token(credentials.token), n: "\(round)")
            let message = try new.message()
            #expect(message.streamID == number.messageNumber)
            try new.acknowledge(through: message.streamID)
            try new.roundTrip()
            // The next connection says what it has, so nothing comes twice.
            received.append(message.streamID)
            old = try test.connect(credentials, taken: received)
            #expect(try new.error().word == .replaced)
        }
        try await test.broker.close()
    }

    @Test("CON-11 TOP-7 an acknowledged subscription is seen by the next send on any connection")
    func readsItsWrites() async throws {
        let test = try await TestBroker.open(loops: 2)
        let sender = try test.sender()
        for round in 1...60 {
            let (device, _) = try test.newDevice()
            _ = try device.subscribe("race")
            #expect(try sender.send(to: .topic("race")).recipients == UInt64(round))
            _ = try device.message()
        }
        try await test.broker.close()
    }

    @Test("many requests may be outstanding, and every one is answered")
    func pipelines() async throws {
        let test = try await TestBroker.open()
        let (device, _) = try test.newDevice()
        _ = try device.subscribe("busy")
        let sender = try test.sender()
        let count: UInt32 = 5000
        // The peer's socket buffer may fill while nobody reads: so write and read in turns.
        var next: UInt32 = 1
        var answered: Set<UInt32> = []
        var received = 0
        var last: UInt64 = 0
        while answered.count < count || received < count {
            for _ in 0..<250 where next <= count {
                try sender.send(
                    .send(SendRequest(correlation: next, target: .topic("busy"), message: [])))
                next += 1
            }
            while answered.count < next - 1 {
                guard case .accepted(let accepted) = try sender.next() else { return }
                #expect(answered.insert(accepted.correlation).inserted)
            }
            while received < next - 1 {
                let message = try device.message()
                #expect(message.streamID > last)
                last = message.streamID
                received += 1
            }
        }
        try await test.broker.close()
    }

    @Test("MSG-7: a message that is only checked is not counted as accepted, whoever checks it")
    func checked() async throws {
        let test = try await TestBroker.open(loops: 1)
        let sender = try test.sender()
        var message = OutgoingMessage(to: .topic("t"), Message())
        message.validateOnly = true
        for seconds in [0, 60] as [UInt32] {
            try sender.send(to: .topic("t"), timeToLiveSeconds: seconds, validateOnly: true)
            message.timeToLiveSeconds = seconds
            _ = try await test.broker.send(message, in: TestBroker.project)
        }
        #expect(test.broker.statistics.acceptedCount == 0)
        try sender.send(to: .topic("t"))
        try sender.send(to: .topic("t"), timeToLiveSeconds: 0)
        #expect(test.broker.statistics.acceptedCount == 2)
        try await test.broker.close()
    }
}
