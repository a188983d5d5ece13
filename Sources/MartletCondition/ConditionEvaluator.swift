// SPDX-License-Identifier: Apache-2.0
//
// Walks the sets of a condition block by block and yields the matches. Blocks without a possible match are never
// combined. If some slots bound the result (nothing outside their sets matches), their cursors chase each other to
// the next block that all of these sets have: a conjunction with one small topic reads a few blocks of the large
// one. Otherwise the next block is the lowest block of any cursor. Slots without influence on the result are never
// read. A condition over lists alone is not walked by blocks, because `ListMerger` computes the whole answer at
// once. For counting, sixteen blocks are one step if all sets with members there have them as runs: the count is
// arithmetic on the toggles, and no block is combined. Rests on `BlockSource` and the combiners.
//
// A slot reads ahead into its window. A new window has twice as many places as the slot used of the previous
// window: a slot that is walked soon reads 64 blocks at a time, and a slot that is skipped through reads two.
//
// The file holds the part of the evaluator that knows the source's type. The code is inlinable, costs some
// nanoseconds per slot and block, and leaves all work on words to the combiners.

public import MartletBits

/// Evaluates one condition over one source, once from the first block to the last.
public struct ConditionEvaluator<Source: BlockSource & ~Copyable>: ~Copyable {
    @usableFromInline var source: Source
    @usableFromInline let combiner: BlockCombiner
    /// The block of each slot's cursor: -1 before the first block, `Int.max` past the last.
    @usableFromInline let heads: UnsafeMutablePointer<Int>
    @usableFromInline let windows: UnsafeMutablePointer<SlotWindow>
    /// The blocks of each slot's window, `SlotWindow.capacity` places per slot.
    @usableFromInline let ahead: UnsafeMutablePointer<SourceBlock>
    /// The combiner's input for one block: the set of each slot.
    @usableFromInline let views: UnsafeMutablePointer<BlockView>
    /// The combiner's input for one span: the span of each active slot.
    @usableFromInline let spans: UnsafeMutablePointer<UnsafeRawPointer>
    /// The evaluator has yielded or skipped all results below this block.
    @usableFromInline var from = 0

    /// An evaluator before the first block.
    /// - Parameter source: the sets of the condition's `slotCount` slots. The evaluator owns the source.
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

    /// Continues at `block`, or at the first later block with a result. The evaluator never goes back.
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

    /// The number of members in all blocks not yet yielded.
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

    /// Counts the result's members in the span that begins at `block`; nil if a slot has members there in another
    /// form than runs. In that case only cursors have moved, to `block`.
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

    /// Fills `views` with the sets of one block.
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

    /// Moves a slot's cursor to the first block not below `block`. Inside a span the cursor stands on `block`
    /// itself, because any block of the span may have members.
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

/// A slot's window: the blocks read ahead, and the cursor's place among them.
@usableFromInline
struct SlotWindow {
    @usableFromInline static let capacity = 64
    @usableFromInline var at = 0
    /// The number of blocks in the window.
    @usableFromInline var count = 0
    /// The number of blocks in the window on which the cursor has stood. The initial 2 makes the first window four
    /// blocks long.
    @usableFromInline var used = 2

    @inlinable init() {}

    @inlinable init(at: Int, count: Int, used: Int) {
        self.at = at
        self.count = count
        self.used = used
    }
}
