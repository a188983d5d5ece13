// SPDX-License-Identifier: Apache-2.0
//
// Spans of runs and what is counted of them, against sets of integers, and at every level of the
// kernels. Rests on Support.

import MartletBase
import MartletBits
import TestSupport
import Testing

@Suite("Spans of runs")
struct RunSpanTests {
    /// The members of 16 blocks: some without, some full, some of many runs.
    private static func blocks(_ random: inout SeededGenerator) -> [Set<Int>] {
        (0..<RunSpan.blockCount).map { _ in
            switch random.next() % 8 {
            case 0: []
            case 1: Set(0..<BlockGeometry.bitsPerBlock)
            case 2: Runs.members(24, &random)
            case 3: [0]
            case 4: [BlockGeometry.bitsPerBlock - 1]
            default: Runs.members(Int.random(in: 1...6, using: &random), &random)
            }
        }
    }

    private static func builder(_ blocks: [Set<Int>]) -> RunSpanBuilder {
        var builder = RunSpanBuilder()
        for members in blocks {
            let isAppended = BlockBuffer(members: members).withView { builder.append($0) }
            #expect(isAppended)
        }
        return builder
    }

    @Test("CON-1: a span's blocks have the members that were appended, whatever their form was")
    func roundTrip() throws {
        var random = SeededGenerator(seed: 200)
        for round in 0..<max(4, rounds(20)) {
            let blocks = Self.blocks(&random)
            var builder = RunSpanBuilder()
            for members in blocks {
                var form = round % 4
                var isAppended = false
                withForms(of: members) { view in
                    if form == 0 { isAppended = builder.append(view) }
                    form -= 1
                }
                #expect(isAppended)
            }
            let total = blocks.reduce(0) { $0 + $1.count }
            let count = builder.count
            #expect(count == total)
            try builder.withBytes { bytes in
                #expect(bytes.count % 2 == 1)
                #expect(bytes.suffix(31).allSatisfy { $0 == 0 })
                let span = try #require(RunSpan(checking: bytes))
                #expect(span.count == total)
                for (index, members) in blocks.enumerated() {
                    let found = BlockBuffer(span.view(ofBlockAt: index)).members
                    #expect(found == members)
                    #expect(span.isAscending(inBlockAt: index))
                }
            }
        }
    }

    @Test("The layout is the documented one, byte for byte")
    func golden() {
        var builder = RunSpanBuilder()
        _ = builder.append(.empty)
        let list: [UInt16] = [1, 2, 3, 258]
        let isAppended = list.withUnsafeBufferPointer { builder.append(.list($0)) }
        #expect(isAppended)
        _ = builder.append(.full)
        let bytes = builder.withBytes { Array($0) }
        let ends: [UInt8] = [0, 0, 4, 0] + (0..<14).flatMap { _ in [6, 0] as [UInt8] }
        let toggles: [UInt8] = [1, 0, 4, 0, 2, 1, 3, 1, 0, 0, 0x80, 0x7F]
        #expect(bytes == ends + toggles + [UInt8](repeating: 0, count: 31))
    }

    @Test("Blocks of more than 32 runs are refused, and spans of more than 384")
    func bounds() {
        let many = Set((0..<33).map { $0 * 2 })
        let most = Set((0..<32).map { $0 * 2 })
        for members in [many, most] {
            withForms(of: members) { view in
                var builder = RunSpanBuilder()
                let isAppended = builder.append(view)
                #expect(isAppended == (members.count == 32))
            }
        }
        var builder = RunSpanBuilder()
        let view = BlockBuffer(members: most)
        for _ in 0..<12 {
            let isAppended = view.withView { builder.append($0) }
            #expect(isAppended)
        }
        let count = builder.toggleCount
        #expect(count == RunSpan.togglesMax)
        let isAppended = BlockBuffer(members: [7]).withView { builder.append($0) }
        #expect(!isAppended)
        // A refused block leaves nothing behind.
        let bytes = builder.withBytes { Array($0) }
        #expect(bytes.count == RunSpan.bytesMax)
        #expect(bytes.suffix(31).allSatisfy { $0 == 0 })
    }

    @Test("Adding and removing members gives the runs that a set of integers gives")
    func changes() throws {
        var random = SeededGenerator(seed: 201)
        for round in 0..<rounds(400) {
            var members = Runs.members(Int.random(in: 0...5, using: &random), &random)
            let isAdding = round % 2 == 0
            // Beside the borders of runs, where they join and split, and at the block's own.
            var bits = Set(
                Runs.toggles(of: members.sorted()).flatMap { [Int($0) - 1, Int($0)] }
                    .filter { _ in random.next() % 2 == 0 })
            bits.formUnion(
                [0, 1, BlockGeometry.bitsPerBlock - 1].shuffled(using: &random).prefix(1))
            let first = Int.random(in: 0..<32_000, using: &random)
            bits.formUnion(first..<first + Int.random(in: 0...400, using: &random))
            bits = bits.filter { $0 >= 0 && $0 < BlockGeometry.bitsPerBlock }
            let sorted = bits.sorted().map { UInt16($0) }
            let before = BlockBuffer(members: members)
            if isAdding { members.formUnion(bits) } else { members.subtract(bits) }
            var builder = RunSpanBuilder()
            let isAppended = sorted.withUnsafeBufferPointer { bits in
                before.withView { builder.append($0, changing: bits, adding: isAdding) }
            }
            let isPossible = Runs.toggles(of: members.sorted()).count <= 64
            #expect(isAppended == isPossible)
            guard isAppended, isPossible else { continue }
            let count = builder.count
            #expect(count == members.count)
            try builder.withBytes { bytes in
                let span = try #require(RunSpan(checking: bytes))
                let found = BlockBuffer(span.view(ofBlockAt: 0)).members
                #expect(found == members)
            }
        }
    }

