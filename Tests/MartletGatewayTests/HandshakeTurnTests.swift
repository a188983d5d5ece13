// SPDX-License-Identifier: Apache-2.0
//
// The turns of TLS handshakes by address (GW-15), without sockets, and what a crowd of one address makes of them, on a clock that
// the tests move. Rests on HandshakeTurns.

import Martlet
import MartletGateway
import NIOCore
import Synchronization
import Testing

@Suite("Gateway: turns of handshakes")
struct HandshakeTurnTests {
    /// The connections whose turn has come, in their order.
    private final class Begun: Sendable {
        private let list = Mutex<[Int]>([])
        var all: [Int] { list.withLock { $0 } }
        func add(_ number: Int) { list.withLock { $0.append(number) } }
    }

    private let attacker = PeerAddress("192.0.2.1")!
    private let other = PeerAddress("192.0.2.2")!

    @Test(
        "GW-15 an address has some handshakes at a time; of the others any is next, and other addresses do not wait"
    )
    func places() {
        let turns = HandshakeTurns(most: 2)
        let begun = Begun()
        let numbers = (0..<5).map { number in turns.wait(attacker) { begun.add(number) } }
        #expect(begun.all == [0, 1])
        #expect(turns.isWaitedFor(attacker))
        _ = turns.wait(other) { begun.add(9) }
        #expect(begun.all == [0, 1, 9])
        // Who has left gets no turn.
        #expect(turns.leave(numbers[2], of: attacker))
        turns.end(of: attacker)
        turns.end(of: attacker)
        #expect(begun.all.prefix(3) == [0, 1, 9] && Set(begun.all.dropFirst(3)) == [3, 4])
        #expect(!turns.leave(numbers[3], of: attacker))
        #expect(!turns.isWaitedFor(attacker))
    }

    /// A connection of the crowd, in milliseconds: when it comes, how long it keeps its turn, and how long it waits.
    private struct Arrival {
        var time: Int
        var turn: Int
        var patience = Int.max
    }

    /// How many milliseconds each connection waited for its turn; nil: it left, or waits still.
    private func waits(_ arrivals: [Arrival], until end: Int) -> [Int?] {
        let turns = HandshakeTurns()
        let begun = Begun()
        var (numbers, seenCount) = ([UInt64](), 0)
        var (ends, leaves) = ([Int: Int](), [Int: [Int]]())
        var waits = [Int?](repeating: nil, count: arrivals.count)
        for now in 0..<end {
            for _ in 0..<ends[now, default: 0] { turns.end(of: attacker) }
            for index in leaves[now] ?? [] where waits[index] == nil {
                _ = turns.leave(numbers[index], of: attacker)
            }
            while numbers.count < arrivals.count, arrivals[numbers.count].time <= now {
                let index = numbers.count
                numbers.append(turns.wait(attacker) { begun.add(index) })
                let patience = arrivals[index].patience
                if patience < end { leaves[now + patience, default: []].append(index) }
            }
            for index in begun.all[seenCount...] {
                waits[index] = now - arrivals[index].time
                ends[now + arrivals[index].turn, default: 0] += 1
            }
            seenCount = begun.all.count
        }
        return waits
    }

    @Test(
        "GW-15 half handshakes of an address, however many, do not keep out whoever shares the address",
        arguments: [(50, 1.0), (100, 1.0), (400, 0.05)])
    func halfHandshakes(perSecond: Int, share: Double) {
        let half = Int(HandshakeTurnHandler.turnMax.nanoseconds / 1_000_000)
        let seconds = 20
        var arrivals = (0..<seconds * perSecond).map {
            Arrival(time: $0 * 1000 / perSecond, turn: half)
        }
        arrivals += (0..<seconds * 50).map { Arrival(time: $0 * 20, turn: 50, patience: 5000) }
        arrivals.sort { $0.time < $1.time }
        let told = zip(arrivals, waits(arrivals, until: (seconds + 5) * 1000))
        // A queue is long by then.
        let late = told.filter { $0.0.turn != half && $0.0.time >= seconds * 500 }
        let served = late.filter { $0.1 != nil }
        #expect(Double(served.count) >= share * Double(late.count), "\(served.count)")
        if share == 1 { #expect(served.allSatisfy { $0.1 == 0 }) }
    }

    @Test("GW-15 in a storm of honest clients behind one address every turn is in use to the end")
    func storm() {
        let (count, turn) = (2000, 50)
        let waits = waits(.init(repeating: Arrival(time: 0, turn: turn), count: count), until: 5000)
        let least = count * turn / Limits.httpHandshakesPerAddressMax
        #expect(waits.allSatisfy { $0.map { $0 * 10 <= least * 11 } ?? false })
    }
}
