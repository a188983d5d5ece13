// SPDX-License-Identifier: Apache-2.0
//
// REP-1: acknowledgements come by the thousand, and each passes the fanouts between two marks of its
// instance. Which of a fanout's recipients have passed it is an intersection of two sets: its recipients,
// and those who acknowledge. So each fanout is looked at once for all of them, however many messages lie
// between the marks that are none of an instance's. Rests on MartletBits.

import MartletBase
import MartletBits
import MartletEngine

/// An instance's marks moved.
struct Pass {
    let taker: Taker
    let before: LaneMarks
    let after: LaneMarks
    /// What was passed lies behind this, in the log, and not behind `end`.
    let start: MessageSequence
    let end: MessageSequence
    /// What of it had been acknowledged singly.
    let singles: Set<MessageSequence>

    /// Whether it took a message with that, if it was a recipient.
    func takes(_ sequence: MessageSequence, _ variant: MessageRecord.Variant) -> Bool {
        sequence > start && variant.isBetween(before, after, sequence)
            && (singles.isEmpty || !singles.contains(sequence))
    }
}

/// Passes of one project, found by the recipients of a fanout.
struct PassTable {
    /// Fewer passes of a block are searched for one by one.
    private static let bitmapMin = 16

    private struct Block {
        let number: UInt32
        let passes: Range<Int>
        /// Where its instances' bits are in `words`; nil where they are few.
        let bitmap: Int?
    }

    /// In the order of their ordinals.
    let passes: [Pass]
    private var blocks: [Block] = []
    private var words: [UInt64] = []

    init(_ unsorted: [Pass]) {
        passes = unsorted.sorted { $0.taker.ordinal.rawValue < $1.taker.ordinal.rawValue }
        var first = 0
        while first < passes.count {
            let number = passes[first].taker.ordinal.blockIndex
            var end = first + 1
            while end < passes.count, passes[end].taker.ordinal.blockIndex == number { end += 1 }
            let isMany = end - first >= Self.bitmapMin
            blocks.append(
                Block(number: number, passes: first..<end, bitmap: isMany ? words.count : nil))
            if isMany { addBitmap(of: first..<end) }
            first = end
        }
    }

    private mutating func addBitmap(of range: Range<Int>) {
        let bitmap = words.count
        words.append(contentsOf: repeatElement(0, count: BlockGeometry.wordsPerBlock))
        for at in range {
            let bit = passes[at].taker.ordinal.bitIndex
            words[bitmap + (bit >> 6)] |= 1 << UInt64(bit & 63)
        }
    }

    /// Sequences that one pass at least lies over, ascending and apart from each other.
    func ranges() -> [(start: MessageSequence, end: MessageSequence)] {
        var ranges: [(start: MessageSequence, end: MessageSequence)] = []
        for pass in passes.sorted(by: { $0.start < $1.start }) {
            if let last = ranges.last, pass.start <= last.end {
                ranges[ranges.count - 1].end = max(last.end, pass.end)
            } else {
                ranges.append((pass.start, pass.end))
            }
        }
        return ranges
    }

    /// Adds the places in `passes` of those whose instances are members. Of a damaged set it finds what
    /// can be read.
    func find(membersOf set: CheckedRecipientSet, into found: inout [Int]) {
        guard set.blockCount < blocks.count else {
            for block in blocks {
                find(in: block, set.view(ofBlock: block.number) ?? .empty, &found)
            }
            return
        }
        for index in 0..<set.blockCount {
            let number = set.number(ofBlockAt: index)
            let place = place(ofBlock: number)
            guard place < blocks.count, blocks[place].number == number else { continue }
            find(in: blocks[place], set.view(ofBlockAt: index) ?? .empty, &found)
        }
    }

    /// Of the first block that is not below a number.
    private func place(ofBlock number: UInt32) -> Int {
        var (low, high) = (0, blocks.count)
        while low < high {
            let middle = (low + high) >> 1
            if blocks[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func find(in block: Block, _ view: BlockView, _ found: inout [Int]) {
        guard let bitmap = block.bitmap, let count = view.knownCount, count < block.passes.count
        else {
            for at in block.passes where view.contains(bit: passes[at].taker.ordinal.bitIndex) {
                found.append(at)
            }
            return
        }
        view.forEachBit { bit in
            guard bit < BlockGeometry.bitsPerBlock,
                words[bitmap + (bit >> 6)] >> UInt64(bit & 63) & 1 != 0
            else { return }
            var at = place(ofBit: bit, in: block.passes)
            while at < block.passes.upperBound, passes[at].taker.ordinal.bitIndex == bit {
                found.append(at)
                at += 1
            }
        }
    }

    private func place(ofBit bit: Int, in range: Range<Int>) -> Int {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = (low + high) >> 1
            let isBelow = passes[middle].taker.ordinal.bitIndex < bit
            if isBelow { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
