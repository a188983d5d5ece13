// SPDX-License-Identifier: Apache-2.0
//
// Combines the sets of one block by truth table, for conditions of at most five topics; with the universe a table
// has up to six inputs. The containers of the sets, not their bits, decide the method:
//
// 1. A slot that is empty or full in the block is a constant. Folding the table removes the slot, and with it
//    every slot without further influence. There are at most 3^6 foldings, each computed when first met.
// 2. No slot left: the block is empty or full. One slot left, in positive form: the slot's view is the answer,
//    and no word is read or written.
// 3. A list outside of which nothing can match: look up the list's elements in the other sets.
// 4. Only lists with few elements: merge the lists.
// 5. A list whose elements all match, or all fail, independent of the other sets: evaluate the table without the
//    list, and set or clear the elements in the result afterwards. For counting, the last such list is only
//    looked up.
// 6. Otherwise convert lists and runs to bitmaps and read every word once in the fused kernel. (For counting, the
//    evaluator has handled blocks of runs alone before.)
//
// Rests on `TruthTable` and the kernels.

internal import MartletBits

/// Evaluates one truth table block by block.
final class TableCombiner {
    /// The table, with the universe as the last slot if the condition reads it.
    private let table: TruthTable
    /// The foldings met so far, indexed by the base-3 number of the slots' states.
    private let foldings: UnsafeMutablePointer<Folding>
    private let foldingCount: Int
    /// One buffer per input for scattered lists, and one for the result; allocated when first needed.
    private let buffers: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>?>
    private let list: UnsafeMutablePointer<UInt16>
    /// Room for the inputs of the current block, for their words, and for the lists set aside. All memory is
    /// allocated once and reached through constants, because Swift guards every access to a mutable property of a
    /// class.
    private let inputs: UnsafeMutablePointer<BlockView>
    private let inputWords: UnsafeMutablePointer<UnsafePointer<UInt64>>
    private let aside: UnsafeMutablePointer<Aside>
    private let kernels = BitKernels.current

    /// The rest of the table after the constant slots are fixed.
    private struct Folding {
        /// The table over the live slots, in ascending order.
        var bits: UInt64 = 0
        /// A bit mask of the slots that still make a difference.
        var live: UInt8 = 0
        var isKnown = false
    }

    /// A list whose elements all match, or all fail.
    private struct Aside {
        var list: BlockView
        var isMatching: Bool
    }

    private static let inputsMax = 6
    private static let resultBuffer = 6
    /// Largest number of elements that are looked up or merged one by one. The buffer has one place more, because a
    /// write may follow the last kept element.
    private static let listMax = max(Tuning.lookupsMax, Tuning.mergedElementsMax)

    init(_ table: TruthTable) {
        self.table = table
        var count = 1
        for _ in 0..<table.slotCount { count *= 3 }
        foldingCount = count
        foldings = .allocate(capacity: count)
        foldings.initialize(repeating: Folding(), count: count)
        buffers = .allocate(capacity: Self.inputsMax + 1)
        buffers.initialize(repeating: nil, count: Self.inputsMax + 1)
        list = .allocate(capacity: Self.listMax + 1)
        inputs = .allocate(capacity: Self.inputsMax)
        inputWords = .allocate(capacity: Self.inputsMax)
        aside = .allocate(capacity: Self.inputsMax)
    }

    deinit {
        foldings.deallocate()
        for index in 0...Self.inputsMax { buffers[index]?.deallocate() }
        buffers.deallocate()
        list.deallocate()
        inputs.deallocate()
        inputWords.deallocate()
        aside.deallocate()
    }

    /// The result for one block. Without `isWriting` only the count is valid.
    func combine(
        _ views: UnsafePointer<BlockView>, isWriting: Bool
    ) -> (view: BlockView, count: Int) {
        var code = 0
        var place = 1
        for slot in 0..<table.slotCount {
            switch views[slot] {
            case .empty: break
            case .full: code &+= place
            default: code &+= 2 &* place
            }
            place &*= 3
        }
        if !foldings[code].isKnown { foldings[code] = fold(views) }
        let folding = foldings[code]

        var live = folding.live
        switch live.nonzeroBitCount {
        case 0:
            return folding.bits & 1 != 0 ? (.full, BlockGeometry.bitsPerBlock) : (.empty, 0)
        case 1 where folding.bits == 0b10:
            let view = views[live.trailingZeroBitCount]
            return (view, view.count)
        case let inputCount:
            for index in 0..<inputCount {
                inputs[index] = views[live.trailingZeroBitCount]
                live &= live &- 1
            }
            return combine(inputCount, folding.bits, isWriting: isWriting)
        }
    }

