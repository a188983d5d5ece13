// SPDX-License-Identifier: Apache-2.0
//
// REP-1: acknowledgements come by the thousand, and each passes the fanouts between two marks of its
// instance. Devices that were given the same messages acknowledge them together, so their marks move
// alike: they are one cohort. How many of a cohort took a fanout is the size of an intersection of two sets,
// its recipients and the cohort, whatever the number of instances. Rests on MartletBits.

import MartletBase
import MartletBits
import MartletRows

/// An instance's marks moved.
struct Pass {
    let taker: Taker
    let marks: PassedMarks
}

/// From where to where marks moved.
struct PassedMarks: Hashable {
    let before: LaneMarks
    let after: LaneMarks
    /// What was passed lies behind this, in the log, and not behind `end`.
    let start: MessageSequence
    let end: MessageSequence
    /// What of it had been acknowledged singly.
    let singles: Set<MessageSequence>

    /// Whether a recipient took a message with that.
    func takes(_ sequence: MessageSequence, _ variant: MessageRecord.Variant) -> Bool {
        sequence > start && variant.isBetween(before, after, sequence)
            && (singles.isEmpty || !singles.contains(sequence))
    }
}

/// Passes of one project, found by the recipients of a fanout.
struct PassTable {
    /// Fewer instances of a block are looked for one by one.
    private static let bitmapMin = 16

    /// Instances of one app whose marks moved alike.
    struct Cohort {
        let app: AppNumber
        let platform: Platform
        let marks: PassedMarks
        fileprivate var blocks: [Block] = []
    }

    fileprivate struct Block {
        let number: UInt32
        /// Ascending places in the block.
        var bits: [UInt16]
        /// Where the same are in `words`; nil where they are few.
        var bitmap: Int?
    }

    private struct Key: Hashable {
        let app: AppNumber
        let marks: PassedMarks
    }

    private(set) var cohorts: [Cohort] = []
    private var words: [UInt64] = []

    init(_ passes: [Pass]) {
        var places: [Key: Int] = [:]
        var ordinals: [[UInt32]] = []
        var last: (key: Key, at: Int)?
        for pass in passes {
            let key = Key(app: pass.taker.app, marks: pass.marks)
            let at: Int
            if let last, last.key == key {
                at = last.at
            } else if let known = places[key] {
                at = known
            } else {
                at = cohorts.count
                places[key] = at
                cohorts.append(
                    Cohort(app: pass.taker.app, platform: pass.taker.platform, marks: pass.marks))
                ordinals.append([])
            }
            last = (key, at)
            ordinals[at].append(pass.taker.ordinal.rawValue)
        }
        for at in cohorts.indices { addBlocks(of: ordinals[at].sorted(), to: at) }
        // A set that is damaged may name bits behind its block: they are read here and count wrongly.
        words.append(contentsOf: repeatElement(0, count: Self.wordsPerBitmap))
    }

    /// As many as 16 bits can name half of.
    private static let wordsPerBitmap = 512

    private mutating func addBlocks(of ordinals: [UInt32], to cohort: Int) {
        var blocks: [Block] = []
        for raw in ordinals {
            let ordinal = Ordinal(raw)
            if blocks.last?.number != ordinal.blockIndex {
                blocks.append(Block(number: ordinal.blockIndex, bits: []))
            }
            blocks[blocks.count - 1].bits.append(UInt16(truncatingIfNeeded: ordinal.bitIndex))
        }
        for at in blocks.indices where blocks[at].bits.count >= Self.bitmapMin {
            let bitmap = words.count
            words.append(contentsOf: repeatElement(0, count: Self.wordsPerBitmap))
            for bit in blocks[at].bits { words[bitmap + Int(bit >> 6)] |= 1 << UInt64(bit & 63) }
            blocks[at].bitmap = bitmap
        }
        cohorts[cohort].blocks = blocks
    }

    /// Sequences that one pass at least lies over, ascending and apart from each other.
    func ranges() -> [(start: MessageSequence, end: MessageSequence)] {
        var ranges: [(start: MessageSequence, end: MessageSequence)] = []
        for cohort in cohorts.map(\.marks).sorted(by: { $0.start < $1.start }) {
            if let last = ranges.last, cohort.start <= last.end {
                ranges[ranges.count - 1].end = max(last.end, cohort.end)
            } else {
                ranges.append((cohort.start, cohort.end))
            }
        }
        return ranges
    }

    /// How many of a cohort are members of a set. Of a damaged set what can be read is counted.
    func count(of cohort: Int, in set: CheckedRecipientSet) -> Int {
        var count = 0
        for block in cohorts[cohort].blocks {
            let view = set.view(ofBlock: block.number) ?? .empty
            if let bitmap = block.bitmap {
                count += words.withUnsafeBufferPointer {
                    view.intersectionCount(with: .bitmap($0.baseAddress! + bitmap))
                }
            } else {
                for bit in block.bits where view.contains(bit: Int(bit)) { count += 1 }
            }
        }
        return count
    }

    /// Those of a cohort that are members of a set.
    func members(of cohort: Int, in set: CheckedRecipientSet) -> [Ordinal] {
        cohorts[cohort].blocks.flatMap { block in
            let view = set.view(ofBlock: block.number) ?? .empty
            return block.bits.filter { view.contains(bit: Int($0)) }
                .map { Ordinal(block: block.number, bit: Int($0)) }
        }
    }
}
