// SPDX-License-Identifier: Apache-2.0
//
// The three ways in which a source can hand out a set (a block a call, several blocks a call, a whole
// list of ordinals) yield the same, over many blocks, and what a set algebra says.

import MartletBase
import MartletBits
import MartletCondition
import TestSupport
import Testing

@Suite("Reading ahead and merging lists")
struct ReadAheadTests {
    /// A set of ordinals, and its pieces as a source hands them out.
    private final class StoredList {
        let members: Set<UInt32>
        let memory: UnsafeMutablePointer<UInt32>
        let blocks: [SourceBlock]

        init(_ members: Set<UInt32>) {
            self.members = members
            let sorted = members.sorted()
            memory = .allocate(capacity: max(sorted.count, 1))
            for (index, ordinal) in sorted.enumerated() {
                (memory + index).initialize(to: ordinal.littleEndian)
            }
            var blocks: [SourceBlock] = []
            var start = 0
            while start < sorted.count {
                var end = start
                while end < sorted.count, sorted[end] >> 15 == sorted[start] >> 15 { end += 1 }
                let bytes = UnsafeRawBufferPointer(
                    UnsafeBufferPointer(start: memory + start, count: end - start))
                blocks.append(SourceBlock(block: sorted[start] >> 15, view: .wideList(bytes)))
                start = end
            }
            self.blocks = blocks
        }

        deinit { memory.deallocate() }

        var bytes: UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(UnsafeBufferPointer(start: memory, count: members.count))
        }
    }

    private enum Way: CaseIterable { case single, ahead, whole }

    private struct Source: BlockSource {
        let slots: [StoredList]
        let way: Way

        mutating func nextBlock(
            slot: Int, from block: UInt32
        ) -> (block: UInt32, view: BlockView)? {
            slots[slot].blocks.first { $0.block >= block }.map { ($0.block, $0.view) }
        }

        mutating func readBlocks(
            slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
        ) -> Int {
            let places = way == .single ? 1 : target.count
            var count = 0
            for found in slots[slot].blocks where found.block >= block && count < places {
                target[count] = found
                count += 1
            }
            return count
        }

        func wholeList(slot: Int) -> UnsafeRawBufferPointer? {
            way == .whole ? slots[slot].bytes : nil
        }
    }

    private static let conditions: [(text: String, value: @Sendable (Set<Int>) -> Bool)] = [
        ("'T0' in topics", { $0.contains(0) }),
        ("'T0' in topics && 'T1' in topics", { $0.isSuperset(of: [0, 1]) }),
        (
            "'T0' in topics || 'T1' in topics || 'T2' in topics",
            { !$0.isDisjoint(with: [0, 1, 2]) }
        ),
        ("'T0' in topics && !('T1' in topics)", { $0.contains(0) && !$0.contains(1) }),
        (
            "'T0' in topics && ('T1' in topics || 'T2' in topics)",
            { $0.contains(0) && !$0.isDisjoint(with: [1, 2]) }
        ),
        (
            "('T0' in topics || 'T1' in topics) && !('T2' in topics && 'T3' in topics) || 'T4' in topics",
            {
                !$0.isDisjoint(with: [0, 1]) && !$0.isSuperset(of: [2, 3]) || $0.contains(4)
            }
        ),
        (
            "('T0' in topics && 'T1' in topics) || ('T2' in topics && 'T3' in topics) || ('T4' in topics && !('T5' in topics))",
            {
                $0.isSuperset(of: [0, 1]) || $0.isSuperset(of: [2, 3])
                    || $0.contains(4) && !$0.contains(5)
            }
        ),
        ("'T1' in topics && ('T0' in topics || !('T0' in topics))", { $0.contains(1) }),
    ]

    @Test(
        "CON-1: every way of handing out a set yields what the sets say",
        arguments: 0..<rounds(24))
    func ways(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let sets = (0..<6).map { _ in
            var members: Set<UInt32> = []
            // From a few blocks far apart to some members in each of three hundred.
            let count = [0, 1, 7, 300, 1500][Int(random.next() % 5)]
            let blocks = [1, 20, 300][Int(random.next() % 3)] as UInt64
            for _ in 0..<count {
                let block = UInt32(random.next() % blocks) * UInt32(300 / blocks)
                members.insert(block << 15 | UInt32(random.next() % 40))
            }
            return members
        }
        let stored = sets.map { StoredList($0) }
        for (text, value) in Self.conditions {
            let condition = try Condition(parsing: text, topicsMax: 64)
            let slots = condition.topics.map { stored[Int($0.text.dropFirst())!] }
            let all = sets.reduce(Set<UInt32>()) { $0.union($1) }
            let expected = all.filter { ordinal in
                value(Set(sets.indices.filter { sets[$0].contains(ordinal) }))
            }.sorted()
            for way in Way.allCases {
                let source = Source(slots: slots, way: way)
                var counter = ConditionEvaluator(condition, source: source)
                #expect(counter.count() == UInt64(expected.count))
                #expect(counter.count() == 0)
                var writer = ConditionEvaluator(condition, source: source)
                #expect(drain(&writer) == expected)
                // From the middle on, after a first block and after none.
                for takesFirst in [false, true] {
                    var later = ConditionEvaluator(condition, source: source)
                    var from: UInt32 = 120
                    if takesFirst, let first = later.next() { from = max(from, first.block + 1) }
                    later.skip(to: 120)
                    let rest = expected.filter { $0 >> 15 >= from }
                    if seed % 2 == 0 {
                        #expect(later.count() == UInt64(rest.count))
                    } else {
                        #expect(drain(&later) == rest)
                    }
                }
            }
        }
    }

    private func drain(_ evaluator: inout ConditionEvaluator<Source>) -> [UInt32] {
        var result: [UInt32] = []
        while let found = evaluator.next() {
            let before = result.count
            found.view.forEachBit { result.append(found.block << 15 | UInt32($0)) }
            #expect(result.count - before == found.count)
        }
        return result
    }
}
