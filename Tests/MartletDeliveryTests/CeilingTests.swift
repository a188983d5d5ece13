// SPDX-License-Identifier: Apache-2.0
//
// The ceiling on deliveries over all loops, on a clock that the test moves (FAN-7). Rests on FairnessTests' world.

import EngineBench
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import Testing

@Suite("The ceiling on deliveries")
struct CeilingTests {
    /// Deliveries of each millisecond, and the most of any window beyond what its length allows.
    private static func excess(_ perMillisecond: [Int], perSecond: Int) -> Int {
        var worst = 0
        // The sum up to here without what is allowed meanwhile: the best subarray (Source: Kadane).
        var run = 0
        for count in perMillisecond {
            run = max(run, 0) + count * 1000 - perSecond
            worst = max(worst, run)
        }
        // The window's own last millisecond is one more than its length.
        return (worst + perSecond) / 1000
    }

    @Test(
        "FAN-7: two loops together never deliver more than the ceiling in any window, reach it, and projects share it",
        arguments: [50, 333, 1000, 7777, 60_000])
    func windows(perSecond: Int) {
        let ceiling = DeliveryCeiling(perSecond: perSecond)
        var allowances = [DeliveryAllowance(ceiling), DeliveryAllowance(ceiling)]
        var one = FairnessTests.World(projects: 2, sessionsEach: 3000)
        var other = FairnessTests.World(projects: 2, sessionsEach: 3000)
        let everybody = FairnessTests.World.set(0..<3000)
        one.send(0, .many(everybody))
        one.send(1, .many(everybody))
        other.send(0, .many(everybody))
        other.send(1, .many(everybody))
        var random = SeededGenerator(seed: UInt64(perSecond))
        var perMillisecond: [Int] = []
        var now = Instant(millisecondsSince1970: 1_800_000_000_000)
        var isBusy = [true, true]
        var total = 0
        // Until one of them has nothing more to do.
        while isBusy == [true, true], perMillisecond.count < 20_000 {
            var count = 0
            for loop in 0..<2 where random.chance(70) {
                let allowed = allowances[loop].next(at: now)
                let before = loop == 0 ? one.delivered : other.delivered
                isBusy[loop] =
                    loop == 0
                    ? one.turn(deliveriesMax: allowed) : other.turn(deliveriesMax: allowed)
                let made = Int((loop == 0 ? one.delivered : other.delivered) - before)
                #expect(made <= allowed)
                allowances[loop].use(made)
                count += made
            }
            perMillisecond.append(count)
            total += count
            now = Instant(rawValue: now.rawValue + 1)
        }
        #expect(Self.excess(perMillisecond, perSecond: perSecond) <= 2 * ceiling.burst)
        // What loops leave for too long is void; no more than that is lost.
        let reached = perMillisecond.count * perSecond / 1000
        #expect(total >= reached * 9 / 10 || perSecond >= 60_000)
        let (a, b) = (one.total(0) + other.total(0), one.total(1) + other.total(1))
        #expect(abs(a - b) * 20 <= a + b + 40 * 64, "\(a) and \(b)")
    }

    @Test("FAN-7: a loop that may not deliver is told exactly how long")
    func waiting() {
        let ceiling = DeliveryCeiling(perSecond: 3)
        var allowance = DeliveryAllowance(ceiling)
        var now = Instant(millisecondsSince1970: 1_800_000_000_000)
        var instants: [Int64] = []
        for _ in 0..<10 {
            #expect(allowance.next(at: now) == 1)
            allowance.use(1)
            instants.append(now.rawValue)
            #expect(allowance.next(at: now) == 0)
            let wait = allowance.wait(at: now)
            let before = Instant(rawValue: now.rawValue + Int64(wait) - 1)
            #expect(allowance.next(at: before) == 0)
            now = Instant(rawValue: now.rawValue + Int64(wait))
        }
        // Nine thirds of a second, on a clock of whole milliseconds.
        #expect((2999...3000).contains(instants.last! - instants[0]))
    }

    @Test("FAN-7: what was delivered beyond the allowance is paid before anything else is allowed")
    func debt() {
        let ceiling = DeliveryCeiling(perSecond: 1000)
        var (one, other) = (DeliveryAllowance(ceiling), DeliveryAllowance(ceiling))
        let start = Instant(millisecondsSince1970: 0)
        #expect(one.next(at: start) == 5)
        // One session was given 100 messages at once: 105 less the 20 that the bucket holds.
        one.use(105)
        #expect(other.next(at: start) == 0)
        #expect(other.wait(at: start) == 86)
        #expect(other.next(at: Instant(rawValue: 85)) == 0)
        #expect(other.next(at: Instant(rawValue: 86)) == 1)
    }

    @Test("FAN-7: a clock that is set back or leaps gives nobody more than the bucket")
    func clock() {
        let ceiling = DeliveryCeiling(perSecond: 1000)
        var allowance = DeliveryAllowance(ceiling)
        func takeAll(_ now: Int64) -> Int {
            var count = 0
            while true {
                let allowed = allowance.next(at: Instant(rawValue: now))
                if allowed == 0 { return count }
                allowance.use(allowed)
                count += allowed
            }
        }
        #expect(takeAll(1_000_000) == 20)
        #expect(takeAll(0) == 0)
        #expect(takeAll(1_000_005) == 5)
        #expect(takeAll(.max / 2) == 20)
        #expect(takeAll(.max) == 20)
        #expect(takeAll(.min) == 0)
    }

    @Test(
        "FAN-7: allowed deliveries that are not made are void when the bucket has drained as much")
    func void() {
        let ceiling = DeliveryCeiling(perSecond: 1000)
        var allowance = DeliveryAllowance(ceiling)
        #expect(allowance.next(at: Instant(rawValue: 0)) == 5)
        allowance.use(1)
        #expect(allowance.next(at: Instant(rawValue: 19)) == 4)
        // Anew: five of a full bucket.
        #expect(allowance.next(at: Instant(rawValue: 20)) == 5)
    }
    @Test(
        "FAN-7 OPS-7: nodes of a cluster keep within the ceiling together", arguments: [1, 2, 3, 7])
    func parts(nodeCount: Int) {
        let nodes = ShareCount()
        let ceilings = (0..<nodeCount).map { _ in
            DeliveryCeiling(perSecond: 7000, nodes: nodes)
        }
        var allowances = ceilings.map { DeliveryAllowance($0) }
        nodes.change(to: nodeCount)
        var total = 0
        for milliseconds in Int64(0)..<10_000 {
            for index in allowances.indices {
                let allowed = allowances[index].next(at: Instant(rawValue: milliseconds))
                allowances[index].use(allowed)
                total += allowed
            }
        }
        let burst = 2 * ceilings.reduce(0) { $0 + $1.burst }
        #expect(total <= 70_000 + burst)
        #expect(total >= 70_000 - burst)
    }
}
