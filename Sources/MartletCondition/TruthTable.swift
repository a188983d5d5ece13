// SPDX-License-Identifier: Apache-2.0
//
// Any condition over at most five topics is a number of 32 bits: bit `i` says whether the condition matches an
// instance that is subscribed to exactly the topics whose slots are the set bits of `i`. Equal conditions have
// equal numbers, and a condition that is always true or always empty is recognised at once. The evaluator folds
// tables of up to six inputs (five topics and the universe), so the arithmetic uses 64 bits. Rests on `SyntaxTree`.

/// The value of a condition for every combination of subscriptions.
public struct TruthTable: Sendable, Hashable, CustomStringConvertible {
    /// Largest number of inputs of the public table: 2^5 = 32 bits.
    static let slotsMax = 5

    /// The number of inputs: 0 to 6.
    let slotCount: Int
    /// 2^slotCount bits; all higher bits are zero.
    let wideBits: UInt64

    init(slotCount: Int, wideBits: UInt64) {
        self.slotCount = slotCount
        self.wideBits = wideBits & Self.mask(slotCount)
    }

    /// nil if the tree has more than five topics.
    public init?(_ tree: SyntaxTree) {
        let slots = tree.topics.count
        guard slots <= Self.slotsMax else { return nil }
        let values = tree.fold(
            topic: { Self.pattern($0) }, not: { ~$0 }, and: { $0 & $1 }, or: { $0 | $1 })
        self.init(slotCount: slots, wideBits: values[tree.rootIndex])
    }

    /// Bit `i` is the value where slot `s` has the value of bit `s` of `i`.
    public var bits: UInt32 { UInt32(truncatingIfNeeded: wideBits) }

    /// Whether every instance matches.
    public var isAlwaysTrue: Bool { wideBits == Self.mask(slotCount) }
    /// Whether no instance can match.
    public var isAlwaysEmpty: Bool { wideBits == 0 }
    /// Whether an instance in none of the sets matches.
    public var selectsWithoutTopics: Bool { wideBits & 1 != 0 }

    /// Whether the condition matches an instance that is subscribed to exactly the topics whose slots are the set
    /// bits of `assignment`.
    /// - Parameter assignment: 0 ..< 2^n for n topics.
    public func matches(_ assignment: Int) -> Bool { wideBits >> UInt64(assignment) & 1 != 0 }

    /// Whether only instances in the slot's set can match.
    public func isNecessary(_ slot: Int) -> Bool { wideBits & ~Self.pattern(slot) == 0 }

    /// Whether the slot's set influences the result.
    func depends(on slot: Int) -> Bool {
        fixing(slot, to: false).wideBits != fixing(slot, to: true).wideBits
    }

    /// The table with a slot's value fixed. The slots above move down by one.
    func fixing(_ slot: Int, to value: Bool) -> TruthTable {
        TruthTable(
            slotCount: slotCount - 1, wideBits: Self.fixing(wideBits, slot, to: value))
    }

    /// Fixes a slot's value in the bits of a table, without a loop over single bits.
    static func fixing(_ bits: UInt64, _ slot: Int, to value: Bool) -> UInt64 {
        // Groups of 2^slot bits alternate between both values of the slot. Keep the groups of `value`, then close
        // the gaps, whose width doubles from step to step.
        var result = (value ? bits &>> (1 &<< UInt64(slot)) : bits) & ~pattern(slot)
        var level = slot
        while level < slotsMax {
            result = (result | result &>> (1 &<< UInt64(level))) & ~pattern(level &+ 1)
            level &+= 1
        }
        return result
    }

    /// The table over some of the slots, ascending. The removed slots make no difference.
    func keeping(_ slots: [Int]) -> TruthTable {
        var result = self
        for slot in (0..<slotCount).reversed() where !slots.contains(slot) {
            result = result.fixing(slot, to: false)
        }
        return result
    }

    /// The table with the universe as an additional last slot: only members of the universe match.
    func withinUniverse() -> TruthTable {
        TruthTable(slotCount: slotCount + 1, wideBits: wideBits << UInt64(1 << slotCount))
    }

    /// 2^slotCount ones.
    static func mask(_ slotCount: Int) -> UInt64 {
        slotCount >= 6 ? ~0 : (1 << UInt64(1 << slotCount)) - 1
    }

    /// The table of a single slot. A switch, because access to a static array would check an initialisation token
    /// in the middle of an evaluation.
    static func pattern(_ slot: Int) -> UInt64 {
        switch slot {
        case 0: 0xAAAA_AAAA_AAAA_AAAA
        case 1: 0xCCCC_CCCC_CCCC_CCCC
        case 2: 0xF0F0_F0F0_F0F0_F0F0
        case 3: 0xFF00_FF00_FF00_FF00
        case 4: 0xFFFF_0000_FFFF_0000
        default: 0xFFFF_FFFF_0000_0000
        }
    }

    /// The bits; the combination of all topics comes first.
    public var description: String {
        let digits = String(wideBits, radix: 2)
        return "0b" + String(repeating: "0", count: (1 << slotCount) - digits.count) + digits
    }
}
