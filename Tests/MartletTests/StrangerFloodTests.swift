// SPDX-License-Identifier: Apache-2.0
//
// Floods of strangers on the device port, over real sockets: an address that takes much pays with its own connections,
// and honest peers of other addresses are served (NET-6, OPS-6, REG-7, REG-8). Rests on Support and SecurePeer.

import Foundation
import Logging
import Martlet
import MartletBase
import MartletCrypto
import MartletTransport
import MartletWire
import TLSPeers
import Testing

@Suite("Floods of strangers", .timeLimit(.minutes(3)))
struct StrangerFloodTests {
    private func waitUntil(_ condition: () throws -> Bool) rethrows {
        for _ in 0..<20_000 {
            if try condition() { return }
            usleep(1000)
        }
        #expect(try condition())
    }

    private func openSecure(
        _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> TestBroker {
        let made = try SelfSignedCertificate(names: ["IP:127.0.0.1"])
        return try await TestBroker.open(loops: 1) {
            $0.connectionsPerLoopMax = 2048
            $0.handshakeSeconds = 100
            $0.tls = TLSCredentials(certificate: .text(made.certificate), key: .text(made.key))
            change(&$0)
        }
    }

    /// The first flight of a TLS client.
    private func clientHello() -> [UInt8] {
        let tls = TLSClient(TLSClientContext())
        _ = tls.shake()
        return tls.take()
    }

    // MARK: Handshakes

    @Test(
        "NET-6 OPS-6 a flood of silent TLS handshakes pays with its own, and a slow client of another address ends its handshake"
    )
    func handshakes() async throws {
        let test = try await openSecure()
        // The oldest handshake of all: its server's flight has come, and its own second flight has not left.
        let slow = try test.peer(from: 3)
        let tls = TLSClient(TLSClientContext())
        _ = tls.shake()
        try slow.send(raw: tls.take())
        waitUntil { slow.hasMore(milliseconds: 0) }
        let hello = clientHello()
        var hostile: [Peer] = []
        for _ in 0..<1100 {
            let peer = try test.peer(from: 2)
            try? peer.send(raw: hello)
            hostile.append(peer)
        }
        waitUntil { test.broker.statistics.turnedAwayCount > 0 }
        let honest = try SecurePeer(slow, tls)
        _ = try honest.newDevice()
        try honest.roundTrip()
        #expect(throws: Peer.Failure.self) { while true { try hostile[0].discard(1) } }
        #expect(test.broker.statistics.handshakeCount == 1)
        try await test.broker.close()
    }

    @Test(
        "NET-6 OPS-6 bytes that are no whole record begin no handshake, and count as memory of strangers"
    )
    func partialRecords() async throws {
        let test = try await openSecure()
        let slow = try test.peer(from: 3)
        let tls = TLSClient(TLSClientContext())
        _ = tls.shake()
        try slow.send(raw: tls.take())
        waitUntil { slow.hasMore(milliseconds: 0) }
        // Fewer than an address has places for: the others would wait unread.
        let hostile = try (0..<500).map { _ in
            let peer = try test.peer(from: 2)
            try peer.send(raw: [22, 3, 1, 2, 0])
            return peer
        }
        waitUntil { test.broker.statistics.strangerBytes == 500 * (5 + 256) }
        #expect(test.broker.statistics.secureFailureCount == 0)
        #expect(test.broker.statistics.turnedAwayCount == 0)
        let honest = try SecurePeer(slow, tls)
        _ = try honest.newDevice()
        // A first record that comes byte by byte is whole in the end.
        let pieces = try SecurePeer(test, chunkBytes: 1)
        _ = try pieces.newDevice()
        try pieces.roundTrip()
        for peer in hostile { peer.close() }
        waitUntil { test.broker.statistics.strangerBytes == 0 }
        try await test.broker.close()
    }

    @Test(
        "OPS-6 a peer that asks for new keys without reading holds no memory for the answers, and gets an answer"
    )
    func keyUpdates() async throws {
        let test = try await openSecure()
        let peer = try SecurePeer(test, receiveBufferBytes: 2048)
        let token = try peer.newDevice().token
        let sender = try SecurePeer(test)
        try sender.send(.hello(.sender(projectID: TestBroker.project, serverKey: test.serverKey)))
        _ = try sender.welcome()
        let body = try Message(data: ["n": String(repeating: "y", count: 3900)]).encoded()
        func message(_ number: UInt32) throws {
            try sender.send(
                .send(SendRequest(correlation: number, target: .token(token), message: body)))
            guard case .accepted = try sender.next() else { throw Peer.Failure.silent }
        }
        try message(1)
        guard case .deliver(let first) = try peer.next() else { throw Peer.Failure.silent }
        // The peer reads nothing, and twelve megabytes fill its connection.
        for number in 2...3000 as ClosedRange<UInt32> { try message(number) }
        waitUntil { test.broker.statistics.sealedBytes > 0 }
        for _ in 0..<12_000 {
            peer.tls.updateKey(asking: true)
            try peer.send(.pong(Pong(value: 0)))
        }
        try peer.send(.acknowledge(Acknowledge(through: first.streamID)))
        waitUntil { test.broker.statistics.acknowledgedCount == 1 }
        // One stage of the peer, at most.
        #expect(test.broker.statistics.sealedBytes <= 128 * 1024)
        // The one KEY UPDATE that is owed comes before the next data.
        peer.socket.withDescriptor { descriptor in
            var byteCount: Int32 = 1 << 20
            _ = setsockopt(
                descriptor, SOL_SOCKET, SO_RCVBUF, &byteCount,
                socklen_t(MemoryLayout<Int32>.size))
        }
        try peer.send(.ping(Ping(value: 9)))
        while true { if case .pong = try peer.next() { break } }
        try await test.broker.close()
    }

    // MARK: Places

    @Test("NET-6 strangers never fill the table of places, and devices of other addresses come in")
    func fullTable() async throws {
        let lines = CountingLog.Lines()
        let test = try await TestBroker.open(loops: 1) {
            $0.connectionsPerLoopMax = 64
            $0.handshakeSeconds = 100
            $0.logger = Logger(label: "test") { _ in
                CountingLog(
                    text: "places are scarce: a connection without HELLO was ended", lines: lines,
                    logLevel: .warning)
            }
        }
        let silent = try (0..<200).map { _ in try test.peer(from: 2) }
        var known: [Peer] = []
        for _ in 0..<40 { known.append(try test.newDevice(from: 3).peer) }
        for peer in known { try peer.roundTrip() }
        try silent[0].waitForEnd()
        #expect(test.broker.statistics.turnedAwayCount >= 200 - 64 + 40)
        waitUntil { lines.count == 1 }
        try await test.broker.close()
    }

    @Test("NET-6 an address has at most a quarter of the places without WELCOME, by default")
    func quarter() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.connectionsPerLoopMax = 64
            $0.handshakeSeconds = 100
            $0.limits.handshakesPerAddressMax = Limits.handshakesPerAddressMax
        }
        let waiting = try (0..<16).map { _ in try test.peer(from: 2) }
        waitUntil { test.broker.statistics.connectionCount == 16 }
        try test.peer(from: 2).waitForEnd()
        let (device, _) = try test.newDevice(from: 3)
        try device.roundTrip()
        #expect(!waiting[0].hasMore(milliseconds: 0))
        try await test.broker.close()
    }

    // MARK: Shared connections

    private let unknown = ClientFrame.hello(
        .device(
            projectID: TestBroker.project, token: String(repeating: "A", count: 32),
            deviceKey: String(repeating: "B", count: 43), state: .active, unconfirmed: []))

    @Test("NET-4 NET-6 refused apps do not prolong the life of a shared connection without an app")
    func refusedApps() async throws {
        let test = try await TestBroker.open(loops: 1) { $0.handshakeSeconds = 1 }
        let shared = try SharedPeer(test)
        var isEnded = false
        for _ in 0..<15 where !isEnded {
            do {
                try shared.send(unknown, on: 1)
                #expect(try shared.end(on: 1) != nil)
            } catch { isEnded = true }
            usleep(300_000)
        }
        #expect(isEnded)
        try await test.broker.close()
    }

    @Test("NET-4 NET-6 a shared connection ends after some refused apps; an app with WELCOME stays")
    func manyRefusedApps() async throws {
        let test = try await TestBroker.open(loops: 1) { $0.handshakeSeconds = 100 }
        let shared = try SharedPeer(test)
        for channel in 1...16 as ClosedRange<UInt8> {
            try shared.send(unknown, on: channel)
            #expect(try shared.end(on: channel) == .unregistered)
        }
        // A WELCOME begins the count anew.
        _ = try shared.register(on: 1)
        for channel in 2...17 as ClosedRange<UInt8> {
            try shared.send(unknown, on: channel)
            #expect(try shared.end(on: channel) == .unregistered)
        }
        #expect(try shared.isQuiet(on: 1))
        try shared.send(unknown, on: 18)
        guard case .error(let frame) = try shared.next(on: 0) else { throw Peer.Failure.silent }
        #expect(frame.error.word == .resourceExhausted)
        try shared.peer.waitForEnd()
        try await test.broker.close()
    }

    @Test("NET-6 shared connections without an app give up their places when places are scarce")
    func sharedPlaces() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.connectionsPerLoopMax = 64
            $0.handshakeSeconds = 100
        }
        let hostile = try (0..<60).map { _ in try SharedPeer(test) }
        var known: [Peer] = []
        for _ in 0..<40 { known.append(try test.newDevice(from: 3).peer) }
        for peer in known { try peer.roundTrip() }
        try hostile[0].peer.waitForEnd()
        try await test.broker.close()
    }

    // MARK: Registrations

    @Test("REG-8 refused registrations cost their address none of its registrations")
    func refusedRegistrations() async throws {
        let test = try await TestBroker.open(loops: 1) {
            $0.limits.registrationsPerSecondPerAddress = 1
        }
        _ = try await test.broker.createProject("keyed")
        for _ in 0..<120 {
            let peer = try test.peer(from: 2)
            try peer.send(
                .hello(
                    .newDevice(
                        projectID: "keyed", appName: "a.b", platform: .android,
                        credential: .key("AAAAAAAAAAAA.wrong"))))
            #expect(try peer.error().word == .permissionDenied)
        }
        let (device, _) = try test.newDevice(from: 2)
        try device.roundTrip()
        try await test.broker.close()
    }

    @Test("REG-7 tickets past the bound of a turn wait; a right ticket among wrong ones is good")
    func waitingTickets() async throws {
        let test = try await TestBroker.open(loops: 1)
        _ = try await test.broker.createProject("ticketed")
        try await test.broker.setPolicies(registration: .ticket, in: "ticketed")
        try await test.broker.addTicketSecret(
            [UInt8](repeating: 7, count: 32), id: "k1", in: "ticketed")
        func hello(_ channel: UInt8, in project: String) -> [UInt8] {
            var writer = WireWriter()
            ClientFrame.channel(ChannelSelection(number: channel)).encode(into: &writer)
            ClientFrame.hello(
                .newDevice(
                    projectID: project, appName: "a.b", platform: .android,
                    credential: .ticket("e30.e30.AAAA"))
            ).encode(into: &writer)
            return writer.bytes
        }
        let shared = try (0..<10).map { _ in try SharedPeer(test) }
        // Sixteen wrong tickets in one chunk use up the turn. An open project takes any ticket.
        let chunk =
            (1...16).flatMap { hello($0, in: "ticketed") } + hello(17, in: TestBroker.project)
        for peer in shared { try peer.peer.send(raw: chunk) }
        for peer in shared {
            for channel in 1...16 as ClosedRange<UInt8> {
                #expect(try peer.end(on: channel) == .permissionDenied)
            }
            _ = try peer.welcome(on: 17)
        }
        // A peer that leaves while its ticket waits leaves nothing behind.
        let leaving = try (0..<40).map { _ in
            let peer = try SharedPeer(test)
            try peer.peer.send(raw: chunk)
            return peer
        }
        for peer in leaving + shared { peer.peer.close() }
        waitUntil { test.broker.statistics.connectionCount == 0 }
        waitUntil { test.broker.statistics.requestBytes == 0 }
        try await test.broker.close()
    }

    @Test("REG-7 a ticket key of RSA has at most 4096 bits")
    func ticketKeys() async throws {
        let test = try await TestBroker.open(loops: 1)
        for (bits, isTaken) in [(4096, true), (8192, false)] {
            // A key that nobody has: the checks look at its length.
            let key = Self.publicKey(bits: bits)
            var word: ErrorWord?
            do {
                try await test.broker.addTicketKey(
                    key, for: .rs256, id: "k\(bits)", in: TestBroker.project)
            } catch { word = error.word }
            #expect(word == (isTaken ? nil : .invalidArgument))
        }
        try await test.broker.close()
    }

    /// A SubjectPublicKeyInfo with an odd modulus of so many bits, and the exponent 65537.
    private static func publicKey(bits: Int) -> String {
        func der(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
            let count = content.count
            let length: [UInt8] =
                count < 128
                ? [UInt8(count)]
                : count < 256
                    ? [0x81, UInt8(count)] : [0x82, UInt8(count >> 8), UInt8(count & 255)]
            return [tag] + length + content
        }
        let modulus = [0] + [UInt8](repeating: 0xC5, count: bits / 8)
        let numbers = der(0x30, der(2, modulus) + der(2, [1, 0, 1]))
        let name: [UInt8] = [
            0x30, 13, 6, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1, 5, 0,
        ]
        let bytes = der(0x30, name + der(3, [0] + numbers))
        return """
            -----BEGIN PUBLIC KEY-----
            \(Data(bytes).base64EncodedString())
            -----END PUBLIC KEY-----
            """
    }

    // MARK: Proxies

    @Test("OPS-6 connections of a proxy without a header leave few lines in the log")
    func wrongHeaders() async throws {
        let lines = CountingLog.Lines()
        let test = try await TestBroker.open(loops: 1) {
            $0.listeners = [.init(.init(port: 0), isProxied: true)]
            $0.proxies = [AddressPrefix("127.0.0.1")!]
            $0.logger = Logger(label: "test") { _ in
                CountingLog(
                    text: "a proxy did not name its client by the PROXY protocol",
                    lines: lines, logLevel: .warning)
            }
        }
        for _ in 0..<300 {
            let peer = try test.peer()
            try? peer.send(raw: Array("GET / HTTP/1.0\r\n\r\n".utf8))
            try peer.waitForEnd()
        }
        waitUntil { lines.count >= 1 }
        #expect(lines.count < 150)
        try await test.broker.close()
    }
}

