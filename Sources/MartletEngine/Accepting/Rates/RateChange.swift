// SPDX-License-Identifier: Apache-2.0
//
// What taking tokens from many buckets does to them, as a value that can be applied later: a bucket that is full at x becomes
// full at x + added, but not before `earliest`. Two changes in a row combine into one. Rests on MartletBits' views.

import MartletBits

/// A change to all recipients' buckets.
struct RateChange {
    /// When an instance's two buckets are full again, counted from the pages' base.
    typealias Times = SIMD2<UInt32>

    let recipients: RecipientSet
    private var added: Times
    private var earliest: Times

    init(_ recipients: RecipientSet, added: Times, earliest: Times) {
        self.recipients = recipients
        self.added = added
        self.earliest = earliest
    }

    /// Adds another change for the same recipients.
    mutating func join(_ next: RateChange) {
        earliest = Self.later(earliest &+ next.added, next.earliest)
        added &+= next.added
    }

    /// Applies the change to the entries of a page, part `part` of a block.
    func make(_ entries: UnsafeMutablePointer<Times>, page block: Int, _ part: Int) {
        let view = recipients.view
        let index = view.index(ofBlockFrom: UInt32(truncatingIfNeeded: block))
        guard index < view.blockCount, case let found = view.block(at: index),
            Int(found.block) == block
        else { return }
        let (added, earliest) = (added, earliest)
        Self.forEachMember(of: found.view, part: part) { bit in
            entries[bit] = Self.later(entries[bit] &+ added, earliest)
        }
    }

    @inline(__always)
    static func later(_ a: Times, _ b: Times) -> Times { Times(max(a.x, b.x), max(a.y, b.y)) }

    @inline(__always)
    static func earlier(_ a: Times, _ b: Times) -> Times { Times(min(a.x, b.x), min(a.y, b.y)) }

    // MARK: Parts of a block

    /// A part's ordinals share a page: 16 words of a bitmap.
    private static let partShift = 10
    private static let wordsPerPart = (1 << partShift) / 64

    /// Which parts of a block have members, as bits.
    static func parts(of view: BlockView) -> UInt32 {
        switch view {
        case .empty: return 0
        case .full: return .max
        case .bitmap(let words):
            var parts: UInt32 = 0
            var (from, part) = (0, 0)
            while from < BlockGeometry.wordsPerBlock {
                let end = min(from + wordsPerPart, BlockGeometry.wordsPerBlock)
                var word = from
                while word < end, words[word] == 0 { word += 1 }
                if word < end { parts |= 1 << UInt32(truncatingIfNeeded: part) }
                from = end
                part += 1
            }
            return parts
        case .list, .wideList, .runs:
            var parts: UInt32 = 0
            view.forEachBit { parts |= 1 << UInt32(truncatingIfNeeded: $0 >> partShift) }
            return parts
        }
    }

    /// Calls `body` with each member's place in a part of a block.
    @inline(__always)
    static func forEachMember(of view: BlockView, part: Int, _ body: (Int) -> Void) {
        let start = part << partShift
        switch view {
        case .empty: break
        case .full:
            let count = min(1 << partShift, BlockGeometry.bitsPerBlock - start)
            for bit in 0..<count { body(bit) }
        case .bitmap(let words):
            let first = part * wordsPerPart
            let end = min(first + wordsPerPart, BlockGeometry.wordsPerBlock)
            for index in first..<end {
                var word = words[index]
                let offset = (index &- first) &<< 6
                while word != 0 {
                    body(offset &+ word.trailingZeroBitCount)
                    word &= word &- 1
                }
            }
        case .list(let list):
            var (low, high) = (0, list.count)
            while low < high {
                let middle = (low + high) >> 1
                if Int(list[middle]) < start { low = middle + 1 } else { high = middle }
            }
            while low < list.count, Int(list[low]) < start + (1 << partShift) {
                // A damaged list may not ascend.
                if Int(list[low]) >= start { body(Int(list[low]) - start) }
                low += 1
            }
        case .wideList, .runs:
            view.forEachBit { bit in if bit >> partShift == part { body(bit - start) } }
        }
    }
}
