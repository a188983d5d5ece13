// SPDX-License-Identifier: Apache-2.0
//
// Counts deliveries when acknowledgements come by the thousand (REP-1). Each acknowledgement passes the fanouts between two
// marks of its instance. Devices that got the same messages acknowledge them together and their marks move alike: they are
// a *cohort*. How many of a cohort took a fanout is then the size of an intersection of two sets, the recipients and the
// cohort, however many instances there are. Rests on MartletBits.

import MartletBase
import MartletBits
import MartletRows

/// A movement of an instance's marks.
struct Pass {
    let taker: Taker
    let marks: PassedMarks
}

/// The two ends of a movement of marks.
struct PassedMarks: Hashable {
    let before: LaneMarks
    let after: LaneMarks
    /// The passed messages come after `start` in the log, up to `end`.
    let start: MessageSequence
    let end: MessageSequence
    /// Passed sequences that the instance had acknowledged singly before.
    let singles: Set<MessageSequence>
    /// What becomes of them: acknowledged, or handed over to a push service (GW-11).
    var event = ReportEvent.acknowledged

    /// Whether a recipient took a message with this movement.
    func takes(_ sequence: MessageSequence, _ variant: MessageRecord.Variant) -> Bool {
        sequence > start && variant.isBetween(before, after, sequence)
            && (singles.isEmpty || !singles.contains(sequence))
    }
}

/// One project's passes, to be matched with a fanout's recipients.
struct PassTable {
    /// So many instances of a cohort in a block get a bitmap. Fewer are looked up singly.
    private static let bitmapMin = 16

    /// The instances of an app whose marks moved alike.
    struct Cohort {
        let app: AppNumber
        let platform: Platform
        let marks: PassedMarks
        fileprivate var blocks: [Block] = []
    }

    fileprivate struct Block {
        let number: UInt32
        /// Positions in the block, ascending.
        var bits: [UInt16]
        /// Where the bitmap is in `words`; nil if the block has few instances.
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
        invariant(cohorts.count == ordinals.count, "Each cohort has its instances.")
        for at in cohorts.indices { addBlocks(of: ordinals[at].sorted(), to: at) }
    }

    /// Words of a bitmap: 32,768 bits, all positions in a block.
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

    /// The ranges of sequences that passes cover, ascending and disjoint.
    func ranges() -> [(start: MessageSequence, end: MessageSequence)] {
        var ranges: [(start: MessageSequence, end: MessageSequence)] = []
        for cohort in cohorts.map(\.marks).sorted(by: { $0.start < $1.start }) {
            invariant(cohort.start < cohort.end, "A movement of marks passes a sequence.")
            if let last = ranges.last, cohort.start <= last.end {
                ranges[ranges.count - 1].end = max(last.end, cohort.end)
            } else {
                ranges.append((cohort.start, cohort.end))
            }
        }
        return ranges
    }

    /// How many of a cohort are in a set. In a damaged set, only readable blocks count.
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

    /// Those of a cohort that are in a set.
    func members(of cohort: Int, in set: CheckedRecipientSet) -> [Ordinal] {
        cohorts[cohort].blocks.flatMap { block in
            let view = set.view(ofBlock: block.number) ?? .empty
            return block.bits.filter { view.contains(bit: Int($0)) }
                .map { Ordinal(block: block.number, bit: Int($0)) }
        }
    }
}
