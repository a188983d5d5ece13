// SPDX-License-Identifier: Apache-2.0
//
// Peers that are slow, silent, confused or hostile cost their own connection only (NET, FAN-6).

import Martlet
import MartletWire
import Testing

@Suite("Peers that misbehave")
struct PeerBehaviourTests {
    /// `what | bytes`: each ends its connection with an error, where one can be sent.
    static let broken: [(String, [UInt8])] = [
        ("no frame at all", Array("GET / HTTP/1.1\r\n\r\n".utf8)),
        ("an empty frame", [0, 0, 0, 0]),
        ("a frame longer than any", [255, 255, 255, 255, 1]),
        ("an unknown type", [1, 0, 0, 0, 99]),
        ("a request before HELLO", [9, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("another protocol's magic", [7, 0, 0, 0, 1, 65, 66, 67, 68, 1, 1]),
        ("a version from the future", [7, 0, 0, 0, 1, 77, 82, 84, 76, 9, 1]),
        ("a role that does not exist", [7, 0, 0, 0, 1, 77, 82, 84, 76, 1, 77]),
        ("a HELLO cut short", [8, 0, 0, 0, 1, 77, 82, 84, 76, 1, 2, 200]),
    ]

    @Test("NET-3 broken frames cost their own connection only", arguments: broken.indices)
    func endsBrokenConnections(index: Int) async throws {
        let test = try await TestBroker.open(loops: 1)
        let (bystander, _) = try test.newDevice()
        let peer = try test.peer()
        try peer.send(raw: Self.broken[index].1)
        let error = try peer.error()
        #expect(error.word == .protocolViolation || error.word == .invalidArgument)
        #expect(!error.message.isEmpty)
        try peer.waitForEnd()
        try bystander.roundTrip()
        try await test.broker.close()
    }

    @Test("NET-3 a frame out of place ends the connection")
    func endsOutOfPlaceFrames() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (twice, _) = try test.newDevice()
        try twice.send(
            .hello(.newDevice(projectID: "tides", appName: "a", platform: .android)))
        #expect(try twice.error().word == .protocolViolation)

        let (early, credentials) = try test.newDevice()
        try early.acknowledge(through: 1)
        #expect(try early.error().word == .protocolViolation)
        // It may not claim what was never sent when it connects, either.
        #expect(throws: MartletError.self) {
            try test.connect(credentials, taken: [1 << 40])
        }
        #expect(test.broker.statistics.protocolViolationCount == 2)
        try await test.broker.close()
    }