@Suite("Peers by address")
struct PeersByAddressTests {
    private func address(_ number: Int) -> PeerAddress { PeerAddress(v4: UInt32(number + 1)) }

    @Test("the first is the oldest connection of the address with most, whatever comes and goes")
    func likeAList() {
        var random = SystemRandomNumberGenerator()
        var peers = PeersByAddress<ConnectionID>()
        /// In the order of arrival.
        var naive: [(id: ConnectionID, address: PeerAddress)] = []
        for number in 0..<20_000 {
            let isGrowing = number / 500 % 2 == 0
            if naive.isEmpty || UInt8.random(in: 0..<10, using: &random) < (isGrowing ? 7 : 3) {
                let id = ConnectionID(index: UInt32(number), generation: 1)
                let from = address(Int.random(in: 0..<12, using: &random))
                peers.insert(id, from: from)
                naive.append((id, from))
            } else {
                let index = Int.random(in: 0..<naive.count, using: &random)
                let id = number % 3 == 0 ? peers.first! : naive[index].id
                peers.remove(id)
                naive.removeAll { $0.id == id }
                // A proxy has named the connection's client.
                if number % 4 == 0 {
                    let from = address(Int.random(in: 0..<12, using: &random))
                    peers.insert(id, from: from)
                    naive.append((id, from))
                }
            }
            #expect(peers.count == naive.count)
            guard number % 10 == 0 else { continue }
            let counts = Dictionary(grouping: naive, by: \.address).mapValues(\.count)
            for from in 0..<12 {
                #expect(peers.count(of: address(from)) == counts[address(from)] ?? 0)
            }
            guard let first = peers.first, let largest = naive.first(where: { $0.id == first })
            else {
                #expect(naive.isEmpty)
                continue
            }
            #expect(counts[largest.address] == counts.values.max())
            #expect(first == naive.first { $0.address == largest.address }?.id)
        }
    }

