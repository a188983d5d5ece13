// SPDX-License-Identifier: Apache-2.0
//
// What peers can make a broker hold in memory is bounded by connection, by project and in total, and can
// be read (OPS-5, FAN-6): unread frames, unanswered requests, frames that never end. Rests on Support.

import Glibc
import Martlet
import MartletWire
import Testing

@Suite("Memory that peers take", .timeLimit(.minutes(3)))
struct MemoryTests {
    private func waitUntil(_ condition: () async throws -> Bool) async throws {
        for _ in 0..<30_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(try await condition())
    }

    /// A device and a sender of a project beside the one that the test is about.
    private struct Bystander {
        let device: Peer
        let token: String
        let sender: Peer
        var count = 0

        init(_ test: TestBroker) async throws {
            try await test.broker.createOpenProject("calm")
            let key = try await test.broker.createServerKey(named: "k", in: "calm")
            device = try test.peer()
            try device.send(
                .hello(.newDevice(projectID: "calm", appName: "a.b", platform: .android)))
            token = try device.welcome().token
            sender = try test.peer()
            try sender.send(.hello(.sender(projectID: "calm", serverKey: key.text)))
            _ = try sender.welcome()
        }

        /// A message is accepted and arrives.
        mutating func isServed() throws {
            count += 1
            try sender.send(to: .token(token), n: "\(count)")
            let message = try device.message()
            #expect(
                try Message(decoding: message.message, unknownTags: .skip)["n"] == "\(count)")
            try device.acknowledge(through: message.streamID)
        }
    }

    @Test(
        "OPS-5 NET-3 frames that never end: a project's connections keep a bounded number of bytes")
    func unfinished() async throws {
        let test = try await TestBroker.open(loops: 2) {
            $0.limits.requestMegabytesPerProjectMax = 1
            $0.limits.requestMegabytesMax = 2
        }
        var bystander = try await Bystander(test)
        // Each promises 16,000 bytes and sends 15,000 of them.
        let unfinished = [0x80, 0x3E, 0, 0] + [UInt8](repeating: 0x20, count: 15_000)
        var devices: [Peer] = []
        for _ in 0..<100 {
            let (device, _) = try test.newDevice()
            try? device.send(raw: unfinished)
            devices.append(device)
            #expect(test.broker.statistics.requestBytes <= 1 << 20)
        }
        try bystander.isServed()
        // Devices have half a megabyte. Beside the bytes, 256 count for each frame: 34 such frames fit.
        try await waitUntil { test.broker.statistics.requestBytes == 34 * 15_256 }
        let held = try await test.broker.status().projects.map { [$0.project: $0.requestBytes] }
        #expect(held.contains([TestBroker.project: 34 * 15_256]))
        var refused = 0
        for device in devices where device.hasMore(milliseconds: 0) {
            let error = try device.error()
            #expect(error.word == .resourceExhausted)
            #expect(error.message.contains("request-megabytes-per-project"))
            refused += 1
        }
        #expect(refused == 66)
        devices.removeAll()
        try await waitUntil { test.broker.statistics.requestBytes == 0 }
        try bystander.isServed()
        try await test.broker.close()
    }

    @Test("OPS-5 a burst of connections leaves no frames behind, and everybody is served as before")
    func burst() async throws {
        let test = try await TestBroker.open(loops: 1)
        var devices: [(Peer, String)] = []
        for _ in 0..<300 {
            let (device, credentials) = try test.newDevice()
            devices.append((device, credentials.token))
        }
        try await waitUntil { test.broker.statistics.frameBytes == 0 }
        let sender = try test.sender()
        for (number, (device, token)) in devices.enumerated() {
            try sender.send(to: .token(token), n: "\(number)")
            #expect(try device.number() == "\(number)")
        }
        try await test.broker.close()
    }

    @Test("OPS-5 a sender's unanswered requests: it is read from later, each is answered")
    func pipelined() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.requestMegabytesPerProjectMax = 2
        }
        let (_, credentials) = try test.newDevice()
        let sender = try test.sender()
        let request = SendRequest(
            correlation: 1, target: .token(credentials.token),
            message: try Message(data: ["n": String(repeating: "x", count: 3900)]).encoded(),
            validateOnly: true)
        var writer = WireWriter()
        ClientFrame.send(request).encode(into: &writer)
        let count = 3000
        nonisolated(unsafe) let writing = sender
        let block = [UInt8](repeatElement(writer.bytes, count: count).joined())
        let thread = Thread { try? writing.send(raw: block) }
        var most = 0
        for _ in 0..<count {
            let answer = try sender.next()
            guard case .accepted = answer else {
                Issue.record("not accepted: \(answer.refusal)")
                break
            }
            most = max(most, test.broker.statistics.requestBytes)
        }
        thread.join()
        // A connection's bound, the request that reached it, and what was received behind that.
        #expect(most <= 2 << 20)
        #expect(most > 0)
        try sender.roundTrip()
        #expect(test.broker.statistics.requestBytes == 0)
        try await test.broker.close()
    }

    @Test(
        "OPS-5 FAN-6 a project's unread frames: its stopped readers are disconnected, others served, nothing lost"
    )
    func unread() async throws {
        let megabytes = 2
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.frameMegabytesPerProjectMax = megabytes
            $0.limits.frameMegabytesMax = 64
        }
        var bystander = try await Bystander(test)
        let stopped = try (0..<14).map { _ in try test.newDevice(receiveBufferBytes: 16_384) }
        let sender = try test.sender()
        let body = try Message(data: ["n": String(repeating: "x", count: 3900)]).encoded()
        // More than the kernel takes for a connection that is not read from.
        let count = 1400
        var most = 0
        for round in 0..<count {
            for device in stopped {
                try sender.send(
                    .send(
                        SendRequest(
                            correlation: UInt32(round + 1),
                            target: .token(device.credentials.token), message: body)))
            }
            for _ in stopped {
                let answer = try sender.next()
                guard case .accepted = answer else {
                    Issue.record("not accepted: \(answer.refusal)")
                    return
                }
            }
            most = max(most, test.broker.statistics.frameBytes)
            if round % 50 == 0 { try bystander.isServed() }
        }
        // Beside the bound: growth before it is noticed, and free chunks that are kept.
        #expect(most < (megabytes + 8) << 20)
        #expect(most > megabytes << 20, "the load was too light to prove anything")
        try await waitUntil {
            let status = try await test.broker.status().projects.first {
                $0.project == TestBroker.project
            }
            guard let status else { return false }
            return status.connectionCount < stopped.count && status.frameBytes <= megabytes << 20
        }
        try bystander.isServed()
        // Whoever was disconnected has missed nothing.
        for device in stopped.prefix(2) {
            device.peer.close()
            let back = try test.connect(device.credentials)
            var last: UInt64 = 0
            var arrived = 0
            while arrived < count {
                let message = try back.message()
                #expect(message.streamID > last)
                last = message.streamID
                arrived += 1
                try back.acknowledge(through: last)
            }
            back.close()
        }
        try await test.broker.close()
    }
}

extension BrokerFrame {
    /// What an ERROR says.
    fileprivate var refusal: String {
        if case .error(let frame) = self {
            "\(frame.error.word): \(frame.error.message)"
        } else {
            "\(type)"
        }
    }
}