    @Test("NET-3 a device's frame may have 16 KiB, a sender's 512 KiB")
    func boundsFrames() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, credentials) = try test.newDevice()
        try device.send(raw: [1, 64, 0, 0])
        #expect(try device.error().word == .protocolViolation)
        let sender = try test.sender()
        let tokens = Array(repeating: credentials.token, count: 1000)
        try sender.send(
            .request(
                ChangeTopicRequest(
                    correlation: 1, operation: .subscribe,
                    topic: String(repeating: "t", count: 900), tokens: tokens)))
        #expect(
            try sender.next() == .topicResult(TopicResult(correlation: 1, successes: 1000)))
        try sender.send(raw: [1, 0, 8, 0])
        #expect(try sender.error().word == .protocolViolation)
        try await test.broker.close()
    }

    @Test("NET-3 random bytes never harm anybody else")
    func survivesNoise() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (bystander, credentials) = try test.newDevice()
        var generator = SeededGenerator(seed: 4711)
        for round in 0..<200 {
            let peer = try test.peer()
            var bytes = (0..<Int.random(in: 1...400, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            if round % 2 == 0 {
                // Believable lengths get further.
                bytes[0] = UInt8(truncatingIfNeeded: bytes.count)
                for index in 1..<min(4, bytes.count) { bytes[index] = 0 }
            }
            try? peer.send(raw: bytes)
            peer.close()
        }
        let sender = try test.sender()
        try sender.send(to: .token(credentials.token), n: "calm")
        #expect(try bystander.number() == "calm")
        try await test.broker.close()
    }

    @Test("NET-1 NET-3 a frame may come byte by byte")
    func takesDribbles() async throws {
        let test = try await TestBroker.open(loops: 1)
        let peer = try test.peer()
        var writer = WireWriter()
        ClientFrame.hello(.newDevice(projectID: "tides", appName: "a.b", platform: .apple))
            .encode(into: &writer)
        for byte in writer.bytes { try peer.send(raw: [byte]) }
        #expect(try peer.welcome().token.utf8.count == 32)
        try await test.broker.close()
    }

    @Test("NET-2 NET-3 the silent are disconnected: at the handshake, and when idle")
    func endsSilence() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.handshakeSeconds = 3
            $0.idleSeconds = 4
        }
        let mute = try test.peer()
        let (idle, _) = try test.newDevice()
        let half = try test.peer()
        try half.send(raw: [20, 0, 0])
        #expect(try mute.error().word == .deadlineExceeded)
        #expect(try half.error().word == .deadlineExceeded)
        #expect(try idle.error().word == .deadlineExceeded)
        try idle.waitForEnd()
        try await test.broker.close()
    }

    @Test(
        "NET-2 NET-3 no deadline ends a connection before its time, whenever in a second that began"
    )
    func endsNobodyEarly() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.handshakeSeconds = 2
            $0.idleSeconds = 2
        }
        let clock = ContinuousClock()
        var mute: [(peer: Peer, began: ContinuousClock.Instant)] = []
        for _ in 0..<8 {
            let began = clock.now
            mute.append((try test.peer(), began))
            mute.append((try test.newDevice().peer, began))
            try await Task.sleep(for: .milliseconds(130))
        }
        for (peer, began) in mute {
            #expect(try peer.error().word == .deadlineExceeded)
            #expect(clock.now - began >= .seconds(2))
        }
        try await test.broker.close()
    }

    @Test("NET-5 a stopping broker says so and finishes what it accepted")
    func drains() async throws {
        let test = try await TestBroker.open()
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        for correlation in 1...200 as ClosedRange<UInt32> {
            try sender.send(
                .send(
                    SendRequest(
                        correlation: correlation, target: .token(credentials.token), message: [])))
        }
        try sender.roundTripAmongAnswers()
        try await test.broker.close()
        var answered = sender.acceptedCount
        var isTold = sender.wasDrained
        while let frame = try? sender.next() {
            switch frame {
            case .accepted: answered += 1
            case .draining: isTold = true
            default: break
            }
        }
        #expect(isTold)
        #expect(answered == 200)
        _ = device
        let again = try await TestBroker.open(in: test.folder)
        let back = try again.connect(credentials)
        for _ in 0..<200 { _ = try back.message() }
        try await again.broker.close()
    }

    @Test("FAN-6 a stopped reader delays nobody, holds bounded memory, and misses nothing")
    func survivesStoppedReaders() async throws {
        let test = try await TestBroker.open(loops: 1)
        // Small, so that what it does not read soon waits at the broker's side.
        let (stopped, _) = try test.newDevice(receiveBufferBytes: 16_384)
        _ = try stopped.subscribe("flood")
        let (reader, _) = try test.newDevice()
        _ = try reader.subscribe("flood")
        let sender = try test.sender()
        let text = String(repeating: "x", count: 3900)
        let body = try Message(data: ["n": text]).encoded()
        let count = 3000
        for burst in 0..<(count / 50) {
            for number in 1...50 {
                try sender.send(
                    .send(
                        SendRequest(
                            correlation: UInt32(burst * 50 + number), target: .topic("flood"),
                            message: body)))
            }
            for _ in 1...50 {
                guard case .accepted = try sender.next() else {
                    Issue.record("not accepted")
                    return
                }
                let message = try reader.message()
                #expect(message.message.count == body.count)
                try reader.acknowledge(through: message.streamID)
            }
        }
        #expect(test.broker.statistics.fellBehindCount >= 1)
        // 12 MB were sent; the kernel's buffer and the session's queue hold less than half of that.
        var last: UInt64 = 0
        for _ in 1...count {
            let message = try stopped.message()
            #expect(message.streamID > last)
            last = message.streamID
        }
        try stopped.roundTrip()
        #expect(!stopped.hasMore(milliseconds: 20))
        try await test.broker.close()
    }
}

extension Peer {
    /// Waits until the broker has read everything sent so far; answers that come meanwhile count.
    func roundTripAmongAnswers() throws {
        try send(.ping(Ping(value: 1)))
        while true {
            switch try next() {
            case .pong: return
            case .accepted: acceptedCount += 1
            case .draining: wasDrained = true
            default: break
            }
        }
    }
}
