// SPDX-License-Identifier: Apache-2.0
//
// Floods of strangers on the device port, over real sockets: an address that takes much pays with its own connections,
// and honest peers of other addresses are served (NET-6, OPS-6, REG-7, REG-8). Rests on Support and SecurePeer.

import Foundation
import Logging
import Martlet
import MartletTLS
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
        "NET-6 OPS-6 at the bound on TLS handshakes an address with very many ends its own, and a slow client of another address ends its handshake"
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
        waitUntil { test.broker.statistics.turnedAwayCount == 77 }
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
        let hostile = try (0..<1100).map { _ in
            let peer = try test.peer(from: 2)
            try peer.send(raw: [22, 3, 1, 2, 0])
            return peer
        }
        waitUntil { test.broker.statistics.strangerBytes == 1100 * (5 + 256) }
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
        // The peer reads nothing until its connection is full.
        var number: UInt32 = 1
        while test.broker.statistics.sealedBytes < 50_000, number < 5000 {
            number += 1
            try message(number)
        }
        #expect(test.broker.statistics.sealedBytes >= 50_000)
        for _ in 0..<12_000 {
            peer.tls.updateKey(asking: true)
            try peer.send(.pong(Pong(value: 0)))
        }
        try peer.send(.acknowledge(Acknowledge(through: first.streamID)))
        waitUntil { test.broker.statistics.acknowledgedCount == 1 }
        // One stage of the peer, at most.
        #expect(test.broker.statistics.sealedBytes <= 256 * 1024)
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

}

@Suite("Peers by address")
struct PeersByAddressTests {
    private func address(_ number: Int) -> PeerAddress { PeerAddress(v4: UInt32(number + 1)) }

    @Test("the first is the oldest connection of the address with most, whatever comes and goes")
    func likeAList() {
        var random = SystemRandomNumberGenerator()
        var peers = PeersByAddress()
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
            }
            #expect(peers.count == naive.count)
            guard number % 10 == 0 else { continue }
            let counts = Dictionary(grouping: naive, by: \.address).mapValues(\.count)
            for from in 0..<12 {
                #expect(peers.count(of: address(from)) == counts[address(from)] ?? 0)
            }
            guard let largest = peers.largest else {
                #expect(naive.isEmpty)
                continue
            }
            #expect(counts[largest] == counts.values.max())
            #expect(peers.first == naive.first { $0.address == largest }?.id)
        }
    }

    @Test("of addresses with one connection each, the oldest is the first")
    func singles() {
        var peers = PeersByAddress()
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
    }
}