    @Test("connections that a proxy's header moves to their clients are no more the proxy's")
    func moved() {
        var peers = PeersByAddress<ConnectionID>()
        let ids = (0..<4).map { ConnectionID(index: UInt32($0), generation: 1) }
        for id in ids { peers.insert(id, from: address(0)) }
        for index in [1, 0] {
            peers.remove(ids[index])
            peers.insert(ids[index], from: address(10 + index))
        }
        #expect(peers.first == ids[2])
        peers.remove(ids[1])
        #expect(peers.first == ids[2])
        for id in ids { peers.remove(id) }
        #expect(peers.first == nil && peers.count == 0)
    }

    @Test("of addresses with one connection each, the oldest is the first")
    func singles() {
        var peers = PeersByAddress<ConnectionID>()
        let ids = (0..<100).map { ConnectionID(index: UInt32($0), generation: 7) }
        for (number, id) in ids.enumerated() { peers.insert(id, from: address(number)) }
        for id in ids {
            #expect(peers.first == id)
            peers.remove(id)
            peers.remove(id)
        }
        #expect(peers.first == nil && peers.count == 0)
    }

    @Test("each address has its turn, in the order of its elements")
    func turns() {
        var turns = AddressTurns<Int>()
        for number in 0..<5 { turns.append(number, of: address(0)) }
        for number in 10..<12 { turns.append(number, of: address(1)) }
        #expect(turns.next() == 0)
        turns.append(20, of: address(2))
        #expect(turns.count == 7 && turns.count(of: address(0)) == 4)
        var served: [Int] = []
        while let next = turns.next() { served.append(next) }
        #expect(served == [10, 1, 20, 11, 2, 3, 4])
        #expect(turns.isEmpty && turns.count(of: address(0)) == 0)
        for number in 0..<3 { turns.append(number, of: address(number)) }
        let found = turns.next { $0 == address(1) }?.element
        let missing = turns.next { _ in false }?.element
        let rest = [turns.next(), turns.next(), turns.next()]
        #expect(found == 1 && missing == nil && rest == [2, 0, nil])
    }
}
