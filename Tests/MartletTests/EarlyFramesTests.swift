// SPDX-License-Identifier: Apache-2.0
//
// What a client says before it hears WELCOME (NET-8), and what is left of a registration that nobody
// waits for any more (REG-1, CON-4). Rests on Peer.

import Glibc
import Martlet
import MartletWire
import Testing

extension Peer {
    /// All frames in one write.
    func sendTogether(_ frames: [ClientFrame]) throws {
        var writer = WireWriter()
        for frame in frames { frame.encode(into: &writer) }
        try send(raw: writer.bytes)
    }

    /// The next segment carries the end of this half of the connection too: bytes and end are there at
    /// the same moment.
    fileprivate func holdUntilEnd() {
        var on: Int32 = 1
        _ = withDescriptor {
            setsockopt(
                $0, Int32(IPPROTO_TCP), TCP_CORK, &on, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    /// `close` resets the connection.
    fileprivate func resetWhenClosed() {
        var option = Glibc.linger(l_onoff: 1, l_linger: 0)
        _ = withDescriptor {
            setsockopt(
                $0, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<Glibc.linger>.size))
        }
    }
}

@Suite("Before WELCOME")
struct EarlyFramesTests {
    private static let newDevice = ClientFrame.hello(
        .newDevice(projectID: "tides", appName: "com.example.tides", platform: .android))

    private static func subscribing(_ correlation: UInt32) -> ClientFrame {
        .deviceTopics(
            DeviceTopicsRequest(
                operation: .subscribe, correlation: correlation, topics: ["storm"]))
    }

    private static func kind(_ frame: BrokerFrame) -> String {
        switch frame {
        case .welcome: "WELCOME"
        case .pong(let pong): "PONG \(pong.value)"
        case .topicResult(let result): "TOPIC_RESULT \(result.correlation)"
        case .answer where frame.answer(as: QuotaList.self) != nil:
            "QUOTA_LIST \(frame.correlation ?? 0)"
        case .answer where frame.answer(as: ProjectPage.self) != nil:
            "PROJECT_PAGE \(frame.correlation ?? 0)"
        case .channel(let channel): "CHANNEL \(channel.number)"
        case .error(let error): "ERROR \(error.error.word.name)"
        default: "\(frame)"
        }
    }

    @Test("NET-8 what follows HELLO in one write is served behind WELCOME, for every role")
    func together() async throws {
        let test = try await TestBroker.open(loops: 1)
        let (_, credentials) = try test.newDevice()
        let ping = ClientFrame.ping(Ping(value: 8))
        let admin = test.broker.administratorKey
        let device = ClientFrame.hello(
            .device(
                projectID: "tides", token: credentials.token, deviceKey: credentials.deviceKey,
                state: .active, unconfirmed: []))
        let quotas = ClientFrame.request(QuotasRequest(correlation: 3))
        let projects = ClientFrame.request(
            ListProjectsRequest(correlation: 3, after: "", limit: 10))
        let roles: [(role: String, frames: [ClientFrame], answers: [String])] = [
            ("1", [device, ping, Self.subscribing(3)], ["WELCOME", "PONG 8", "TOPIC_RESULT 3"]),
            (
                "2",
                [.hello(.sender(projectID: "tides", serverKey: test.serverKey)), ping, quotas],
                ["WELCOME", "PONG 8", "QUOTA_LIST 3"]
            ),
            (
                "3", [Self.newDevice, ping, Self.subscribing(3)],
                ["WELCOME", "PONG 8", "TOPIC_RESULT 3"]
            ),
            (
                "4",
                [.hello(.administrator(administratorKey: admin, projectID: "")), ping, projects],
                ["WELCOME", "PONG 8", "PROJECT_PAGE 3"]
            ),
            (
                "5, an app of role 3",
                [
                    .hello(.shared), ping, .channel(ChannelSelection(number: 1)), Self.newDevice,
                    ping, Self.subscribing(3),
                ],
                ["WELCOME", "PONG 8", "CHANNEL 1", "WELCOME", "PONG 8", "TOPIC_RESULT 3"]
            ),
        ]
        for (role, frames, answers) in roles {
            let peer = try test.peer()
            try peer.sendTogether(frames)
            var heard: [String] = []
            for _ in answers { heard.append(Self.kind(try peer.next())) }
            #expect(heard == answers, "role \(role)")
        }
        try await test.broker.close()
    }

    @Test("NET-8 a frame that breaks the protocol behind HELLO ends the connection behind WELCOME")
    func broken() async throws {
        let test = try await TestBroker.open(loops: 1)
        var writer = WireWriter()
        Self.newDevice.encode(into: &writer)
        let peer = try test.peer()
        try peer.send(raw: writer.bytes + [1, 0, 0, 0, 99])
        let welcome = try peer.welcome()
        #expect(try peer.error().word == .protocolViolation)
        try peer.waitForEnd()
        // The token was told, so the instance is one.
        _ = try test.connect(
            InstanceCredentials(token: welcome.token, deviceKey: welcome.deviceKey))
        try await test.broker.close()
    }

    @Test("NET-8 NET-6 who says very much before WELCOME is heard in the end, or ended")
    func much() async throws {
        let test = try await TestBroker.open(loops: 1)
        let peer = try test.peer()
        var frames = [Self.newDevice]
        for value in 1...5000 as ClosedRange<UInt64> { frames.append(.ping(Ping(value: value))) }
        try peer.sendTogether(frames)
        _ = try peer.welcome()
        for value in 1...5000 as ClosedRange<UInt64> {
            #expect(try peer.next() == .pong(Pong(value: value)))
        }
        try await test.broker.close()
    }

    @Test(
        "REG-1 CON-4 NET-8 a registration whose connection ended before its answer leaves no instance",
        arguments: ["half", "whole", "reset", "shared"])
    func leavesNoOrphan(end: String) async throws {
        let test = try await TestBroker.open(loops: 1)
        let (device, credentials) = try test.newDevice()
        for _ in 0..<20 {
            let peer = try test.peer()
            var frames = [Self.newDevice]
            if end == "shared" {
                frames = [.hello(.shared), .channel(ChannelSelection(number: 1))] + frames
            }
            if end == "reset" { peer.resetWhenClosed() } else { peer.holdUntilEnd() }
            try peer.sendTogether(frames)
            if end == "half" {
                peer.finish()
                try peer.waitForEnd()
            } else {
                peer.close()
            }
        }
        // Whoever registers after them is told after them, and what is undone soon follows.
        let (_, last) = try test.newDevice()
        for _ in 0..<200 where try test.broker.project("tides").instanceCount != 2 {
            try await Task.sleep(for: .milliseconds(20))
        }
        let tokens = try test.broker.tokens(
            matching: "!('storm' in topics)", in: "tides", limit: 100)
        #expect(Set(tokens.entries) == [credentials.token, last.token])
        // The ordinals are there again, and their next holders are not taken for those who left.
        let sender = try test.sender()
        try sender.send(to: .token(last.token), n: "last")
        try sender.send(to: .token(credentials.token), n: "first")
        #expect(try device.number() == "first")
        try await test.broker.close()
    }
}
