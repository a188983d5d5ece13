// SPDX-License-Identifier: Apache-2.0
//
// What the operations of the delivery path and of batches cost, printed and not judged: machines
// differ. Runs when MARTLET_MEASURE is set.

import Foundation
import MartletBase
import MartletBits
import Testing

@Suite(
    "Speed", .serialized,
    .enabled(if: ProcessInfo.processInfo.environment["MARTLET_MEASURE"] != nil))
struct SpeedTests {
    private func best(_ rounds: Int = 30, _ body: () -> Void) -> Double {
        var best = Double.infinity
        for _ in 0..<rounds {
            let start = ContinuousClock.now
            body()
            best = min(best, Double((ContinuousClock.now - start) / .nanoseconds(1)))
        }
        return best
    }

    @Test("Meeting recipients with connected instances")
    func meeting() {
        let blocks = 64
        for every in [100, 10, 2] {
            var random = SeededGenerator(seed: 90)
            var set = ConnectedSet()
            for block in 0..<blocks {
                for bit in 0..<BlockGeometry.bitsPerBlock where random.next() % UInt64(every) == 0 {
                    set.insert(Ordinal(block: UInt32(block), bit: bit), handle: UInt32(bit))
                }
            }
            let half = BlockBuffer(
                members: Set(
                    (0..<BlockGeometry.bitsPerBlock).filter { _ in random.next() % 2 == 0 }))
            half.withView { half in
                for (name, view) in [("half", half), ("full", BlockView.full)] {
                    var sum: UInt64 = 0
                    var found = 0
                    let time = best {
                        for block in 0..<UInt32(blocks) {
                            set.forEachHandle(in: block, intersecting: view) {
                                sum &+= UInt64($0)
                                found &+= 1
                            }
                        }
                    }
                    let handles = Double(found) / 30
                    print(
                        "1 of \(every) connected, \(name) wanted: \(Int(time) / blocks) ns/block,"
                            + " \(time / handles) ns/handle")
                    #expect(sum > 0)
                }
            }
            let time = best {
                for bit in 0..<1000 {
                    set.insert(Ordinal(block: 5, bit: bit * 32), handle: 1)
                    set.remove(Ordinal(block: 5, bit: bit * 32))
                }
            }
            print("connect and disconnect: \(Int(time) / 1000) ns")
        }
    }

    @Test("Positions and merges")
    func batches() {
        var random = SeededGenerator(seed: 91)
        let positions = UnsafeMutablePointer<UInt16>.allocate(capacity: 32_640 + 32)
        defer { positions.deallocate() }
        for density in Density.allCases {
            let buffer = BlockBuffer(members: density.members(&random))
            let time = best { _ = buffer.withView { $0.writePositions(into: positions) } }
            print("positions, \(density): \(Int(time)) ns for \(buffer.count)")
        }
        let old = PackedList.bytes(of: (0..<450).map { UInt32($0 * 7) })
        let new = (0..<1000).map { UInt32($0 * 3) }
        let time = best { _ = old.withUnsafeBytes { PackedList.inserting($0, sorted: new) } }
        print("merge of 1000 into 450: \(Int(time)) ns")
    }
}
