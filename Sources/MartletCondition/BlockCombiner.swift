// SPDX-License-Identifier: Apache-2.0
//
// The part of the evaluator that does not depend on the source: which slots are read at all, which
// of them bound the result, and which of the ways of combining is taken. Rests on `TableCombiner`,
// `BytecodeCombiner` and `ListMerger`.

public import MartletBits

/// Combines one condition's sets, a block at a time. A class, because inlinable code of the
/// evaluator must not see how its storage is destroyed; it is called once per block.
@usableFromInline
final class BlockCombiner {
    /// Slots that make a difference.
    @usableFromInline let active: UnsafeMutablePointer<Int>
    @usableFromInline let activeCount: Int
    /// Slots outside of which nothing can match.
    @usableFromInline let drivers: UnsafeMutablePointer<Int>
    @usableFromInline let driverCount: Int
    /// For at most five topics, the universe included; made with the first block that is combined.
    private let table: TruthTable?
    private var tableCombiner: TableCombiner?
    /// For more.
    private let bytecode: BytecodeCombiner?
    /// For at most five topics, while all slots asked so far are lists.
    private var merger: ListMerger?
    /// The table over the active slots; 0 if nothing can match, or if there are too many topics.
    private let spanBits: UInt64
    /// Whether spans of runs are counted as a whole.
    @usableFromInline let isCountingSpans: Bool
    private let kernels = BitKernels.current
    /// Whether all slots are lists, and the merger has them.
    @usableFromInline private(set) var isMerging = false

    @usableFromInline
    init(_ condition: Condition) {
        let activeSlots: [Int]
        let driverSlots: [Int]
        var spanBits: UInt64 = 0
        if let own = condition.truthTable {
            let table = condition.selectsWithoutTopics ? own.withinUniverse() : own
            activeSlots = (0..<table.slotCount).filter { table.depends(on: $0) }
            driverSlots = activeSlots.filter { table.isNecessary($0) }
            self.table = table
            bytecode = nil
            spanBits = table.keeping(activeSlots).wideBits
        } else {
            activeSlots = Array(0..<condition.slotCount)
            driverSlots = condition.program.necessarySlots
            table = nil
            bytecode = BytecodeCombiner(condition.program)
        }
        self.spanBits = spanBits
        isCountingSpans = spanBits != 0
        activeCount = activeSlots.count
        active = .allocate(capacity: max(activeCount, 1))
        for (index, slot) in activeSlots.enumerated() { (active + index).initialize(to: slot) }
        driverCount = driverSlots.count
        drivers = .allocate(capacity: max(driverCount, 1))
        for (index, slot) in driverSlots.enumerated() { (drivers + index).initialize(to: slot) }
    }

    deinit {
        active.deallocate()
        drivers.deallocate()
    }

    /// The whole list of the next active slot, in order and without a gap.
    @usableFromInline
    func give(_ list: UnsafeRawBufferPointer) {
        guard spanBits != 0, activeCount <= TruthTable.slotsMax else { return }
        let merger = self.merger ?? ListMerger(spanBits)
        self.merger = merger
        merger.give(list)
        isMerging = merger.listCount == activeCount
    }

    @usableFromInline
    func nextMerged(from block: Int) -> EvaluatedBlock? { merger!.next(from: block) }

    @usableFromInline
    func countMerged(from block: Int) -> UInt64 { merger!.count(from: block) }

    /// Members of the result in one span; `spans` has the address of one per active slot.
    @usableFromInline
    func countSpans(_ spans: UnsafePointer<UnsafeRawPointer>) -> Int {
        kernels.countSpans(
            UnsafeBufferPointer(start: spans, count: activeCount), spanBits)
    }

    /// The result for one block; `views` has one set per slot. Without `isWriting` only the count
    /// is good.
    @usableFromInline
    func combine(
        _ views: UnsafePointer<BlockView>, isWriting: Bool
    ) -> (view: BlockView, count: Int) {
        if let tableCombiner { return tableCombiner.combine(views, isWriting: isWriting) }
        guard let table else { return bytecode!.combine(views) }
        let made = TableCombiner(table)
        tableCombiner = made
        return made.combine(views, isWriting: isWriting)
    }
}
