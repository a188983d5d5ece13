// SPDX-License-Identifier: Apache-2.0
//
// Recipients made of ordinals and of other recipients, against `Set`.

import MartletBase
import MartletBits
import TestSupport
import Testing

@Suite("Unions of recipients")
struct UnionTests {
    private func ordinals(
        _ range: ClosedRange<Int>, blocks: UInt32, _ random: inout SeededGenerator
    ) -> [Ordinal] {
        (0..<Int.random(in: range, using: &random)).map { _ in
            Ordinal(
                block: UInt32.random(in: 0..<blocks, using: &random),
                bit: Int.random(in: 0..<BlockGeometry.bitsPerBlock, using: &random))
        }
    }

    private func members(_ set: RecipientSet) -> Set<Ordinal> {
        var members: Set<Ordinal> = []
        let view = set.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            var count = 0
            block.view.forEachBit {
                members.insert(Ordinal(block: block.block, bit: $0))
                count += 1
            }
            #expect(count == block.count)
        }
        return members
    }

    @Test("A set of ordinals has each of them once, whatever their order")
    func ofOrdinals() {
        var random = SeededGenerator(seed: 1)
        for range in [0...0, 1...1, 2...20, 900...1200, 40_000...50_000] {
            for blocks in [1, 3, 100] as [UInt32] {
                let chosen = ordinals(range, blocks: blocks, &random)
                let set = RecipientSet.of(chosen + chosen.prefix(7))
                #expect(members(set) == Set(chosen))
                #expect(set.count == UInt64(Set(chosen).count))
                #expect(set.isSound)
            }
        }
    }

    @Test("A union has the members of all, and is the only set with members where there is one")
    func union() {
        var random = SeededGenerator(seed: 2)
        for round in 0..<rounds(60) {
            let sets = (0..<(round % 6)).map { _ in
                ordinals(0...(round % 2 == 0 ? 60 : 30_000), blocks: 4, &random)
            }
            let union = RecipientSet.union(of: sets.map { RecipientSet.of($0) })
            #expect(members(union) == Set(sets.joined()))
            #expect(union.count == UInt64(Set(sets.joined()).count))
        }
        let full = RecipientSet.of(
            (0..<BlockGeometry.bitsPerBlock).map { Ordinal(block: 2, bit: $0) })
        let one = RecipientSet.of([Ordinal(block: 2, bit: 5)])
        #expect(RecipientSet.union(of: [one, full]).count == full.count)
        #expect(RecipientSet.union(of: [.none, full, .none]) === full)
        #expect(RecipientSet.union(of: []).count == 0)
    }
}
