// SPDX-License-Identifier: Apache-2.0
//
// The numbers that decide which connection of an instance stays. Rests on ConnectionNumbers.

import Martlet
import MartletBase
import Synchronization
import Testing

/// The time of all nodes.
private final class Time: Sendable {
    let milliseconds = Atomic<Int64>(1_800_000_000_000)
}

@Suite("Connection numbers")
struct ConnectionNumberTests {
    private func numbers(ofRun run: UInt32, _ time: Time) -> ConnectionNumbers {
        ConnectionNumbers(
            ConnectionNumbers.Node(
                clock: {
                    Instant(
                        millisecondsSince1970: time.milliseconds.load(ordering: .relaxed))
                }, run: { run }, epoch: { 1 }))
    }

    @Test("NET-4 OPS-7 nodes give unequal numbers in one millisecond, and each node rising numbers")
    func unequal() {
        let time = Time()
        let nodes = [1, 2, 3, 4095].map { numbers(ofRun: $0, time) }
        var all: Set<UInt64> = []
        for node in nodes {
            // More than a millisecond has room for, so that the numbers run ahead of the clock.
            let given = (0..<1000).map { _ in node.next() }
            #expect(given == given.sorted())
            all.formUnion(given)
        }
        #expect(all.count == 4000)
    }

    @Test("NET-4 OPS-7 the later of two connections has the higher number, whichever node has it")
    func rising() {
        let time = Time()
        let (one, other) = (numbers(ofRun: 4000, time), numbers(ofRun: 7, time))
        var last: UInt64 = 0
        for turn in 0..<100 {
            time.milliseconds.add(1, ordering: .relaxed)
            let number = (turn.isMultiple(of: 2) ? one : other).next()
            #expect(number > last)
            last = number
        }
    }

    @Test("NET-4 a broker alone counts its connections")
    func alone() {
        let numbers = ConnectionNumbers()
        let first = numbers.next()
        #expect((1...3).map { _ in numbers.next() } == [first + 1, first + 2, first + 3])
        // GW-11: the door's sessions are below all connections.
        #expect(numbers.next(isBridge: true) < first)
    }
}