    // MARK: Folding

    private func fold(_ views: UnsafePointer<BlockView>) -> Folding {
        var folded = table
        var live: UInt8 = 0
        // From the last slot, so that the numbers of the earlier slots stay.
        for slot in stride(from: table.slotCount - 1, through: 0, by: -1) {
            switch views[slot] {
            case .empty: folded = folded.fixing(slot, to: false)
            case .full: folded = folded.fixing(slot, to: true)
            default: live |= 1 << UInt8(slot)
            }
        }
        // Remove slots without further influence, again from the last.
        let slots = (0..<table.slotCount).filter { live >> UInt8($0) & 1 != 0 }
        for index in stride(from: slots.count - 1, through: 0, by: -1)
        where !folded.depends(on: index) {
            folded = folded.fixing(index, to: false)
            live &= ~(1 << UInt8(slots[index]))
        }
        return Folding(bits: folded.wideBits, live: live, isKnown: true)
    }

    // MARK: Live inputs

    private func combine(
        _ inputCount: Int, _ bits: UInt64, isWriting: Bool
    ) -> (view: BlockView, count: Int) {
        // Find the shortest list outside of which nothing can match, and the total length of all lists.
        var driver = -1
        var driverMembers = Int.max
        var elements = 0
        var listCount = 0
        for index in 0..<inputCount {
            guard let count = inputs[index].listCount else { continue }
            listCount &+= 1
            elements &+= count
            let others = ~TruthTable.pattern(index) & TruthTable.mask(inputCount)
            guard bits & others == 0, count < driverMembers else { continue }
            driver = index
            driverMembers = count
        }
        if listCount == 0 { return evaluate(inputCount, bits, isWriting: isWriting) }
        if driver >= 0, driverMembers &* (inputCount &- 1) &+ elements <= Tuning.lookupsMax {
            return filter(UnsafeBufferPointer(start: inputs, count: inputCount), bits, driver)
        }
        if listCount == inputCount, bits & 1 == 0, elements <= Tuning.mergedElementsMax {
            return merge(UnsafeBufferPointer(start: inputs, count: inputCount), bits)
        }
        return setAside(inputCount, bits, isWriting: isWriting)
    }

    /// Looks up the elements of one list in all other sets.
    private func filter(
        _ inputs: UnsafeBufferPointer<BlockView>, _ bits: UInt64, _ driver: Int
    ) -> (view: BlockView, count: Int) {
        let source = inputs[driver]
        let members = source.count
        return withUnsafeTemporaryAllocation(of: Int.self, capacity: Self.inputsMax) { at in
            at.initialize(repeating: 0)
            var count = 0
            for element in 0..<members {
                let bit = source.listBit(element)
                var assignment = 0 as UInt64
                for index in 0..<inputs.count {
                    let isMember: Bool
                    if case .bitmap(let words) = inputs[index] {
                        isMember = BlockView.has(bit, words)
                    } else if index == driver {
                        isMember = true
                    } else if case .runs(let toggles) = inputs[index] {
                        while at[index] < toggles.count, Int(toggles[at[index]]) <= bit {
                            at[index] &+= 1
                        }
                        isMember = at[index] & 1 != 0
                    } else {
                        // The two lists ascend, so a single walk over each list is enough.
                        let other = inputs[index]
                        let end = other.listCount ?? 0
                        while at[index] < end, other.listBit(at[index]) < bit { at[index] &+= 1 }
                        isMember = at[index] < end && other.listBit(at[index]) == bit
                    }
                    assignment |= (isMember ? 1 : 0) &<< UInt64(index)
                }
                list[count] = UInt16(truncatingIfNeeded: bit)
                count &+= Int(bits &>> assignment & 1)
            }
            return (listed(count), count)
        }
    }

    /// Walks all lists together.
    private func merge(
        _ inputs: UnsafeBufferPointer<BlockView>, _ bits: UInt64
    ) -> (view: BlockView, count: Int) {
        withUnsafeTemporaryAllocation(of: (at: Int, bit: Int).self, capacity: inputs.count) {
            heads in
            for index in 0..<inputs.count {
                // A damaged row may be an empty list.
                let isEmpty = inputs[index].listCount == 0
                heads[index] = (0, isEmpty ? Int.max : inputs[index].listBit(0))
            }
            var count = 0
            while true {
                var lowest = Int.max
                for index in 0..<inputs.count { lowest = min(lowest, heads[index].bit) }
                guard lowest < Int.max else { break }
                var assignment = 0 as UInt64
                for index in 0..<inputs.count where heads[index].bit == lowest {
                    assignment |= 1 &<< UInt64(index)
                    let next = heads[index].at &+ 1
                    let end = inputs[index].listCount ?? 0
                    heads[index] = (next, next < end ? inputs[index].listBit(next) : Int.max)
                }
                list[count] = UInt16(truncatingIfNeeded: lowest)
                count &+= Int(bits &>> assignment & 1)
            }
            return (listed(count), count)
        }
    }

