// SPDX-License-Identifier: Apache-2.0
//
// Views of every form and the working block, against sets of integers.

import MartletBase
import MartletBits
import Testing

@Suite("Blocks")
struct BlockTests {
    @Test("An ordinal is its block and its bit, and the last 128 of a block are skipped")
    func geometry() {
        #expect(BlockGeometry.bytesPerBlock == BlockGeometry.wordsPerBlock * 8)
        #expect(BlockGeometry.bitsPerBlock == BlockGeometry.wordsPerBlock * 64)
        let ordinal = Ordinal(block: 5, bit: 32_639)
        #expect(ordinal.blockIndex == 5)
        #expect(ordinal.bitIndex == 32_639)
        #expect(Ordinal.next(after: ordinal) == Ordinal(6 << 15))
        #expect(Ordinal.next(after: Ordinal(7)) == Ordinal(8))
        #expect(!Ordinal(block: 5, bit: 32_640).isUsable)
        #expect(Ordinal.next(after: Ordinal(block: 5, bit: 32_700)) == Ordinal(6 << 15))
        #expect(Ordinal.next(after: Ordinal(block: 131_071, bit: 32_639)) == nil)
    }

    @Test("Every form of a set answers alike")
    func views() {
        var random = SeededGenerator(seed: 10)
        for density in Density.allCases {
            let set = density.members(&random)
            let positions = UnsafeMutablePointer<UInt16>.allocate(capacity: set.count + 32)
            defer { positions.deallocate() }
            withForms(of: set) { view in
                #expect(view.count == set.count)
                var bits: [Int] = []
                view.forEachBit { bits.append($0) }
                #expect(bits == set.sorted())
                let count = view.writePositions(into: positions)
                #expect(UnsafeBufferPointer(start: positions, count: count).map(Int.init) == bits)
                for _ in 0..<100 {
                    let bit = Int.random(in: 0..<BlockGeometry.bitsPerBlock, using: &random)
                    #expect(view.contains(bit: bit) == set.contains(bit))
                }
                for bit in bits.prefix(50) + bits.suffix(50) { #expect(view.contains(bit: bit)) }
                var buffer = BlockBuffer()
                view.write(into: &buffer)
                #expect(buffer.members == set)
            }
        }
    }

    @Test("The working block agrees with sets of integers, whatever the form of the operand")
    func algebra() {
        var random = SeededGenerator(seed: 11)
        for (first, second) in Density.pairs {
            let (x, y) = (first.members(&random), second.members(&random))
            withForms(of: y) { view in
                var buffer = BlockBuffer(members: x)
                buffer.formUnion(view)
                #expect(buffer.members == x.union(y))
                buffer = BlockBuffer(members: x)
                buffer.formIntersection(view)
                #expect(buffer.members == x.intersection(y))
                buffer = BlockBuffer(members: x)
                buffer.subtract(view)
                #expect(buffer.members == x.subtracting(y))
                buffer.removeAll()
                #expect(buffer.count == 0)
                buffer.withWords { #expect($0[510] == 0 && $0[511] == 0) }
            }
        }
    }

    @Test("Common members are counted the same in all pairs of forms")
    func intersectionCounts() {
        var random = SeededGenerator(seed: 12)
        for (first, second) in Density.pairs {
            let (x, y) = (first.members(&random), second.members(&random))
            let common = x.intersection(y).count
            withForms(of: x) { a in
                withForms(of: y) { b in #expect(a.intersectionCount(with: b) == common) }
            }
        }
    }

    @Test("Inserting and removing a bit say whether anything changed")
    func singleBits() {
        var buffer = BlockBuffer()
        let results = [
            buffer.insert(bit: 32_639), buffer.insert(bit: 32_639), buffer.contains(bit: 32_639),
            buffer.remove(bit: 32_639), buffer.remove(bit: 32_639),
        ]
        #expect(results == [true, false, true, true, false])
        #expect(buffer.count == 0)
    }

    @Test("A stored position that is never issued does not get into a working block")
    func strayPositions() {
        var buffer = BlockBuffer()
        let list: [UInt16] = [5, 32_640, 32_767]
        list.withUnsafeBufferPointer { buffer.formUnion(.list($0)) }
        buffer.withWords { #expect($0[510] == 0 && $0[511] == 0) }
        #expect(buffer.members == [5])
    }

    @Test("A stored position that is never issued is looked up in no bitmap")
    func strayLookUps() {
        // A bitmap of 510 words, and what lies behind it.
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 1024)
        defer { words.deallocate() }
        words.initialize(repeating: ~0, count: 1024)
        words.update(repeating: 0, count: BlockGeometry.wordsPerBlock)
        words[0] = 1 << 5
        let bitmap = BlockView.bitmap(UnsafePointer(words))
        let list: [UInt16] = [5, 32_640, 32_767, 32_768, 65_535]
        list.withUnsafeBufferPointer {
            #expect(bitmap.intersectionCount(with: .list($0)) == 1)
            #expect(BlockView.list($0).intersectionCount(with: bitmap) == 1)
        }
        PackedList.bytes(of: [5, 32_640, 32_767] as [UInt32]).withUnsafeBytes {
            #expect(bitmap.intersectionCount(with: .wideList($0)) == 1)
        }
        for bit in list.dropFirst() { #expect(!bitmap.contains(bit: Int(bit))) }
        #expect(bitmap.contains(bit: 5) && !bitmap.contains(bit: -1))
    }
}
