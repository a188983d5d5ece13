// SPDX-License-Identifier: Apache-2.0
//
// How long a block takes, printed and not judged: machines differ. Runs when MARTLET_MEASURE is
// set, over ten million instances in 306 blocks.

import Foundation
import MartletBase
import MartletBits
import MartletCondition
import Testing

@Suite(
    "Speed", .serialized,
    .enabled(if: ProcessInfo.processInfo.environment["MARTLET_MEASURE"] != nil))
struct SpeedTests {
    private static let blocks = 306

    /// A set with one member in `every` instances.
    private static func topic(every: UInt64, _ random: inout SeededGenerator) -> [StoredBlock] {
        (0..<blocks).compactMap { block in
            let bits = (0..<BlockGeometry.bitsPerBlock).filter { _ in random.next() % every == 0 }
            let form = bits.count <= BlockGeometry.listCountMax ? 0 : 2
            return bits.isEmpty ? nil : StoredBlock(block: UInt32(block), bits: bits, form: form)
        }
    }

    @Test("Nanoseconds per block")
    func measure() throws {
        var random = SeededGenerator(seed: 80)
        let every: [UInt64] = [2, 10, 40, 3, 5, 200, 2000, 20_000]
        let topics = every.map { Self.topic(every: $0, &random) }
        let universe = (0..<Self.blocks).map { block in
            StoredBlock(
                block: UInt32(block), bits: Array(0..<BlockGeometry.bitsPerBlock), form: 2)
        }
        let conditions: [(String, [Int])] = [
            ("'0' in topics", [0]),
            ("'0' in topics && 'a' in topics", [0, 1]),
            ("'0' in topics && ('a' in topics || 'b' in topics)", [0, 1, 2]),
            ("!('0' in topics) && 'a' in topics || 'b' in topics", [0, 1, 2]),
            (
                "('0' in topics || 'a' in topics) && !('b' in topics && 'c' in topics) || 'd' in topics",
                [0, 1, 2, 3, 4]
            ),
            (
                "!('0' in topics || 'a' in topics || 'b' in topics || 'c' in topics || 'd' in topics)",
                [0, 1, 2, 3, 4]
            ),
            ("'0' in topics && 'a' in topics && 'b' in topics", [0, 1, 5]),
            ("'0' in topics || 'a' in topics || 'b' in topics", [0, 1, 5]),
            ("'0' in topics || 'a' in topics || 'b' in topics", [5, 6, 7]),
            ("'0' in topics || 'a' in topics || 'b' in topics", [6, 6, 7]),
            ("'0' in topics && ('a' in topics || 'b' in topics)", [6, 6, 7]),
            ("'0' in topics && ('a' in topics || 'b' in topics)", [5, 0, 1]),
            ("'0' in topics && ('a' in topics || 'b' in topics)", [6, 0, 1]),
            (
                "'0' in topics || 'a' in topics || 'b' in topics || 'c' in topics || 'd' in topics || 'e' in topics",
                [0, 1, 2, 3, 4, 5]
            ),
            (
                "('0' in topics && 'a' in topics) || ('b' in topics && 'c' in topics) || ('d' in topics && !'e' in topics)",
                [0, 1, 2, 3, 4, 1]
            ),
        ]
        print("level \(SIMDLevel.current)")
        for (text, sets) in conditions {
            let condition = try Condition(parsing: text, topicsMax: 64)
            let slots = sets.map { topics[$0] } + [universe]
            var bestCount = Double.infinity
            var bestWrite = Double.infinity
            var members: UInt64 = 0
            for _ in 0..<40 {
                let start = ContinuousClock.now
                var counter = ConditionEvaluator(condition, source: MemorySource(slots: slots))
                members = counter.count()
                let middle = ContinuousClock.now
                var writer = ConditionEvaluator(condition, source: MemorySource(slots: slots))
                var check: UInt64 = 0
                while let block = writer.next() { check += UInt64(block.count) }
                let end = ContinuousClock.now
                #expect(check == members)
                bestCount = min(bestCount, Double((middle - start) / .nanoseconds(1)))
                bestWrite = min(bestWrite, Double((end - middle) / .nanoseconds(1)))
            }
            let perBlock = [bestCount, bestWrite].map { Int($0 / Double(Self.blocks)) }
            print(
                "\(perBlock[0]) count, \(perBlock[1]) write ns/block; \(members); sets \(sets): \(text)"
            )
        }
    }
}
