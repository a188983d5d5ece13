// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of every level this CPU has, against sets of integers. What lies behind a block's
// last word must stay as it was.

import MartletBase
import MartletBits
import Testing

@Suite("Kernels")
struct KernelTests {
    static let levels = SIMDLevel.allCases.filter { BitKernels(level: $0) != nil }

    @Test("The level is the wanted one, or the best below it that the CPU has")
    func chooser() {
        #expect(SIMDLevel.choose(environment: "scalar", best: .avx512) == .scalar)
        #expect(SIMDLevel.choose(environment: "avx2", best: .avx512) == .avx2)
        #expect(SIMDLevel.choose(environment: "avx512", best: .avx512) == .avx512)
        #expect(SIMDLevel.choose(environment: "avx512", best: .avx2) == .avx2)
        #expect(SIMDLevel.choose(environment: "avx2", best: .scalar) == .scalar)
        #expect(SIMDLevel.choose(environment: nil, best: .avx2) == .avx2)
        #expect(SIMDLevel.choose(environment: "", best: .avx512) == .avx512)
        #expect(SIMDLevel.choose(environment: "SCALAR", best: .avx512) == .avx512)
        #expect(SIMDLevel.current <= SIMDLevel.best)
    }

    @Test("Set algebra and counts agree with sets of integers", arguments: levels)
    func algebra(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 1)
        for (first, second) in Density.pairs {
            let (x, y) = (first.members(&random), second.members(&random))
            let a = WordBlock(members: x)
            let b = WordBlock(members: y)
            let target = WordBlock()
            target.words[510] = 0x1234
            target.words[511] = 0x5678
            kernels.and(a.words, b.words, into: target.words)
            #expect(target.members == x.intersection(y))
            kernels.or(a.words, b.words, into: target.words)
            #expect(target.members == x.union(y))
            kernels.andNot(a.words, b.words, into: target.words)
            #expect(target.members == x.subtracting(y))
            #expect(target.words[510] == 0x1234)
            #expect(target.words[511] == 0x5678)
            #expect(kernels.count(a.words) == x.count)
            #expect(kernels.countAnd(a.words, b.words) == x.intersection(y).count)
            // The target may be an input.
            kernels.andNot(a.words, b.words, into: a.words)
            #expect(a.members == x.subtracting(y))
        }
    }

    /// Random words, compared word by word with the union of the table's minterms.
    private func check(
        _ kernels: BitKernels, _ inputs: [[UInt64]], table: UInt32, _ comment: Comment
    ) {
        let buffers = inputs.map(Self.copy)
        defer { for buffer in buffers { buffer.deallocate() } }
        var expected = [UInt64](repeating: 0, count: 510)
        for assignment in 0..<(1 << inputs.count) where table >> UInt32(assignment) & 1 != 0 {
            for word in 0..<510 {
                var term = ~0 as UInt64
                for slot in 0..<inputs.count {
                    let isSet = assignment >> slot & 1 != 0
                    term &= isSet ? inputs[slot][word] : ~inputs[slot][word]
                }
                expected[word] |= term
            }
        }
        let count = expected.reduce(0) { $0 + $1.nonzeroBitCount }
        let target = WordBlock()
        target.words[510] = 0x9ABC
        let views = buffers.map { UnsafePointer($0) }
        views.withUnsafeBufferPointer { views in
            let written = kernels.evaluate(truthTable: table, inputs: views, into: target.words)
            #expect(written == count, comment)
            #expect(
                kernels.evaluate(truthTable: table, inputs: views, into: nil) == count, comment)
        }
        let isEqual = (0..<510).allSatisfy { target.words[$0] == expected[$0] }
        #expect(isEqual, comment)
        #expect(target.words[510] == 0x9ABC)
    }

    /// A block with foreign bits behind it.
    private static func copy(_ words: [UInt64]) -> UnsafeMutablePointer<UInt64> {
        let block = UnsafeMutablePointer<UInt64>.allocate(capacity: 512)
        block.initialize(repeating: ~0, count: 512)
        for index in 0..<510 { block[index] = words[index] }
        return block
    }

    @Test("Every function of one, two and three sets is evaluated", arguments: levels)
    func smallTables(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 2)
        for slots in 1...3 {
            let inputs = (0..<slots).map { _ in (0..<510).map { _ in random.next() } }
            for table in 0..<UInt32(1 << (1 << slots)) {
                check(kernels, inputs, table: table, "\(slots) slots, table \(table)")
            }
        }
    }

    @Test("Random functions of four and five sets are evaluated", arguments: levels)
    func largeTables(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 3)
        for slots in 4...5 {
            let inputs = (0..<slots).map { _ in (0..<510).map { _ in random.next() } }
            var tables = (0..<60).map { _ in UInt32(truncatingIfNeeded: random.next()) }
            tables += [0, ~0, 1, 1 << 31, 1 << 15]
            for table in tables {
                let bits = slots == 4 ? table & 0xFFFF : table
                check(kernels, inputs, table: bits, "\(slots) slots, table \(bits)")
            }
        }
    }

    @Test("Positions of the set bits come out ascending", arguments: levels)
    func compress(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 4)
        let room = BlockGeometry.bitsPerBlock + BitKernels.compressSlack
        let positions = UnsafeMutablePointer<UInt16>.allocate(capacity: room)
        defer { positions.deallocate() }
        for density in Density.allCases {
            let set = density.members(&random)
            let buffer = WordBlock(members: set)
            let count = kernels.compress(buffer.words, into: positions)
            let found = UnsafeBufferPointer(start: positions, count: count).map(Int.init)
            #expect(found == set.sorted())
        }
    }

    @Test("Selected handles are those of the common bits, wherever it stops", arguments: levels)
    func select(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 5)
        for (first, second) in Density.pairs {
            let (x, y) = (first.members(&random), second.members(&random))
            let a = WordBlock(members: x)
            let mine = WordBlock(members: y)
            let handles = y.sorted().map { UInt32($0) &* 7 &+ 1 } + [0]
            var prefix: [UInt16] = []
            var rank = 0
            for word in 0..<510 {
                prefix.append(UInt16(rank))
                rank += mine.words[word].nonzeroBitCount
            }
            var found: [UInt32] = []
            var word: UInt32 = 0
            withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 100) { buffer in
                while word < 510 {
                    let count = kernels.select(
                        a.words, mine: mine.words, prefix: prefix, handles: handles,
                        into: buffer, word: &word)
                    found += buffer[..<count]
                }
            }
            #expect(word == 510)
            #expect(found == x.intersection(y).sorted().map { UInt32($0) &* 7 &+ 1 })
        }
    }
}
