// SPDX-License-Identifier: Apache-2.0
//
// Packed lists of both widths, against sets.

import MartletBase
import MartletBits
import TestSupport
import Testing

@Suite("Packed lists")
struct PackedListTests {
    private func agree<T: FixedWidthInteger & UnsignedInteger>(_ type: T.Type) {
        var random = SeededGenerator(seed: 30)
        for round in 0..<rounds(200) {
            let bound = round % 3 == 0 ? T.random(in: 1...50, using: &random) : T.max
            func values(_ random: inout SeededGenerator) -> [T] {
                let count = Int.random(in: 0...300, using: &random)
                return (0..<count).map { _ in T.random(in: 0...bound, using: &random) }
            }
            let old = Set(values(&random))
            // Repetitions are allowed in what goes in.
            let added = values(&random).sorted()
            let removed = values(&random).sorted()
            PackedList.bytes(of: old.sorted()).withUnsafeBytes { bytes in
                #expect(PackedList.count(bytes, of: T.self) == old.count)
                let more = PackedList.inserting(bytes, sorted: added)
                #expect(more == PackedList.bytes(of: old.union(added).sorted()))
                let less = PackedList.removing(bytes, sorted: removed)
                #expect(less == PackedList.bytes(of: old.subtracting(removed).sorted()))
                for value in added.prefix(20) + old.prefix(20) + [0, T.max] {
                    #expect(PackedList.contains(bytes, value) == old.contains(value))
                    let with = PackedList.bytes(of: old.union([value]).sorted())
                    #expect(PackedList.inserting(bytes, value) == with)
                    let without = PackedList.bytes(of: old.subtracting([value]).sorted())
                    #expect(PackedList.removing(bytes, value) == without)
                }
                var walked: [T] = []
                PackedList.forEach(bytes, as: T.self) { walked.append($0) }
                #expect(walked == old.sorted())
            }
        }
    }

    @Test("Lists of two bytes agree with sets") func narrow() { agree(UInt16.self) }
    @Test("Lists of four bytes agree with sets") func wide() { agree(UInt32.self) }

    @Test("An odd address and an empty list are no exceptions")
    func alignment() {
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        #expect(!PackedList.contains(empty, 5 as UInt32))
        #expect(PackedList.removing(empty, 5 as UInt32).isEmpty)
        #expect(PackedList.inserting(empty, 0x0102_0304 as UInt32) == [4, 3, 2, 1])
        let bytes: [UInt8] = [0xFF, 1, 0, 0, 0, 9, 0, 0, 0]
        bytes.withUnsafeBytes {
            let odd = UnsafeRawBufferPointer(rebasing: $0[1...])
            #expect(PackedList.contains(odd, 9 as UInt32))
            #expect(PackedList.inserting(odd, 3 as UInt32) == [1, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0])
        }
    }
}
