// SPDX-License-Identifier: Apache-2.0
//
// When a busy loop waits for arrivals before its next turn. Rests on ArrivalWaits.

import Martlet
import Testing

@Suite("A busy loop waits for the answers to its sends, and rarely in vain")
struct ArrivalWaitsTests {
    @Test(
        "The wait grows with the sends, and has a bound",
        arguments: [(0, 0), (23, 0), (24, 7200), (66, 19_800), (67, 20_000), (512, 20_000)])
    func length(sends: Int, nanoseconds: Int) {
        var waits = ArrivalWaits()
        #expect(waits.next(afterSends: sends) == nanoseconds)
    }

    @Test("After waits in vain, twice as many turns have no wait, and 16 at most")
    func inVain() {
        var waits = ArrivalWaits()
        for turns in [1, 2, 4, 8, 16, 16, 16] {
            #expect(waits.next(afterSends: 100) > 0)
            waits.ended(hasBrought: false)
            // Turns with few sends have no wait anyway, and do not count.
            #expect(waits.next(afterSends: 1) == 0)
            for _ in 0..<turns { #expect(waits.next(afterSends: 100) == 0) }
        }
    }

    @Test("After a wait that brought arrivals, each turn may wait again")
    func fruitful() {
        var waits = ArrivalWaits()
        for _ in 0..<5 {
            while waits.next(afterSends: 100) == 0 {}
            waits.ended(hasBrought: false)
        }
        while waits.next(afterSends: 100) == 0 {}
        waits.ended(hasBrought: true)
        #expect(waits.next(afterSends: 100) > 0)
        waits.ended(hasBrought: false)
        #expect(waits.next(afterSends: 100) == 0)
        #expect(waits.next(afterSends: 100) > 0)
    }
}
