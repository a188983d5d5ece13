// SPDX-License-Identifier: Apache-2.0
//
// Who is read, who waits and who gives a place up, event by event on a clock of numbers (NET-12, NET-6).

import Martlet
import MartletBase
import MartletTransport
import Testing

@Suite("Places for handshakes")
struct HandshakePlacesTests {
    private func id(_ number: Int) -> ConnectionID {
        ConnectionID(index: UInt32(number), generation: 1)
    }
    private func address(_ number: Int) -> PeerAddress { PeerAddress(v4: UInt32(number + 1)) }

    private func places(_ count: Int) -> HandshakePlaces {
        HandshakePlaces(placesMax: count, silentMillisecondsMax: 1000)
    }

    /// `#expect` does not take calls that change a value.
    private func expect<Value: Equatable>(
        _ found: Value, _ expected: Value, at location: SourceLocation = #_sourceLocation
    ) {
        #expect(found == expected, sourceLocation: location)
    }

    @Test("NET-12 newcomers wait in the order of their arrivals, and end no handshake")
    func order() {
        var places = places(8)
        // One address has half of the places.
        let begun = (0..<20).filter { places.arrive(id($0), from: address(0), at: 0) }
        #expect(begun == [0, 1, 2, 3])
        #expect(places.begunCount == 4 && places.hasWaiting)
        expect(places.next(at: 0), nil)
        expect(places.silent(at: 1000), nil)
        places.leave(id(2))
        expect(places.next(at: 0), id(4))
        expect(places.next(at: 0), nil)
        // One that has given up has no turn.
        places.leave(id(5))
        places.leave(id(0))
        expect(places.next(at: 0), id(6))
    }

    @Test("NET-6 an address has at most as many places as are free, so another finds one")
    func shares() {
        var places = places(12)
        func begin(_ from: Int, _ numbers: Range<Int>) -> Int {
            numbers.count { places.arrive(id($0), from: address(from), at: 0) }
        }
        #expect(begin(0, 0..<50) == 6)
        #expect(begin(1, 100..<150) == 3)
        #expect(begin(2, 200..<250) == 2)
        #expect(begin(3, 300..<350) == 1)
        #expect(places.begunCount == 12)
        // Addresses have turns: the largest waits until it has fewer than are free.
        #expect(begin(4, 400..<401) == 0)
        places.leave(id(0))
        expect(places.next(at: 0), id(400))
        places.leave(id(400))
        expect(places.next(at: 0), nil)
        for number in 1..<6 { places.leave(id(number)) }
        let next = (0..<4).map { _ in places.next(at: 0) }
        #expect(next == [id(6), id(103), id(202), id(301)])
    }

    @Test("NET-12 a crowd of addresses with a device each is served in order")
    func crowd() {
        var places = places(100)
        let begun = (0..<5000).count { places.arrive(id($0), from: address($0), at: 0) }
        #expect(begun == 100)
        for number in 0..<4900 {
            places.leave(id(number))
            expect(places.next(at: 0), id(number + 100))
        }
        #expect(!places.hasWaiting && places.begunCount == 100)
    }

    @Test(
        "NET-6 a silent peer gives its place up when others wait, and bytes that lead to nothing do not help"
    )
    func silence() {
        var places = places(4)
        for number in 0..<2 { _ = places.arrive(id(number), from: address(0), at: 0) }
        #expect(places.begunCount == 2)
        places.hear(id(0))
        places.waitForPeer(id(0), hasAnswered: true, at: 500)
        // Nobody waits.
        expect(places.silent(at: 5000), nil)
        expect(places.arrive(id(2), from: address(0), at: 700), false)
        expect(places.silent(at: 1000), nil)
        places.hear(id(1))
        // The peer waits for the loop.
        expect(places.silent(at: 1001), nil)
        places.waitForPeer(id(1), hasAnswered: false, at: 1400)
        expect(places.silent(at: 1500), nil)
        expect(places.silent(at: 1501), id(0))
        places.leave(id(0))
        expect(places.next(at: 1501), id(2))
        expect(places.arrive(id(3), from: address(0), at: 1501), false)
        expect(places.silent(at: 1501), id(1))
        places.leave(id(1))
        expect(places.silent(at: 2501), nil)
        expect(places.next(at: 2501), id(3))
    }

