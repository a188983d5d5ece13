// SPDX-License-Identifier: Apache-2.0
//
// The recipients blob: what goes in comes out, and bytes that are not a blob are refused.

import MartletBase
import MartletBits
import TestSupport
import Testing

@Suite("Recipients blob")
struct RecipientSetTests {
    /// A blob with one block of each density, at block numbers with gaps.
    private static func sample(
        seed: UInt64, _ densities: [Density] = Density.allCases
    ) -> (set: RecipientSet, members: [UInt32: Set<Int>]) {
        var random = SeededGenerator(seed: seed)
        var builder = RecipientSetBuilder()
        var members: [UInt32: Set<Int>] = [:]
        var block: UInt32 = seed % 2 == 0 ? 0 : 7
        for density in densities {
            let set = density.members(&random)
            if !set.isEmpty { members[block] = set }
            // A block is appended once, in a form that changes with the seed.
            var form = Int(seed % 3)
            withForms(of: set, block: block) { view in
                if form == 0 { builder.append(block: block, view: view, count: set.count) }
                form -= 1
            }
            block += UInt32.random(in: 1...5, using: &random)
        }
        return (builder.finish(), members)
    }

    @Test("What was appended is read back, block by block and ordinal by ordinal")
    func roundTrip() throws {
        // The form changes with the seed, and there are three.
        for seed in 0..<max(3, rounds(9)) as Range<UInt64> {
            let (set, members) = Self.sample(seed: seed)
            #expect(set.byteCount % 8 == 0)
            #expect(set.isSound)
            let view = set.view
            #expect(view.count == UInt64(members.values.reduce(0) { $0 + $1.count }))
            #expect(view.blockCount == members.count)
            for (index, block) in members.keys.sorted().enumerated() {
                let expected = members[block]!
                let found = view.block(at: index)
                #expect(found.block == block)
                #expect(found.count == expected.count)
                let buffer = BlockBuffer(found.view)
                #expect(buffer.members == expected)
                let runs = Runs.toggles(of: expected.sorted()).count / 2
                switch found.view {
                case .full: #expect(expected.count == BlockGeometry.bitsPerBlock)
                case .runs: #expect(runs <= 15 && 2 * runs + 1 < expected.count)
                default: #expect(runs > 15 || 2 * runs + 1 >= expected.count)
                }
                if case .bitmap(let words) = found.view {
                    #expect(UInt(bitPattern: words) % 8 == 0)
                    #expect(expected.count > BlockGeometry.listCountMax)
                }
                for bit in expected.prefix(200) {
                    let isMember = view.contains(Ordinal(block: block, bit: bit))
                    #expect(isMember)
                }
            }
            var random = SeededGenerator(seed: seed + 100)
            for _ in 0..<2000 {
                let block = UInt32.random(in: 0..<40, using: &random)
                let bit = Int.random(in: 0..<BlockGeometry.bitsPerBlock, using: &random)
                let expected = members[block]?.contains(bit) ?? false
                let isMember = view.contains(Ordinal(block: block, bit: bit))
                #expect(isMember == expected)
            }
        }
    }

    @Test("The layout is the documented one, byte for byte")
    func golden() {
        var builder = RecipientSetBuilder()
        let list: [UInt16] = [1, 258, 32_639]
        list.withUnsafeBufferPointer { builder.append(block: 2, view: .list($0), count: 3) }
        builder.append(block: 9, view: .full, count: BlockGeometry.bitsPerBlock)
        let runs: [UInt16] = [3, 259, 300, 301]
        runs.withUnsafeBufferPointer { builder.append(block: 10, view: .runs($0), count: 257) }
        let set = builder.finish()
        let expected: [UInt8] = [
            0x4D, 0x52, 0x53, 0x31, 3, 0, 0, 0, 0x84, 0x80, 0, 0, 0, 0, 0, 0,
            104, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, 3, 0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0,
            9, 0, 0, 0, 0x80, 0x7F, 0, 0, 88, 0, 0, 0, 0, 0, 0, 0,
            10, 0, 0, 0, 1, 1, 0, 0, 88, 0, 0, 0, 3, 0, 0, 0,
            1, 0, 2, 1, 0x7F, 0x7F, 0, 0,
            4, 0, 3, 0, 3, 1, 44, 1, 45, 1, 0, 0, 0, 0, 0, 0,
        ]
        #expect(set.withBytes { Array($0) } == expected)
    }

    @Test("The set without members is a blob too")
    func empty() {
        #expect(RecipientSet.none.isSound)
        let none = RecipientSet.none
        let blockCount = none.view.blockCount
        let isMember = none.view.contains(Ordinal(0))
        #expect(none.count == 0 && blockCount == 0 && !isMember)
    }

    @Test("Every truncation and every misalignment is refused")
    func truncations() throws {
        let (set, _) = Self.sample(seed: 1, [.sparse, .clustered, .full, .scattered])
        let bytes = set.withBytes { Array($0) }
        for count in 0..<bytes.count {
            let isSound = bytes.withUnsafeBytes {
                RecipientSetView(validating: UnsafeRawBufferPointer(rebasing: $0[..<count])) != nil
            }
            #expect(!isSound)
        }
        let shifted = UnsafeMutableRawBufferPointer.allocate(
            byteCount: bytes.count + 8, alignment: 8)
        defer { shifted.deallocate() }
        for offset in 1..<8 {
            let part = UnsafeMutableRawBufferPointer(
                rebasing: shifted[offset..<offset + bytes.count])
            part.copyBytes(from: bytes)
            let isSound = RecipientSetView(validating: UnsafeRawBufferPointer(part)) != nil
            #expect(!isSound)
        }
        #expect(RecipientSet(copying: UnsafeRawBufferPointer(start: nil, count: 0)) == nil)
        bytes.withUnsafeBytes { bytes in
            #expect(RecipientSet(copying: UnsafeRawBufferPointer(rebasing: bytes[..<40])) == nil)
            #expect(RecipientSet(copying: bytes)?.count == set.count)
        }
    }

    @Test("Any change of header or directory is refused or reads nothing outside the bytes")
    func mutations() {
        let (set, members) = Self.sample(
            seed: 3, [.clustered, .sparse, .full, .scattered, .single])
        // The toggles of the first block lie behind the directory.
        let head = 32 + members.count * 16 + 16
        var random = SeededGenerator(seed: 20)
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: set.byteCount, alignment: 8)
        defer { copy.deallocate() }
        var accepted = 0
        for _ in 0..<20_000 {
            set.withBytes { copy.copyMemory(from: $0) }
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let at = Int.random(in: 0..<head, using: &random)
                copy[at] = UInt8.random(in: 0...255, using: &random)
            }
            guard let view = RecipientSetView(validating: UnsafeRawBufferPointer(copy)) else {
                continue
            }
            accepted += 1
            var buffer = BlockBuffer()
            for index in 0..<view.blockCount { buffer.assign(view.block(at: index).view) }
            if let checked = CheckedRecipientSet(UnsafeRawBufferPointer(copy)) {
                for index in 0..<view.blockCount {
                    buffer.assign(checked.view(ofBlockAt: index) ?? .empty)
                }
            }
            _ = view.contains(Ordinal(UInt32(truncatingIfNeeded: random.next())))
        }
        #expect(accepted < 20_000)
    }
}
