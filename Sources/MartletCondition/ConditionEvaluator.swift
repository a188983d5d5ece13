// SPDX-License-Identifier: Apache-2.0
//
// Walks the sets of a condition block by block and yields what matches. Blocks in which nothing can
// match are never combined: if there are slots outside of which nothing matches, their cursors
// chase each other to the next block that all of them have (so a conjunction with one small topic
// reads a few blocks of the large one); otherwise the lowest block of any cursor is next. Slots
// that make no difference are never read. A condition over lists alone is not walked by blocks:
// `ListMerger` has its whole answer at once. Counting, sixteen blocks are one step where all sets that
// have members there have them as runs: the count is arithmetic on where runs begin and end, and no
// block is looked at. Rests on `BlockSource` and the combiners.
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
    /// What it gets instead: each active slot's span.
    @usableFromInline let spans: UnsafeMutablePointer<UnsafeRawPointer>
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
        spans = .allocate(capacity: capacity)
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
        spans.deallocate()
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
            fill(block)
            let (view, count) = combiner.combine(views, isWriting: true)
            guard count > 0 else { continue }
            return EvaluatedBlock(
                block: UInt32(truncatingIfNeeded: block), view: view, count: count)
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
        while let block = advance() {
            if block & 15 == 0, combiner.isCountingSpans, let count = countSpan(block) {
                total &+= UInt64(count)
                continue
            }
            fill(block)
            total &+= UInt64(combiner.combine(views, isWriting: false).count)
        }
        return total
    }

    /// Members of the result in the span that begins at `block`; nil if a slot has other members there
    /// than runs. Then only its cursor has moved to `block`.
    @inlinable
    mutating func countSpan(_ block: Int) -> Int? {
        let end = block &+ RunSpan.blockCount
        for index in 0..<combiner.activeCount {
            let slot = combiner.active[index]
            if heads[slot] < block { seek(slot, block) }
            if heads[slot] >= end {
                spans[index] = RunSpan.empty.address
            } else {
                let found = ahead[slot &* SlotWindow.capacity &+ windows[slot].at]
                guard let span = found.span else { return nil }
                spans[index] = span.address
            }
        }
        from = end
        return combiner.countSpans(spans)
    }

    // MARK: Cursors

    /// Moves to the next block that may have members.
    @inlinable
    mutating func advance() -> Int? {
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
        from = block &+ 1
        return block
    }

    /// Fills `views`.
    @inlinable
    mutating func fill(_ block: Int) {
        for index in 0..<combiner.activeCount {
            let slot = combiner.active[index]
            if heads[slot] < block { seek(slot, block) }
            if heads[slot] == block {
                let found = ahead + (slot &* SlotWindow.capacity &+ windows[slot].at)
                views[slot] = found.pointee.view(ofBlock: UInt32(truncatingIfNeeded: block))
            } else {
                views[slot] = .empty
            }
        }
    }

    /// Moves a slot's cursor to the first block not below `block`. In a span that is `block`, as a slot
    /// may have members in any of its blocks.
    @inlinable
    mutating func seek(_ slot: Int, _ block: Int) {
        let blocks = ahead + slot &* SlotWindow.capacity
        let end = windows[slot].count
        var at = windows[slot].at
        while at < end {
            if Int(blocks[at].last) >= block {
                windows[slot].used &+= at == windows[slot].at ? 0 : 1
                windows[slot].at = at
                heads[slot] = max(Int(blocks[at].block), block)
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
            let first = index == 0 ? target[0].last : target[index].block
            precondition(Int(first) > previous, "A source's blocks ascend.")
            previous = Int(target[index].last)
        }
        windows[slot] = SlotWindow(at: 0, count: count, used: 1)
        heads[slot] = count == 0 ? Int.max : max(Int(target[0].block), block)
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
