// SPDX-License-Identifier: Apache-2.0
//
// The part of the evaluator that is independent of the source. Decides which slots are read at all, which slots
// bound the result, and how a block is combined. Rests on `TableCombiner`, `BytecodeCombiner` and `ListMerger`.

public import MartletBits

/// Combines the sets of one condition, a block at a time. A class, because the evaluator's inlinable code must not
/// see how the storage is destroyed. The evaluator calls the combiner once per block.
@usableFromInline
final class BlockCombiner {
    /// Slots that make a difference to the result.
    @usableFromInline let active: UnsafeMutablePointer<Int>
    @usableFromInline let activeCount: Int
    /// Slots that bound the result: outside of a driver's set nothing can match.
    @usableFromInline let drivers: UnsafeMutablePointer<Int>
    @usableFromInline let driverCount: Int
    /// The table of a condition of at most five topics.
    private let table: TruthTable?
    // Made with the first block that is combined.
    private var tableCombiner: TableCombiner?
    /// The code of a condition of more than five topics.
    private let bytecode: BytecodeCombiner?
    /// The merger of a condition of at most five topics, while every slot asked so far has a list.
    private var merger: ListMerger?
    /// The table over the active slots; 0 if nothing can match or if the condition has too many topics.
    private let spanBits: UInt64
    /// Whether spans of runs are counted as a whole.
    @usableFromInline let isCountingSpans: Bool
    private let kernels = BitKernels.current
    /// Whether every active slot has a list and the merger holds them all.
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

    /// Hands over the whole list of the next active slot. Slots come in order and without a gap.
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

    /// Counts the result's members in one span. `spans` has the address of one span per active slot.
    @usableFromInline
    func countSpans(_ spans: UnsafePointer<UnsafeRawPointer>) -> Int {
        kernels.countSpans(
            UnsafeBufferPointer(start: spans, count: activeCount), spanBits)
    }

    /// The result for one block. `views` has one set per slot. Without `isWriting` only the count is valid.
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
