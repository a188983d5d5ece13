// SPDX-License-Identifier: Apache-2.0
//
// Lines of the log with a count: the last events are told too. Rests on nothing.

import Glibc
import MartletGateway
import Synchronization
import Testing

@Suite("Paced lines of the log", .timeLimit(.minutes(1)))
struct PacedLineTests {
    private final class Told: Sendable {
        let counts = Mutex<[Int]>([])
        var all: [Int] { counts.withLock { $0 } }
    }

    @Test(
        "GW-15 the first event is told at once, later ones when the time is over, without a further one"
    )
    func later() {
        let told = Told()
        let line = PacedLine(every: .milliseconds(200)) { count in
            told.counts.withLock { $0.append(count) }
        }
        let began = ContinuousClock.now
        line.add(0)
        line.add(2)
        #expect(told.all == [2])
        for _ in 0..<10 { line.add(1) }
        while told.all.count < 2 { usleep(1000) }
        #expect(told.all == [2, 10])
        #expect(ContinuousClock.now - began >= .milliseconds(200))
    }
}
