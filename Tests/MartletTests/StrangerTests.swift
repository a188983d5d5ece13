// SPDX-License-Identifier: Apache-2.0
//
// Peers without a credential, over real sockets: what they hold has bounds of its own, and others notice nothing
// (NET-6, REG-8, REG-10, OPS-6). Addresses 127.0.0.2 and others stand for other machines. Rests on Support.

import Glibc
import Logging
import Martlet
import MartletBase
import MartletWire
import Testing

@Suite("Strangers", .timeLimit(.minutes(3)))
struct StrangerTests {
    /// The beginning of a frame of 16 KiB.
    private func unfinished(_ byteCount: Int) -> [UInt8] {
        [0x00, 0x40, 0, 0] + [UInt8](repeating: 7, count: byteCount)
    }

    private func waitUntil(_ condition: () -> Bool) {
        for _ in 0..<20_000 where !condition() { usleep(1000) }
        #expect(condition())
    }

    @Test("NET-6 unfinished first frames of many connections take nothing from projects")
    func unfinishedHandshakes() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.strangerMegabytesMax = 1
            $0.limits.requestMegabytesMax = 2
        }
        let (device, credentials) = try test.newDevice()
        let sender = try test.sender()
        var hostile: [Peer] = []
        for number in 0..<300 {
            let peer = try test.peer(from: 2)
            try? peer.send(raw: unfinished(8000))
            hostile.append(peer)
            if number % 30 == 0 {
                try sender.send(to: .token(credentials.token), n: "\(number)")
                #expect(try device.number() == "\(number)")
            }
        }
        // The first peers hold the memory, and the last peers were told so.
        #expect(try hostile[299].error().word == .unavailable)
        #expect(test.broker.statistics.strangerBytes <= 1 << 20)
        #expect(test.broker.statistics.turnedAwayCount > 0)
        try await test.broker.close()
    }

    @Test("NET-6 the address that holds most memory loses its connections, and others go on")
    func largestHolder() async throws {
        let test = try await TestBroker.open(loops: 1) { $0.limits.strangerMegabytesMax = 1 }
        let hostile = try (0..<120).map { _ in
            let peer = try test.peer(from: 2)
            try peer.send(raw: unfinished(8000))
            return peer
        }
        waitUntil { test.broker.statistics.strangerBytes > 950_000 }
        let honest = try (0..<40).map { _ in
            let peer = try test.peer(from: 3)
            try peer.send(raw: unfinished(4000))
            return peer
        }
        for peer in hostile {
            #expect(try peer.error().word == .resourceExhausted)
            try peer.waitForEnd()
        }
        for peer in honest { #expect(!peer.hasMore(milliseconds: 0)) }
        waitUntil { test.broker.statistics.strangerBytes == 40 * 4256 }
        for peer in honest { peer.close() }
        waitUntil { test.broker.statistics.strangerBytes == 0 }
        try await test.broker.close()
    }

    @Test(
        "NET-6 a frame must come whole in time, however small its parts are",
        arguments: [true, false])
    func slowFrames(isConnected: Bool) async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.frameSeconds = 1
            $0.handshakeSeconds = 100
        }
        let peer = isConnected ? try test.newDevice().peer : try test.peer()
        let (idle, _) = try test.newDevice()
        var isEnded = false
        for byte in unfinished(200) where !isEnded {
            do { try peer.send(raw: [byte]) } catch { isEnded = true }
            isEnded = isEnded || peer.hasMore(milliseconds: 100)
        }
        #expect(try peer.error().word == .deadlineExceeded)
        try peer.waitForEnd()
        // A single byte of a length is a beginning too.
        let short = try test.peer()
        try short.send(raw: [9])
        #expect(try short.error().word == .deadlineExceeded)
        try idle.roundTrip()
        try await test.broker.close()
    }

    @Test("NET-6 devices with unfinished frames take nothing from the senders of their project")
    func devices() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.requestMegabytesPerProjectMax = 1
        }
        let (device, credentials) = try test.newDevice()
        let hostile = try (0..<130).map { _ in
            let (peer, _) = try test.newDevice(from: 2)
            try? peer.send(raw: unfinished(8000))
            return peer
        }
        waitUntil { hostile.contains { $0.hasMore(milliseconds: 0) } }
        let sender = try test.sender()
        try sender.send(to: .token(credentials.token), n: "through")
        #expect(try device.number() == "through")
        try await test.broker.close()
    }

    @Test("NET-6 a peer without a credential that reads no answers holds few")
    func unreadAnswers() async throws {
        let test = try await TestBroker.open(loops: 1) { $0.handshakeSeconds = 100 }
        let peer = try test.peer(receiveBufferBytes: 2048)
        try peer.send(.hello(.shared))
        var ping = WireWriter()
        ClientFrame.ping(Ping(value: 1)).encode(into: &ping)
        let pings = [UInt8]((0..<1000).map { _ in ping.bytes }.joined())
        let flood = Thread { [peer = UncheckedPeer(peer)] in
            while (try? peer.peer.send(raw: pings)) != nil {}
        }
        var highest = 0
        for _ in 0..<500 {
            highest = max(highest, test.broker.statistics.frameBytes)
            usleep(1000)
        }
        // One chunk of frames.
        #expect(highest <= 266_240)
        peer.finish()
        try await test.broker.close()
        flood.join()
    }

    @Test("REG-8 an address registers so many devices in a second, and others are not concerned")
    func registrations() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.registrationsPerSecondPerAddress = 1
        }
        var count = 0
        var refusal: MartletError?
        while refusal == nil, count < 1000 {
            do {
                let (peer, _) = try test.newDevice(from: 2)
                peer.close()
                count += 1
            } catch let error as MartletError { refusal = error }
        }
        #expect(refusal?.word == .resourceExhausted)
        #expect(refusal?.retryDelayMilliseconds ?? 0 > 0)
        // A hundred at once, and one more for each second that passes meanwhile.
        #expect((100..<200).contains(count))
        let (other, credentials) = try test.newDevice(from: 3)
        try other.roundTrip()
        // Coming back is no registration.
        _ = try test.connect(credentials)
        try await test.broker.close()
    }

    @Test("NET-6 an address has so many connections without WELCOME, and others are not concerned")
    func handshakes() async throws {
        let test = try await TestBroker.open(loops: 2) {
            $0.limits.handshakesPerAddressMax = 20
            $0.handshakeSeconds = 100
        }
        let waiting = try (0..<20).map { _ in try test.peer(from: 2) }
        waitUntil { test.broker.statistics.connectionCount == 20 }
        let late = try test.peer(from: 2)
        try late.waitForEnd()
        let (other, _) = try test.newDevice(from: 3)
        try other.roundTrip()
        for peer in waiting { peer.close() }
        waitUntil { test.broker.statistics.connectionCount == 1 }
        try other.roundTrip()
        // WELCOME ends the handshake.
        var known: [Peer] = []
        for _ in 0..<40 { known.append(try test.newDevice(from: 2).peer) }
        try known[39].roundTrip()
        try await test.broker.close()
    }

    @Test("NET-6 connections that say nothing give up their places when places are scarce")
    func scarcePlaces() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.connectionsPerLoopMax = 64
            $0.handshakeSeconds = 100
        }
        let silent = try (0..<60).map { _ in try test.peer(from: 2) }
        // A machine that is busy for seconds lets the first give up their places before the last has come.
        waitUntil {
            let statistics = test.broker.statistics
            return statistics.connectionCount + Int(statistics.turnedAwayCount) >= silent.count
        }
        try await Task.sleep(for: .seconds(4))
        var known: [Peer] = []
        for _ in 0..<40 { known.append(try test.newDevice(from: 3).peer) }
        for peer in known { try peer.roundTrip() }
        try silent[0].waitForEnd()
        try await test.broker.close()
    }

    @Test("REG-10 after some wrong credentials of an address further ones wait, and others do not")
    func wrongCredentials() async throws {
        let lines = CountingLog.Lines()
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.refusalsPerMinutePerAddress = 3
            $0.logger = Logger(label: "test") { _ in
                CountingLog(text: "a credential was refused", lines: lines, logLevel: .warning)
            }
        }
        func wrong(from host: UInt8) throws -> Peer {
            let peer = try test.peer(from: host)
            try peer.send(
                .hello(.sender(projectID: TestBroker.project, serverKey: "AAAAAAAAAAAA.secret")))
            return peer
        }
        for _ in 0..<3 { #expect(try wrong(from: 2).error().word == .unauthenticated) }
        let waiting = try wrong(from: 2)
        #expect(!waiting.hasMore(milliseconds: 300))
        #expect(try wrong(from: 3).error().word == .unauthenticated)
        // A right credential does not wait, even of the same address.
        let sender = try test.sender(from: 2)
        try sender.roundTrip()
        #expect(try waiting.error().word == .unauthenticated)
        #expect((1...5).contains(lines.count))
        try await test.broker.close()
    }

    @Test("REG-10 no answer tells a stranger which projects there are, and each guess counts")
    func guessedProjects() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.refusalsPerMinutePerAddress = 5
        }
        for (project, policy) in [("keyed", RegistrationPolicy.key), ("ticketed", .ticket)] {
            _ = try await test.broker.createProject(project)
            try await test.broker.setPolicies(registration: policy, in: project)
        }
        // Each row from an address of its own, which has few refusals.
        let credentials: [RegistrationCredential] = [
            .none, .key("AAAAAAAAAAAA.secret"), .key(""), .ticket("a.b.c"), .ticket("e30.e30.AAAA"),
        ]
        func answer(_ hello: Hello, from host: UInt8) throws -> MartletError {
            let peer = try test.peer(from: host)
            try peer.send(.hello(hello))
            return try peer.error()
        }
        var host: UInt8 = 10
        for credential in credentials {
            for app in ["com.example.tides", "com example"] {
                host += 1
                let answers = try ["keyed", "ticketed", "nowhere"].map {
                    try answer(
                        .newDevice(
                            projectID: $0, appName: app, platform: .web, credential: credential),
                        from: host)
                }
                #expect(answers[0] == answers[2] && answers[1] == answers[2], "\(credential)")
            }
        }
        for token in [String(repeating: "A", count: 32), "short"] {
            host += 1
            let answers = try ["keyed", "nowhere"].map {
                try answer(
                    .device(
                        projectID: $0, token: token, deviceKey: "k", state: .active,
                        unconfirmed: []), from: host)
            }
            #expect(answers[0] == answers[1], "\(token)")
        }
        for project in ["keyed", "nowhere"] {
            host += 1
            func guess() throws -> Peer {
                let peer = try test.peer(from: host)
                try peer.send(
                    .hello(.newDevice(projectID: project, appName: "a.b", platform: .web)))
                return peer
            }
            for _ in 0..<5 { #expect(try guess().error().word == .permissionDenied) }
            #expect(!(try guess().hasMore(milliseconds: 300)))
        }
        try await test.broker.close()
    }

    // MARK: Plain text and proxies

    @Test("OPS-6 without TLS the broker listens on this machine alone, unless told otherwise")
    func plainElsewhere() async throws {
        let folder = TemporaryFolder()
        var configuration = BrokerConfiguration(
            folder: folder.path, address: .init(host: "0.0.0.0", port: 0))
        configuration.logger.logLevel = .critical
        await #expect { try await Broker.open(configuration) } throws: {
            ($0 as? MartletError)?.word == .invalidArgument
        }
        configuration.allowsPlainElsewhere = true
        try await Broker.open(configuration).close()
        configuration.listeners[0].security = .tls
        await #expect { try await Broker.open(configuration) } throws: {
            ($0 as? MartletError)?.message.contains("certificate") == true
        }
    }

    /// The header of a proxy that names 192.0.2.LAST.
    private func header(_ last: UInt8) -> [UInt8] {
        [0x0D, 0x0A, 0x0D, 0x0A, 0, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A, 0x21, 0x11, 0, 12]
            + [192, 0, 2, last, 127, 0, 0, 1, 0x10, 0, 0x14, 0x6C]
    }

    @Test("OPS-6 NET-7 a proxy names its clients; an administrator from another machine is refused")
    func proxied() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.listeners = [.init(.init(port: 0)), .init(.init(port: 0), isProxied: true)]
            $0.proxies = [AddressPrefix("127.0.0.1")!]
            $0.limits.handshakesPerAddressMax = 5
            $0.handshakeSeconds = 100
        }
        let (plain, proxied) = (test.broker.ports[0], test.broker.ports[1])
        #expect(plain != proxied)
        func administrator(_ port: UInt16, _ header: [UInt8]) throws -> Peer {
            let peer = try Peer(port: port)
            try peer.send(raw: header)
            try peer.send(
                .hello(
                    .administrator(
                        administratorKey: test.broker.administratorKey, projectID: "")))
            return peer
        }
        _ = try administrator(plain, []).welcome()
        #expect(try administrator(proxied, header(1)).error().word == .permissionDenied)
        // A proxy that speaks for itself is a peer of this machine.
        let own: [UInt8] = Array(header(1).prefix(12)) + [0x20, 0, 0, 0]
        _ = try administrator(proxied, own).welcome()
        // Version 1 names the client too. A client without an address may be on another machine.
        func line(_ text: String) -> [UInt8] { Array("PROXY \(text)\r\n".utf8) }
        for text in ["TCP4 192.0.2.1 127.0.0.1 4096 5228", "UNKNOWN"] {
            let error = try administrator(proxied, line(text)).error()
            #expect(error.word == .permissionDenied)
        }
        _ = try administrator(proxied, line("TCP4 127.0.0.1 127.0.0.1 4096 5228")).welcome()
        // Bounds count for the named address.
        var waiting: [Peer] = []
        for _ in 0..<5 {
            waiting.append(try Peer(port: proxied))
            try waiting.last!.send(raw: header(2))
        }
        let late = try Peer(port: proxied)
        try late.send(raw: header(2))
        try late.waitForEnd()
        // The header may come in parts, and with the first frame.
        let parts = try Peer(port: proxied)
        for byte in header(3) { try parts.send(raw: [byte]) }
        try parts.send(
            .hello(.newDevice(projectID: TestBroker.project, appName: "a.b", platform: .apple)))
        _ = try parts.welcome()
        let nginx = try Peer(port: proxied)
        for byte in line("TCP6 2001:db8::7 ::1 4096 5228") { try nginx.send(raw: [byte]) }
        try nginx.send(
            .hello(.newDevice(projectID: TestBroker.project, appName: "a.b", platform: .apple)))
        _ = try nginx.welcome()
        for (host, bytes) in [(1, [UInt8](repeating: 7, count: 20)), (2, header(4))] {
            let peer = try Peer(port: proxied, from: UInt8(host))
            try? peer.send(raw: bytes)
            try peer.waitForEnd()
        }
        try await test.broker.close()
    }

    @Test("a prefix of addresses has the addresses with these bits, of either kind")
    func prefixes() throws {
        for (prefix, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"), ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"), ("0.0.0.0/0", "1.2.3.4", "::1"),
        ] {
            let known = try #require(AddressPrefix(prefix))
            #expect(known.contains(try #require(.init(inside))))
            #expect(!known.contains(try #require(.init(outside))))
        }
        for text in ["", "10.0.0.0/33", "host", "1.2.3.4/", "::/129"] {
            #expect(AddressPrefix(text) == nil)
        }
    }
}

/// A peer whose two halves are used by two threads.
private struct UncheckedPeer: @unchecked Sendable {
    let peer: Peer
    init(_ peer: Peer) { self.peer = peer }
}
