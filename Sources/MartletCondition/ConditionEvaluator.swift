// SPDX-License-Identifier: Apache-2.0
//
// Walks the sets of a condition block by block and yields what matches. Blocks in which nothing can
// match are never combined: if there are slots outside of which nothing matches, their cursors
// chase each other to the next block that all of them have (so a conjunction with one small topic
// reads a few blocks of the large one); otherwise the lowest block of any cursor is next. Slots
// that make no difference are never read. Rests on `BlockSource` and the combiners.
//
// This file is the part that knows the source's type; it is inlinable, costs some nanoseconds per
// slot and block, and leaves all work on words to the combiners.

public import MartletBits

/// Evaluates one condition over one source, once from the first block to the last.
public struct ConditionEvaluator<Source: BlockSource & ~Copyable>: ~Copyable {
    @usableFromInline var source: Source
    @usableFromInline let combiner: BlockCombiner
    /// Where each slot's cursor stands: -1 before the first block, `Int.max` past the last.
    @usableFromInline let heads: UnsafeMutablePointer<Int>
    @usableFromInline let headViews: UnsafeMutablePointer<BlockView>
    /// What the combiner gets: each slot's set in the current block.
    @usableFromInline let views: UnsafeMutablePointer<BlockView>
    /// No result lies below this block that has not been yielded.
    @usableFromInline var from = 0

    @inlinable
    public init(_ condition: Condition, source: consuming Source) {
        self.source = source
        combiner = BlockCombiner(condition)
        let capacity = max(condition.slotCount, 1)
        heads = .allocate(capacity: capacity)
        heads.initialize(repeating: -1, count: capacity)
        headViews = .allocate(capacity: capacity)
        headViews.initialize(repeating: .empty, count: capacity)
        views = .allocate(capacity: capacity)
        views.initialize(repeating: .empty, count: capacity)
    }

    deinit {
        heads.deallocate()
        headViews.deallocate()
        views.deallocate()
    }

    /// Goes on at `block` or the first after it that has a result; blocks already passed do not
    /// come back.
    @inlinable
    public mutating func skip(to block: UInt32) { from = max(from, Int(block)) }

    /// The next block with members, or nil at the end.
    @inlinable
    public mutating func next() -> EvaluatedBlock? {
        while let block = advance() {
            let (view, count) = combiner.combine(views, isWriting: true)
            if count > 0 { return EvaluatedBlock(block: block, view: view, count: count) }
        }
        return nil
    }

    /// Members in all blocks not yet yielded.
    @inlinable
    public mutating func count() -> UInt64 {
        var total: UInt64 = 0
        while advance() != nil {
            total &+= UInt64(combiner.combine(views, isWriting: false).count)
        }
        return total
    }

    // MARK: Cursors

    /// Moves to the next block that may have members, and fills `views`.
    @inlinable
    mutating func advance() -> UInt32? {
        var block = from
        if combiner.driverCount > 0 {
            var isAgreed = false
            while !isAgreed {
                isAgreed = true
                for index in 0..<combiner.driverCount {
                    let slot = combiner.drivers[index]
                    if heads[slot] < block { seek(slot, block) }
                    if heads[slot] > block {
                        guard heads[slot] < Int.max else { return nil }
                        block = heads[slot]
                        isAgreed = false
                    }
                }
            }
        } else {
            block = Int.max
            for index in 0..<combiner.activeCount {
                let slot = combiner.active[index]
                if heads[slot] < from { seek(slot, from) }
                block = min(block, heads[slot])
            }
            guard block < Int.max else { return nil }
        }
        for index in 0..<combiner.activeCount {
            let slot = combiner.active[index]
            if heads[slot] < block { seek(slot, block) }
            views[slot] = heads[slot] == block ? headViews[slot] : .empty
        }
        from = block &+ 1
        return UInt32(truncatingIfNeeded: block)
    }

    @inlinable
    mutating func seek(_ slot: Int, _ block: Int) {
        guard let found = source.nextBlock(slot: slot, from: UInt32(clamping: block)) else {
            heads[slot] = Int.max
            return
        }
        precondition(Int(found.block) >= block, "A source's blocks ascend.")
        heads[slot] = Int(found.block)
        headViews[slot] = found.view
    }
}