    @Test(
        "CON-1: every function of one to six spans is counted at every level as sets of integers say",
        arguments: KernelTests.levels)
    func counting(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 202)
        for round in 0..<max(6, rounds(48)) {
            let slots = round % 6 + 1
            let sets = (0..<slots).map { _ in Self.blocks(&random) }
            // Which combinations of slots each member has, and how often each combination occurs.
            var occurrences = [UInt64](repeating: 0, count: 64)
            for block in 0..<RunSpan.blockCount {
                var states = [UInt8](repeating: 0, count: BlockGeometry.bitsPerBlock)
                for (slot, set) in sets.enumerated() {
                    for bit in set[block] { states[bit] |= 1 << UInt8(slot) }
                }
                for state in states { occurrences[Int(state)] += 1 }
            }
            let memory = sets.map { blocks in
                var builder = Self.builder(blocks)
                return builder.withBytes { bytes in
                    let copy = UnsafeMutableRawPointer.allocate(
                        byteCount: bytes.count, alignment: 2)
                    copy.copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
                    return UnsafeRawPointer(copy)
                }
            }
            defer { for copy in memory { copy.deallocate() } }
            for _ in 0..<8 {
                var table = random.next() & ~1
                if slots < 6 { table &= (1 << UInt64(1 << slots)) - 1 }
                // Of six the last bounds the result.
                if slots == 6 { table &= ~0xFFFF_FFFF }
                let expected = (0..<64).reduce(0 as UInt64) {
                    table >> UInt64($1) & 1 != 0 ? $0 + occurrences[$1] : $0
                }
                let found = memory.withUnsafeBufferPointer { kernels.countSpans($0, table) }
                #expect(UInt64(found) == expected)
            }
        }
    }

    @Test(
        "What two lists of ordinals have in common is counted at every level",
        arguments: KernelTests.levels)
    func common(level: SIMDLevel) throws {
        let kernels = try #require(BitKernels(level: level))
        var random = SeededGenerator(seed: 203)
        for round in 0..<300 {
            let spread = [2, 7, 400][round % 3] as UInt64
            let lists = (0..<2).map { _ in
                var value: UInt32 = 0
                return (0..<Int(random.next() % 70)).map { _ in
                    value += 1 + UInt32(random.next() % spread)
                    return value
                }
            }
            let expected = Set(lists[0]).intersection(lists[1]).count
            // At odd addresses too.
            let bytes = lists.map { [0] + PackedList.bytes(of: $0) }
            bytes[0].withUnsafeBytes { a in
                bytes[1].withUnsafeBytes { b in
                    let found = kernels.countCommon(
                        UnsafeRawBufferPointer(rebasing: a[1...]),
                        UnsafeRawBufferPointer(rebasing: b[1...]))
                    #expect(found == expected)
                }
            }
        }
    }

    @Test("Damaged spans are refused, or read nothing outside and no bit past the block's")
    func damage() throws {
        var random = SeededGenerator(seed: 204)
        var builder = Self.builder(Self.blocks(&random))
        let good = builder.withBytes { Array($0) }
        for count in 0..<good.count {
            #expect(good.prefix(count).withUnsafeBytes { RunSpan(checking: $0) == nil })
        }
        #expect(RunSpan(checking: UnsafeRawBufferPointer(start: nil, count: 0)) == nil)
        var accepted = 0
        let count = rounds(20_000)
        for _ in 0..<count {
            var bytes = good
            let end = random.next() % 2 == 0 ? 32 : bytes.count
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                bytes[Int.random(in: 0..<end, using: &random)] = UInt8.random(
                    in: 0...255, using: &random)
            }
            bytes.withUnsafeBytes { bytes in
                guard let span = RunSpan(checking: bytes) else { return }
                accepted += 1
                _ = span.count
                var buffer = BlockBuffer()
                for index in 0..<RunSpan.blockCount {
                    let view = span.view(ofBlockAt: index)
                    buffer.assign(view)
                    view.forEachBit { precondition($0 < BlockGeometry.bitsPerBlock) }
                    buffer.withWords { #expect($0[510] == 0) }
                }
            }
        }
        #expect(accepted > count / 20 && accepted < count)
    }
}
