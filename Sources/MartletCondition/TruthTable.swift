// SPDX-License-Identifier: Apache-2.0
//
// Any condition over at most five topics is one number of 32 bits: bit `i` says whether an instance
// matches that is subscribed to exactly the topics whose slots are the set bits of `i`. Equal
// conditions have equal numbers, and what is always true or always empty is seen at once. The
// evaluator folds tables of up to six inputs (five topics and the universe), which is why the
// arithmetic is on 64 bits. Rests on `SyntaxTree`.

/// The value of a condition for every combination of subscriptions.
public struct TruthTable: Sendable, Hashable, CustomStringConvertible {
    /// Inputs that the public table can have: 2^5 = 32 bits.
    public static let slotsMax = 5

    /// Inputs: 0 to 6.
    let slotCount: Int
    /// 2^slotCount bits; the ones above are zero.
    let wideBits: UInt64

    init(slotCount: Int, wideBits: UInt64) {
        self.slotCount = slotCount
        self.wideBits = wideBits & Self.mask(slotCount)
    }

    /// Nil if the tree has more than five topics.
    public init?(_ tree: SyntaxTree) {
        let slots = tree.topics.count
        guard slots <= Self.slotsMax else { return nil }
        let values = tree.fold(
            topic: { Self.patterns[$0] }, not: { ~$0 }, and: { $0 & $1 }, or: { $0 | $1 })
        self.init(slotCount: slots, wideBits: values[tree.rootIndex])
    }

    /// Bit `i` is the value where slot `s` is bit `s` of `i`.
    public var bits: UInt32 { UInt32(truncatingIfNeeded: wideBits) }

    /// Whether every instance matches.
    public var isAlwaysTrue: Bool { wideBits == Self.mask(slotCount) }
    /// Whether no instance can match.
    public var isAlwaysEmpty: Bool { wideBits == 0 }
    /// Whether an instance in none of the sets matches.
    public var selectsWithoutTopics: Bool { wideBits & 1 != 0 }

    public func matches(_ assignment: Int) -> Bool { wideBits >> UInt64(assignment) & 1 != 0 }

    /// Whether only instances in the slot's set can match.
    public func isNecessary(_ slot: Int) -> Bool { wideBits & ~Self.patterns[slot] == 0 }

    /// Whether the slot's set makes any difference.
    public func depends(on slot: Int) -> Bool {
        fixing(slot, to: false).wideBits != fixing(slot, to: true).wideBits
    }

    /// The table with a slot's value known; the slots above move down by one.
    func fixing(_ slot: Int, to value: Bool) -> TruthTable {
        // Halves of 2^slot bits alternate; keep the ones of `value` and close the gaps.
        let width = 1 << slot
        let half: UInt64 = (1 << UInt64(width)) - 1
        var result: UInt64 = 0
        var to = 0
        for from in stride(from: value ? width : 0, to: 1 << slotCount, by: 2 * width) {
            result |= (wideBits >> UInt64(from) & half) << UInt64(to)
            to += width
        }
        return TruthTable(slotCount: slotCount - 1, wideBits: result)
    }

    /// The table with the universe as one more slot, the last: what matches is also in it.
    func withinUniverse() -> TruthTable {
        TruthTable(slotCount: slotCount + 1, wideBits: wideBits << UInt64(1 << slotCount))
    }

    /// 2^slotCount ones.
    static func mask(_ slotCount: Int) -> UInt64 {
        slotCount >= 6 ? ~0 : (1 << UInt64(1 << slotCount)) - 1
    }

    /// The table of each slot by itself.
    static let patterns: [UInt64] = [
        0xAAAA_AAAA_AAAA_AAAA, 0xCCCC_CCCC_CCCC_CCCC, 0xF0F0_F0F0_F0F0_F0F0,
        0xFF00_FF00_FF00_FF00, 0xFFFF_0000_FFFF_0000, 0xFFFF_FFFF_0000_0000,
    ]

    /// The bits, the combination of all topics first.
    public var description: String {
        let digits = String(wideBits, radix: 2)
        return "0b" + String(repeating: "0", count: (1 << slotCount) - digits.count) + digits
    }
}
