// SPDX-License-Identifier: Apache-2.0
//
// The turns of TLS handshakes by address (GW-15), without sockets. Rests on HandshakeTurns.

import Martlet
import MartletGateway
import MartletTransport
import Synchronization
import Testing

@Suite("Gateway: turns of handshakes")
struct HandshakeTurnTests {
    /// The connections whose turn has come, in their order.
    private final class Begun: Sendable {
        private let list = Mutex<[String]>([])
        var all: [String] { list.withLock { $0 } }
        func add(_ name: String) { list.withLock { $0.append(name) } }
    }

    private let attacker = PeerAddress("192.0.2.1")!
    private let other = PeerAddress("192.0.2.2")!

    @Test(
        "GW-15 an address has some handshakes at a time; further ones wait in their order, others do not"
    )
    func order() {
        let turns = HandshakeTurns(most: 2)
        let begun = Begun()
        let numbers = ["a", "b", "c", "d", "e"].map { name in
            turns.wait(attacker) { begun.add(name) }
        }
        #expect(begun.all == ["a", "b"])
        _ = turns.wait(other) { begun.add("other") }
        #expect(begun.all == ["a", "b", "other"])
        // Who has left the queue gets no turn.
        #expect(turns.leave(numbers[2], of: attacker))
        turns.end(of: attacker)
        #expect(begun.all == ["a", "b", "other", "d"])
        #expect(!turns.leave(numbers[3], of: attacker))
        turns.end(of: attacker)
        #expect(begun.all == ["a", "b", "other", "d", "e"])
    }

    @Test("GW-15 where very many connections of an address wait, the newest comes first")
    func newestFirst() {
        let turns = HandshakeTurns(most: 1)
        let begun = Begun()
        let last = HandshakeTurns.orderedMax + 1
        for number in 0...last { _ = turns.wait(attacker) { begun.add("\(number)") } }
        for _ in 0..<3 { turns.end(of: attacker) }
        // With one fewer they are served in their order.
        #expect(begun.all == ["0", "\(last)", "1", "2"])
    }
}
