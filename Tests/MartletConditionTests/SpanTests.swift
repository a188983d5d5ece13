// SPDX-License-Identifier: Apache-2.0
//
// Conditions over sets that are spans of runs in some places and single blocks in others yield what the
// same sets yield block by block, which MeaningTests holds against asking every instance. Rests on
// Support.

import MartletBase
import MartletBits
import MartletCondition
import TestSupport
import Testing

@Suite("Spans of runs in conditions")
struct SpanTests {
    /// A row of a set: one block, or a span with the memory it points into.
    private final class Row {
        let block: SourceBlock
        private let memory: StoredBlock?
        private let bytes: UnsafeMutableRawPointer?

        init(_ stored: StoredBlock) {
            block = SourceBlock(block: stored.block, view: stored.view)
            memory = stored
            bytes = nil
        }

        /// Nil if the members are too scattered.
        init?(at first: UInt32, _ members: [UInt32: [Int]]) {
            var builder = RunSpanBuilder()
            for index in 0..<UInt32(RunSpan.blockCount) {
                let bits = (members[first + index] ?? []).map { UInt16($0) }
                guard bits.withUnsafeBufferPointer({ builder.append(.list($0)) }) else {
                    return nil
                }
            }
            let copy = builder.withBytes { found in
                let copy = UnsafeMutableRawBufferPointer.allocate(
                    byteCount: found.count, alignment: 2)
                copy.copyMemory(from: found)
                return copy
            }
            let span = RunSpan(checking: UnsafeRawBufferPointer(copy))!
            block = SourceBlock(block: first, span: span)
            bytes = copy.baseAddress
            memory = nil
        }

        deinit { bytes?.deallocate() }
    }

    private struct Source: BlockSource {
        let slots: [[Row]]

        mutating func nextBlock(
            slot: Int, from block: UInt32
        ) -> (block: UInt32, view: BlockView)? {
            fatalError("Rows are read ahead.")
        }

        mutating func readBlocks(
            slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
        ) -> Int {
            var count = 0
            for row in slots[slot] where row.block.last >= block && count < target.count {
                target[count] = row.block
                count += 1
            }
            return count
        }
    }

    private static let conditions = [
        "'T0' in topics", "!('T0' in topics)", "'T0' in topics && 'T1' in topics",
        "'T0' in topics || 'T1' in topics", "'T0' in topics && !('T1' in topics)",
        "'T0' in topics && ('T1' in topics || 'T2' in topics)",
        "('T0' in topics || 'T1' in topics) && ('T2' in topics || 'T3' in topics)",
        "('T0' in topics || 'T1' in topics) && ('T2' in topics || 'T3' in topics) && !('T4' in topics)",
        "!(('T0' in topics && 'T1' in topics) || ('T2' in topics && 'T3' in topics) || 'T4' in topics)",
        "('T0' in topics && 'T1' in topics) || ('T2' in topics && 'T3' in topics) || ('T4' in topics && 'T5' in topics)",
        "!('T0' in topics || 'T1' in topics || 'T2' in topics || 'T3' in topics || 'T4' in topics || 'T5' in topics)",
    ]

    @Test("CON-1 CON-4: counts and members are those of single blocks", arguments: 0..<rounds(16))
    func spans(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed + 300)
        let blocks: [UInt32] = [0, 1, 5, 15, 16, 17, 31, 47, 64, 65]
        var plain: [[StoredBlock]] = []
        var mixed: [[Row]] = []
        var all: [UInt32: Set<Int>] = [:]
        for slot in 0..<7 {
            var members: [UInt32: [Int]] = [:]
            for block in blocks {
                var bits = Set<Int>()
                if slot == 6 {
                    bits = all[block] ?? []
                    let first = Int.random(in: 0..<30_000, using: &random)
                    bits.formUnion(first..<first + 2000)
                } else {
                    switch random.next() % 6 {
                    case 0: break
                    case 1: bits = Set(0..<BlockGeometry.bitsPerBlock)
                    case 2: for _ in 0..<100 { bits.insert(Int(random.next() % 32_640)) }
                    default:
                        for _ in 0..<5 {
                            let first = Int(random.next() % 50) * 640
                            bits.formUnion(first..<min(first + 900, 32_640))
                        }
                    }
                    all[block, default: []].formUnion(bits)
                }
                if !bits.isEmpty { members[block] = bits.sorted() }
            }
            let stored = members.sorted { $0.key < $1.key }.map {
                StoredBlock(block: $0.key, bits: $0.value, form: Int(random.next() % 4))
            }
            plain.append(stored)
            var rows: [Row] = []
            for first in stride(from: 0 as UInt32, to: 80, by: RunSpan.blockCount) {
                let inside = stored.filter { RunSpan.start(ofBlock: $0.block) == first }
                guard !inside.isEmpty else { continue }
                if random.next() % 4 != 0, let span = Row(at: first, members) {
                    rows.append(span)
                } else {
                    rows += inside.map { Row($0) }
                }
            }
            mixed.append(rows)
        }
        for text in Self.conditions {
            let condition = try Condition(parsing: text, topicsMax: 64)
            let slots = condition.topics.map { Int($0.text.dropFirst())! } + [6]
            for start in [0, 1, 5, 16, 20, 47, 64, 65, 80] as [UInt32] {
                var expected: [UInt32: [Int]] = [:]
                var reference = ConditionEvaluator(
                    condition, source: MemorySource(slots: slots.map { plain[$0] }))
                reference.skip(to: start)
                while let found = reference.next() {
                    var bits: [Int] = []
                    found.view.forEachBit { bits.append($0) }
                    expected[found.block] = bits
                }
                let source = Source(slots: slots.map { mixed[$0] })
                var counter = ConditionEvaluator(condition, source: source)
                counter.skip(to: start)
                let count = counter.count()
                #expect(count == expected.values.reduce(0) { $0 + UInt64($1.count) }, "\(text)")
                var writer = ConditionEvaluator(condition, source: source)
                writer.skip(to: start)
                var found: [UInt32: [Int]] = [:]
                while let block = writer.next() {
                    var bits: [Int] = []
                    block.view.forEachBit { bits.append($0) }
                    #expect(bits.count == block.count)
                    found[block.block] = bits
                }
                #expect(found == expected, "\(text)")
                // What is left behind a first block is counted too.
                var later = ConditionEvaluator(condition, source: source)
                later.skip(to: start)
                let first = UInt64(later.next()?.count ?? 0)
                #expect(first + later.count() == count, "\(text)")
            }
        }
    }
}
