// SPDX-License-Identifier: Apache-2.0
//
// Connected instances and their handles, against a dictionary.

import MartletBase
import MartletBits
import Testing

@Suite("Connected set")
struct ConnectedSetTests {
    private func handles(
        _ set: borrowing ConnectedSet, _ block: UInt32, _ view: BlockView
    ) -> [UInt32] {
        var found: [UInt32] = []
        set.forEachHandle(in: block, intersecting: view) { found.append($0) }
        return found
    }

    @Test("Connecting, replacing and disconnecting agree with a dictionary")
    func randomChanges() {
        var random = SeededGenerator(seed: 40)
        var set = ConnectedSet()
        var model: [UInt32: UInt32] = [:]
        for step in 0..<60_000 {
            // Grows first, then shrinks.
            let block = UInt32.random(in: 0..<4, using: &random) * 3
            let bit = Int.random(in: 0..<(step % 2 == 0 ? 2000 : 32_640), using: &random)
            let ordinal = Ordinal(block: block, bit: bit)
            let isGrowing = step < 30_000
            if random.next() % 4 != 0 ? isGrowing : !isGrowing {
                let handle = UInt32(truncatingIfNeeded: random.next())
                let replaced = set.insert(ordinal, handle: handle)
                #expect(replaced == model.updateValue(handle, forKey: ordinal.rawValue))
            } else {
                let removed = set.remove(ordinal)
                #expect(removed == model.removeValue(forKey: ordinal.rawValue))
            }
            let handle = set.handle(of: ordinal)
            let count = set.count
            #expect(handle == model[ordinal.rawValue])
            #expect(count == model.count)
            if step % 5000 == 0 { check(set, model) }
        }
        check(set, model)
        for key in model.keys { set.remove(Ordinal(key)) }
        let (isEmpty, count) = (set.isEmpty, set.count(inBlock: 3))
        #expect(isEmpty)
        #expect(count == 0)
    }

    private func check(_ set: borrowing ConnectedSet, _ model: [UInt32: UInt32]) {
        for block in 0..<12 as Range<UInt32> {
            let expected = model.filter { $0.key >> 15 == block }.sorted { $0.key < $1.key }
            #expect(handles(set, block, .full) == expected.map(\.value))
            let count = set.count(inBlock: block)
            let viewCount = set.withView(ofBlock: block) { $0.count }
            #expect(count == expected.count)
            #expect(viewCount == expected.count)
        }
    }

    @Test("Meeting a set gives the handles of exactly the common ordinals, in every form")
    func intersections() {
        var random = SeededGenerator(seed: 41)
        for (connected, density) in Density.pairs {
            let (mine, other) = (connected.members(&random), density.members(&random))
            var set = ConnectedSet()
            for bit in mine { set.insert(Ordinal(block: 2, bit: bit), handle: UInt32(bit) + 1) }
            let expected = mine.intersection(other).sorted().map { UInt32($0) + 1 }
            withForms(of: other, block: 2) { view in
                let found = handles(set, 2, view)
                let foreign = handles(set, 1, view) + handles(set, 99_999, view)
                #expect(found == expected)
                #expect(foreign.isEmpty)
            }
        }
    }

    @Test("Nothing is known of an ordinal that never connected")
    func unknown() {
        var set = ConnectedSet()
        let handle = set.handle(of: Ordinal(UInt32.max))
        #expect(handle == nil)
        let first = set.insert(Ordinal(block: 300, bit: 1), handle: 5)
        let second = set.insert(Ordinal(block: 300, bit: 1), handle: 6)
        #expect(first == nil)
        #expect(second == 5)
        let answers = [
            set.contains(Ordinal(0)), set.contains(Ordinal(block: 300, bit: 1)),
            set.contains(Ordinal(block: 300, bit: 2)), set.contains(Ordinal(UInt32.max)),
        ]
        #expect(answers == [false, true, false, false])
        let removed = set.remove(Ordinal(block: 300, bit: 2))
        #expect(removed == nil)
    }
}
