// SPDX-License-Identifier: Apache-2.0
//
// Walks the sets of a condition block by block and yields what matches. Blocks in which nothing can
// match are never combined: if there are slots outside of which nothing matches, their cursors
// chase each other to the next block that all of them have (so a conjunction with one small topic
// reads a few blocks of the large one); otherwise the lowest block of any cursor is next. Slots
// that make no difference are never read. A condition over lists alone is not walked by blocks:
// `ListMerger` has its whole answer at once. Rests on `BlockSource` and the combiners.
//
// A slot reads ahead into its window: twice as many blocks as it used of the window before, so a
// slot that is walked soon reads 64 at a time and one that is skipped through reads one.
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
    @usableFromInline let windows: UnsafeMutablePointer<SlotWindow>
    /// The blocks of each slot's window, `SlotWindow.capacity` places a slot.
    @usableFromInline let ahead: UnsafeMutablePointer<SourceBlock>
    /// What the combiner gets: each slot's set in the current block.
    @usableFromInline let views: UnsafeMutablePointer<BlockView>
    /// No result lies below this block that has not been yielded.
    @usableFromInline var from = 0

    @inlinable
    public init(_ condition: Condition, source: consuming Source) {
        combiner = BlockCombiner(condition)
        let capacity = max(condition.slotCount, 1)
        heads = .allocate(capacity: capacity)
        heads.initialize(repeating: -1, count: capacity)
        windows = .allocate(capacity: capacity)
        windows.initialize(repeating: SlotWindow(), count: capacity)
        ahead = .allocate(capacity: capacity * SlotWindow.capacity)
        views = .allocate(capacity: capacity)
        views.initialize(repeating: .empty, count: capacity)
        for index in 0..<combiner.activeCount {
            guard let list = source.wholeList(slot: combiner.active[index]) else { break }
            combiner.give(list)
        }
        self.source = source
    }

    deinit {
        heads.deallocate()
        windows.deallocate()
        ahead.deallocate()
        views.deallocate()
    }

    /// Goes on at `block` or the first after it that has a result; blocks already passed do not
    /// come back.
    @inlinable
    public mutating func skip(to block: UInt32) { from = max(from, Int(block)) }

    /// The next block with members, or nil at the end.
    @inlinable
    public mutating func next() -> EvaluatedBlock? {
        if combiner.isMerging {
            guard let found = combiner.nextMerged(from: from) else { return nil }
            from = Int(found.block) &+ 1
            return found
        }
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
        if combiner.isMerging {
            total = combiner.countMerged(from: from)
            from = Int(UInt32.max)
            return total
        }
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
            if heads[slot] == block {
                let at = windows[slot].at
                let blocks = ahead + slot &* SlotWindow.capacity
                views[slot] = blocks[at].view
            } else {
                views[slot] = .empty
            }
        }
        from = block &+ 1
        return UInt32(truncatingIfNeeded: block)
    }

    /// Moves a slot's cursor to the first block not below `block`.
    @inlinable
    mutating func seek(_ slot: Int, _ block: Int) {
        let blocks = ahead + slot &* SlotWindow.capacity
        let end = windows[slot].count
        var at = windows[slot].at &+ 1
        while at < end {
            let found = Int(blocks[at].block)
            if found >= block {
                windows[slot].at = at
                windows[slot].used &+= 1
                heads[slot] = found
                return
            }
            at &+= 1
        }
        readAhead(slot, block)
    }

    @inlinable
    @inline(never)
    mutating func readAhead(_ slot: Int, _ block: Int) {
        let places = min(max(2 * windows[slot].used, 1), SlotWindow.capacity)
        let target = UnsafeMutableBufferPointer(
            start: ahead + slot &* SlotWindow.capacity, count: places)
        let count = source.readBlocks(slot: slot, from: UInt32(clamping: block), into: target)
        var previous = block &- 1
        for index in 0..<count {
            precondition(Int(target[index].block) > previous, "A source's blocks ascend.")
            previous = Int(target[index].block)
        }
        windows[slot] = SlotWindow(at: 0, count: count, used: 1)
        heads[slot] = count == 0 ? Int.max : Int(target[0].block)
    }
}

/// Which of the blocks read ahead a slot's cursor stands on.
@usableFromInline
struct SlotWindow {
    @usableFromInline static let capacity = 64
    @usableFromInline var at = 0
    /// Blocks in the window.
    @usableFromInline var count = 0
    /// Blocks of the window that the cursor has stood on. The first window is of four.
    @usableFromInline var used = 2

    @inlinable init() {}

    @inlinable init(at: Int, count: Int, used: Int) {
        self.at = at
        self.count = count
        self.used = used
    }
}
