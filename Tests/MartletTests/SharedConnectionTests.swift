// SPDX-License-Identifier: Apache-2.0
//
// Several apps of a device on one connection (NET-4): each is a device as on a connection of its own,
// and nothing that becomes of one concerns another. Frame by frame, over real sockets.

import Glibc
import Martlet
import MartletEngine
import MartletWire
import Testing

private let other = "weather"

private func open(
    loops: Int = 2, _ change: (inout BrokerConfiguration) -> Void = { _ in }
) async throws -> TestBroker {
    let test = try await TestBroker.open(loops: loops, change)
    try await test.broker.createOpenProject(other)
    return test
}

extension TestBroker {
    fileprivate func send(_ n: String, to app: SharedPeer.Credentials) async throws {
        let message = OutgoingMessage(to: .token(app.token), Message(data: ["n": n]))
        _ = try await broker.send(message, in: app.project)
    }
}

@Suite("Several apps on one connection", .timeLimit(.minutes(3)))
struct SharedConnectionTests {
    @Test("NET-4 two apps of two projects get their own messages, and never the other's")
    func apart() async throws {
        let test = try await open()
        let shared = try SharedPeer(test)
        let tides = try shared.register(on: 1)
        let weather = try shared.register(in: other, on: 64)
        for number in 0..<200 {
            try await test.send("tides \(number)", to: tides)
            if number % 3 == 0 { try await test.send("weather \(number)", to: weather) }
        }
        for number in 0..<200 { #expect(try shared.message(on: 1).n == "tides \(number)") }
        for number in stride(from: 0, to: 200, by: 3) {
            #expect(try shared.message(on: 64).n == "weather \(number)")
        }
        #expect(try shared.isQuiet(on: 1) && shared.isQuiet(on: 64) && shared.isQuiet(on: 0))
        try await test.broker.close()
    }

    @Test("NET-4 TTL-4 apps acknowledge apart, and each catches up on the next connection")
    func catchesUp() async throws {
        let test = try await open()
        var shared = try SharedPeer(test)
        let apps = [try shared.register(on: 1), try shared.register(in: other, on: 2)]
        for app in apps {
            for number in 1...3 { try await test.send("\(number)", to: app) }
        }
        let streamIDs = try (1...3).map { _ in try shared.message(on: 1).streamID }
        for _ in 1...3 { _ = try shared.message(on: 2) }
        // A stream ID is a project's: the same number means another message on the other channel.
        try shared.send(.acknowledge(Acknowledge(through: streamIDs[1])), on: 1)
        #expect(try shared.isQuiet(on: 1))
        shared.peer.close()
        for app in apps { try await test.send("4", to: app) }

        // On other channels: they are the connection's and not the app's.
        shared = try SharedPeer(test)
        try shared.attach(apps[1], on: 1)
        try shared.attach(apps[0], on: 2)
        #expect(try (1...4).map { _ in try shared.message(on: 1).n } == ["1", "2", "3", "4"])
        #expect(try (1...2).map { _ in try shared.message(on: 2).n } == ["3", "4"])
        #expect(try shared.isQuiet(on: 1) && shared.isQuiet(on: 2))
        try await test.broker.close()
    }

    @Test("NET-4 a new connection of an app replaces its old one, and the others go on")
    func replaced() async throws {
        let test = try await open()
        let shared = try SharedPeer(test)
        let first = try shared.register(on: 1)
        let second = try shared.register(in: other, on: 2)
        let elsewhere = try SharedPeer(test, first, on: 7)
        #expect(try shared.end(on: 1) == .replaced)
        try await test.send("first", to: first)
        try await test.send("second", to: second)
        #expect(try elsewhere.message(on: 7).n == "first")
        #expect(try shared.message(on: 2).n == "second")
        // The channel is free; what was said to it meanwhile is dropped.
        try shared.send(.unregister(UnregisterRequest(correlation: 9)), on: 1)
        try shared.attach(first, on: 1)
        #expect(try elsewhere.end(on: 7) == .replaced)
        // From one channel to another of the same connection.
        try shared.attach(first, on: 3)
        #expect(try shared.end(on: 1) == .replaced)
        #expect(try shared.message(on: 3).n == "first")
        #expect(try shared.isQuiet(on: 2))
        try await test.broker.close()
    }

    @Test("NET-4 REG-3 an app that unregisters or leaves is told so, and the others go on")
    func leaves() async throws {
        let test = try await open()
        let shared = try SharedPeer(test)
        let first = try shared.register(on: 1)
        let second = try shared.register(in: other, on: 2)
        let third = try shared.register(in: other, on: 3)
        try shared.send(.unregister(UnregisterRequest(correlation: 1)), on: 1)
        guard case .done = try shared.next(on: 1) else {
            Issue.record("DONE expected")
            return
        }
        #expect(try shared.end(on: 1) == nil)
        await #expect(throws: MartletError.self) { try await test.send("no", to: first) }

        // What was asked before it leaves is answered.
        for correlation in 1...20 as ClosedRange<UInt32> {
            try shared.send(
                .deviceTopics(
                    DeviceTopicsRequest(
                        operation: .subscribe, correlation: correlation,
                        topics: ["t\(correlation)"])), on: 2)
        }
        try shared.send(.detach(Detach()), on: 2)
        for _ in 1...20 {
            guard case .topicResult = try shared.next(on: 2) else {
                Issue.record("TOPIC_RESULT expected")
                return
            }
        }
        #expect(try shared.end(on: 2) == nil)
        try await test.send("away", to: second)
        try await test.send("here", to: third)
        #expect(try shared.message(on: 3).n == "here")
        try shared.attach(second, on: 2)
        #expect(try shared.message(on: 2).n == "away")
        try await test.broker.close()
    }

    @Test("NET-4 an app that is refused, or breaks the protocol, costs its channel alone")
    func refused() async throws {
        let test = try await open()
        let shared = try SharedPeer(test)
        let good = try shared.register(on: 1)
        let wrong = SharedPeer.Credentials(
            project: good.project, token: good.token, deviceKey: test.serverKey)
        let hellos: [(Hello, ErrorWord)] = [
            (
                .device(
                    projectID: wrong.project, token: wrong.token, deviceKey: wrong.deviceKey,
                    state: .active, unconfirmed: []), .unauthenticated
            ),
            (
                .device(
                    projectID: other, token: good.token, deviceKey: good.deviceKey,
                    state: .active, unconfirmed: []), .unregistered
            ),
            (
                .newDevice(projectID: "none", appName: "com.example", platform: .web),
                .permissionDenied
            ),
            (.newDevice(projectID: other, appName: "", platform: .web), .invalidArgument),
            (.sender(projectID: good.project, serverKey: test.serverKey), .invalidArgument),
            (.administrator(administratorKey: "x", projectID: ""), .invalidArgument),
            (.shared, .invalidArgument),
        ]
        for (hello, word) in hellos {
            try shared.send(.hello(hello), on: 2)
            #expect(try shared.end(on: 2) == word)
        }
        _ = try shared.register(on: 2)
        try shared.send(.acknowledge(Acknowledge(through: 1)), on: 2)
        #expect(try shared.end(on: 2) == .protocolViolation)
        try shared.send(.ping(Ping(value: 1)), on: 2)
        #expect(try shared.isQuiet(on: 1))
        try await test.send("still here", to: good)
        #expect(try shared.message(on: 1).n == "still here")
        try await test.broker.close()
    }

    @Test("NET-3 what is wrong with the connection itself ends all of it")
    func violations() async throws {
        let test = try await open()
        for frame: ClientFrame in [.hello(.shared), .detach(Detach())] {
            let shared = try SharedPeer(test)
            _ = try shared.register(on: 1)
            try shared.send(frame, on: 0)
            guard case .error(let error) = try shared.next(on: 0) else {
                Issue.record("ERROR expected")
                return
            }
            #expect(error.error.word == .protocolViolation)
            try shared.peer.waitForEnd()
        }
        let shared = try SharedPeer(test)
        _ = try shared.register(on: 1)
        try shared.send(
            .hello(.newDevice(projectID: other, appName: "a", platform: .web)), on: 1)
        #expect(throws: Peer.Failure.self) { while true { _ = try shared.next(on: 2) } }

        // A connection of one app has no channels.
        for frame: ClientFrame in [.channel(ChannelSelection(number: 1)), .detach(Detach())] {
            let (device, _) = try test.newDevice()
            try device.send(frame)
            #expect(try device.error().word == .protocolViolation)
            try device.waitForEnd()
        }
        // The connection itself is nobody.
        let nobody = try SharedPeer(test)
        try nobody.send(.unregister(UnregisterRequest(correlation: 1)), on: 0)
        guard case .error(let error) = try nobody.next(on: 0) else {
            Issue.record("ERROR expected")
            return
        }
        #expect(error.correlation == 1 && error.error.word == .permissionDenied)
        _ = try nobody.register(on: 1)
        try await test.broker.close()
    }

    @Test("OPS-5 a broker without room for an app refuses that one; places are used again")
    func places() async throws {
        let test = try await open(loops: 1) { $0.connectionsPerLoopMax = 16 }
        let shared = try SharedPeer(test)
        for channel in 1...16 as ClosedRange<UInt8> { _ = try shared.register(on: channel) }
        for _ in 1...3 {
            try shared.send(
                .hello(
                    .newDevice(
                        projectID: other, appName: "com.example.more", platform: .web)), on: 17)
            #expect(try shared.end(on: 17) == .resourceExhausted)
        }
        for channel in 1...16 as ClosedRange<UInt8> {
            try shared.send(.detach(Detach()), on: channel)
            #expect(try shared.end(on: channel) == nil)
            let app = try shared.register(in: other, on: channel)
            try await test.send("\(channel)", to: app)
            #expect(try shared.message(on: channel).n == "\(channel)")
        }
        // All at once.
        shared.peer.close()
        let next = try SharedPeer(test)
        for channel in 1...16 as ClosedRange<UInt8> {
            var isAttached = false
            while !isAttached {
                do {
                    _ = try next.register(on: channel)
                    isAttached = true
                } catch let error as MartletError {
                    // The broker may not have heard of the end of the former one.
                    #expect(error.word == .resourceExhausted)
                    #expect(try next.end(on: channel) == nil)
                }
            }
        }
        try await test.broker.close()
    }

    @Test("OPS-5 who is refused again and again, and reads nothing, holds few of the places")
    func refusedForEver() async throws {
        let test = try await open(loops: 1) { $0.connectionsPerLoopMax = 160 }
        let hostile = try SharedPeer(test, receiveBufferBytes: 4096)
        hostile.peer.withDescriptor { descriptor in
            var timeout = timeval(tv_sec: 1, tv_usec: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout,
                socklen_t(MemoryLayout<timeval>.size))
        }
        var writer = WireWriter()
        for channel in 1...64 as ClosedRange<UInt8> {
            ChannelSelection(number: channel).encode(into: &writer)
            Hello.newDevice(projectID: "none", appName: "com.example", platform: .web)
                .encode(into: &writer)
        }
        // Until it is not heard any more: then all buffers between the two are full.
        #expect(throws: Peer.Failure.self) {
            while true { try hostile.peer.send(raw: writer.bytes) }
        }

        let good = try SharedPeer(test)
        for channel in 1...32 as ClosedRange<UInt8> { _ = try good.register(on: channel) }
        #expect(try good.isQuiet(on: 32))
        try await test.broker.close()
    }