    /// Removes the lists whose elements all match or all fail, evaluates the remaining inputs, and applies the
    /// lists to the result.
    private func setAside(
        _ inputCount: Int, _ bits: UInt64, isWriting: Bool
    ) -> (view: BlockView, count: Int) {
        var (inputCount, bits, asideCount) = (inputCount, bits, 0)
        for index in stride(from: inputCount &- 1, through: 0, by: -1) {
            guard inputs[index].listCount != nil else { continue }
            let inside = TruthTable.pattern(index) & TruthTable.mask(inputCount)
            guard bits & inside == 0 || bits & inside == inside else { continue }
            aside[asideCount] = Aside(list: inputs[index], isMatching: bits & inside != 0)
            asideCount &+= 1
            bits = TruthTable.fixing(bits, index, to: false)
            inputCount &-= 1
            for next in index..<inputCount { inputs[next] = inputs[next &+ 1] }
        }
        if asideCount == 0 { return evaluate(inputCount, bits, isWriting: isWriting) }
        let result = buffer(Self.resultBuffer)
        var count: Int
        if bits == 0 || bits == TruthTable.mask(inputCount) {
            (bits == 0 ? BlockView.empty : .full).write(toWords: result)
            count = bits == 0 ? 0 : BlockGeometry.bitsPerBlock
        } else {
            count = evaluate(inputCount, bits, isWriting: true).count
            result[510] = 0
            result[511] = 0
        }
        // The list set aside first is applied last, because its verdict holds regardless of the later ones.
        for index in stride(from: asideCount &- 1, through: 0, by: -1) {
            let (list, isMatching) = (aside[index].list, aside[index].isMatching)
            if index == 0, !isWriting {
                let found = list.membersFound(inWords: UnsafePointer(result))
                return (.empty, isMatching ? count &+ list.count &- found : count &- found)
            }
            list.apply(isMatching, toWords: result)
            if index == 0 || (index == 1 && !isWriting) { count = kernels.count(result) }
        }
        return (bitmap(result, count), count)
    }

    /// Runs the fused kernel over bitmaps.
    private func evaluate(
        _ inputCount: Int, _ bits: UInt64, isWriting: Bool
    ) -> (view: BlockView, count: Int) {
        for index in 0..<inputCount {
            if case .bitmap(let bitmap) = inputs[index] {
                inputWords[index] = bitmap
            } else {
                let buffer = buffer(index)
                inputs[index].write(toWords: buffer)
                inputWords[index] = UnsafePointer(buffer)
            }
        }
        let isSplit = inputCount > TruthTable.slotsMax
        let target = isWriting || isSplit ? buffer(Self.resultBuffer) : nil
        if !isSplit {
            let count = kernels.evaluate(
                truthTable: UInt32(truncatingIfNeeded: bits),
                inputs: UnsafeBufferPointer(start: inputWords, count: inputCount), into: target)
            return (bitmap(target, count), count)
        }
        // The sixth input is the universe: outside of the universe nothing matches.
        let universe = inputWords[TruthTable.slotsMax]
        let result = target!
        _ = kernels.evaluate(
            truthTable: UInt32(truncatingIfNeeded: bits >> 32),
            inputs: UnsafeBufferPointer(start: inputWords, count: TruthTable.slotsMax),
            into: result)
        kernels.and(result, universe, into: result)
        let count = kernels.count(result)
        return (bitmap(result, count), count)
    }

    // MARK: Parts

    private func listed(_ count: Int) -> BlockView {
        count == 0 ? .empty : .list(UnsafeBufferPointer(start: list, count: count))
    }

    private func bitmap(_ words: UnsafeMutablePointer<UInt64>?, _ count: Int) -> BlockView {
        guard let words, count > 0 else { return .empty }
        return .bitmap(UnsafePointer(words))
    }

    private func buffer(_ index: Int) -> UnsafeMutablePointer<UInt64> {
        if let buffer = buffers[index] { return buffer }
        let raw = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 64)
        let buffer = raw.initializeMemory(as: UInt64.self, repeating: 0, count: 512)
        buffers[index] = buffer
        return buffer
    }
}