    @Test("NET-6 peers that say nothing hold no place while others wait")
    func unspoken() {
        var places = places(4)
        // Each address has one connection, and the silent ones have all places.
        for number in 0..<4 { _ = places.arrive(id(number), from: address(number), at: 0) }
        expect(places.yield(at: 1000), nil)
        expect(places.arrive(id(10), from: address(10), at: 1000), false)
        places.hear(id(1))
        expect(places.yield(at: 50), nil)
        expect(places.yield(at: 1000), id(0))
        expect(places.next(at: 1000), id(10))
        // The one that gave way waits for its next turn, behind those that came before.
        expect(places.arrive(id(11), from: address(11), at: 1000), false)
        expect(places.yield(at: 1000), id(2))
        expect(places.next(at: 1000), id(0))
        expect(places.yield(at: 1000), id(3))
        expect(places.next(at: 1000), id(11))
        // Only those that have just begun are left, and the one that spoke.
        expect(places.yield(at: 1000), nil)
        expect(places.yield(at: 1101), id(10))
        // What comes in the same moment is not lost.
        places.resume(id(10), from: address(10), at: 1101)
        #expect(places.begunCount == 4)
    }

    @Test("NET-6 a silent peer keeps its place before a crowd of an address that has more places")
    func slowPeer() {
        var places = places(8)
        _ = places.arrive(id(0), from: address(0), at: 0)
        for number in 1..<10 { _ = places.arrive(id(number), from: address(1), at: 1) }
        #expect(places.begunCount == 5)
        // The oldest is of an address with one place, and the crowd has four.
        for number in 1..<5 {
            expect(places.silent(at: 2000), id(number))
            places.leave(id(number))
        }
        while let next = places.next(at: 2000) { #expect(next != id(0)) }
        expect(places.silent(at: 3000), nil)
        // One whose address has no place comes before it.
        for number in 20..<24 { _ = places.arrive(id(number), from: address(number), at: 3000) }
        expect(places.silent(at: 3000), id(0))
    }

    @Test(
        "NET-12 nobody waits who may begin, and each address keeps its order, whatever comes and goes"
    )
    func histories() {
        var random = SeededGenerator(seed: 7)
        var places = places(30)
        var begun: [(id: Int, from: Int)] = []
        var waiting: [(id: Int, from: Int)] = []
        for number in 0..<20_000 {
            switch UInt8.random(in: 0..<8, using: &random) {
            case 0..<4:
                let from = Int.random(in: 0..<9, using: &random)
                if places.arrive(id(number), from: address(from), at: 0) {
                    #expect(!waiting.contains { $0.from == from })
                    begun.append((number, from))
                } else {
                    waiting.append((number, from))
                }
            case 4..<7 where !begun.isEmpty:
                let index = Int.random(in: 0..<begun.count, using: &random)
                places.leave(id(begun.remove(at: index).id))
            case 7 where !waiting.isEmpty:
                let index = Int.random(in: 0..<waiting.count, using: &random)
                places.leave(id(waiting.remove(at: index).id))
            default: break
            }
            while let next = places.next(at: 0) {
                guard let index = waiting.firstIndex(where: { id($0.id) == next }) else {
                    Issue.record("\(next) does not wait")
                    return
                }
                let one = waiting.remove(at: index)
                #expect(!waiting[..<index].contains { $0.from == one.from })
                begun.append(one)
            }
            #expect(places.begunCount == begun.count && begun.count <= 30)
            #expect(places.hasWaiting == !waiting.isEmpty)
            for one in waiting {
                #expect(begun.count { $0.from == one.from } >= 30 - begun.count)
            }
        }
    }
}