    @Test("NET-2 NET-3 a connection that no app wants is closed")
    func deserted() async throws {
        let test = try await open { $0.handshakeSeconds = 3 }
        let never = try SharedPeer(test)
        let left = try SharedPeer(test)
        _ = try left.register(on: 1)
        try left.send(.detach(Detach()), on: 1)
        #expect(try left.end(on: 1) == nil)
        for shared in [never, left] {
            guard case .error(let error) = try shared.next(on: 0) else {
                Issue.record("ERROR expected")
                return
            }
            #expect(error.error.word == .deadlineExceeded)
            try shared.peer.waitForEnd()
        }
        try await test.broker.close()
    }

    @Test("NET-5 who has said everything gets its answers, and hears of a broker that stops")
    func ends() async throws {
        let test = try await open()
        let shared = try SharedPeer(test)
        let apps = [try shared.register(on: 1), try shared.register(in: other, on: 2)]
        for channel in [1, 2] as [UInt8] {
            try shared.send(
                .deviceTopics(
                    DeviceTopicsRequest(operation: .subscribe, correlation: 5, topics: ["t"])),
                on: channel)
        }
        shared.peer.finish()
        for channel in [1, 2] as [UInt8] {
            guard case .topicResult = try shared.next(on: channel) else {
                Issue.record("TOPIC_RESULT expected")
                return
            }
        }
        #expect(throws: Peer.Failure.self) { while true { _ = try shared.next(on: 3) } }

        let next = try SharedPeer(test)
        for (app, channel) in zip(apps, [1, 2] as [UInt8]) { try next.attach(app, on: channel) }
        async let closed: Void = test.broker.close()
        guard case .draining = try next.next(on: 0) else {
            Issue.record("DRAINING expected")
            return
        }
        try next.peer.waitForEnd()
        try await closed
    }

    @Test("FAN-6 apps of a slow reader get every byte of theirs, whoever's turn it is")
    func slowReader() async throws {
        let test = try await open(loops: 1)
        let shared = try SharedPeer(test, receiveBufferBytes: 4096)
        let apps = [
            try shared.register(on: 1), try shared.register(in: other, on: 2),
            try shared.register(in: other, on: 3),
        ]
        let long = String(repeating: "x", count: 3000)
        await withThrowingTaskGroup(of: Void.self) { group in
            for app in apps {
                group.addTask {
                    for number in 0..<600 { try await test.send("\(number) \(long)", to: app) }
                }
            }
        }
        for channel in [3, 1, 2] as [UInt8] {
            for number in 0..<600 {
                #expect(try shared.message(on: channel).n == "\(number) \(long)")
            }
            #expect(try shared.isQuiet(on: channel))
        }
        try await test.broker.close()
    }
}
