// SPDX-License-Identifier: Apache-2.0
//
// The instances of a project that are connected to one loop, with the handle of each session. Per block of ordinals
// there is a bitmap, the rank of every word's first bit, and the handles in the order of the ordinals: the handle
// of a bit stands at the bit's rank. The intersection with a fanout's recipients is therefore an AND of bitmaps,
// and the result indexes straight into the slab of sessions: no hashing, no allocation, no reference counting.
// Rests on the kernels.
//
//     block ─► bitmap 510 words │ prefix 510 × UInt16 │ count, capacity ─► handles UInt32[count]
//
// Connecting and disconnecting move the handles behind the ordinal (4 bytes each) and adjust the prefixes behind
// its word: some hundred nanoseconds when ten per cent of a block are connected.

public import MartletBase

/// Ordinals, each with a handle.
public struct ConnectedSet: ~Copyable {
    /// The connected ordinals of one block. A block exists as long as an ordinal in it is connected.
    @usableFromInline
    struct Block {
        /// A bitmap of 512 words, of which 510 are used.
        @usableFromInline let words: UnsafeMutablePointer<UInt64>
        /// The rank of the first bit of each word.
        @usableFromInline let prefix: UnsafeMutablePointer<UInt16>
        @usableFromInline var handles: UnsafeMutablePointer<UInt32>
        @usableFromInline var count: Int
        @usableFromInline var capacity: Int

        init() {
            words = .allocate(capacity: 512)
            words.initialize(repeating: 0, count: 512)
            prefix = .allocate(capacity: 512)
            prefix.initialize(repeating: 0, count: 512)
            capacity = 8
            handles = .allocate(capacity: capacity)
            count = 0
        }

        func deallocate() {
            words.deallocate()
            prefix.deallocate()
            handles.deallocate()
        }

        @inlinable func contains(_ bit: Int) -> Bool {
            words[bit &>> 6] &>> UInt64(bit & 63) & 1 != 0
        }

        @inlinable func rank(_ bit: Int) -> Int {
            let below = words[bit &>> 6] & ((1 as UInt64 &<< UInt64(bit & 63)) &- 1)
            return Int(prefix[bit &>> 6]) &+ below.nonzeroBitCount
        }
    }

    /// Blocks by index; nil where no ordinal is connected.
    @usableFromInline var blocks: UnsafeMutablePointer<UnsafeMutablePointer<Block>?>
    @usableFromInline var blocksCapacity: Int
    /// The number of connected ordinals.
    public private(set) var count = 0

    /// A set without ordinals.
    public init() {
        blocks = .allocate(capacity: 1)
        blocks.initialize(to: nil)
        blocksCapacity = 1
    }

    deinit {
        for index in 0..<blocksCapacity {
            guard let block = blocks[index] else { continue }
            block.pointee.deallocate()
            block.deallocate()
        }
        blocks.deallocate()
    }

    /// Whether no ordinal is connected.
    public var isEmpty: Bool { count == 0 }

    // MARK: Changing

    /// Gives an ordinal a handle.
    ///
    /// - Returns: the handle that the ordinal had before, now replaced; nil if the ordinal was not connected.
    @discardableResult
    public mutating func insert(_ ordinal: Ordinal, handle: UInt32) -> UInt32? {
        invariant(ordinal.isUsable, "The last 128 ordinals of a block are never issued.")
        let index = Int(ordinal.blockIndex)
        if index >= blocksCapacity { growDirectory(toFit: index) }
        if blocks[index] == nil {
            let new = UnsafeMutablePointer<Block>.allocate(capacity: 1)
            new.initialize(to: Block())
            blocks[index] = new
        }
        let block = blocks[index]!
        let bit = ordinal.bitIndex
        let rank = block.pointee.rank(bit)
        if block.pointee.contains(bit) {
            defer { block.pointee.handles[rank] = handle }
            return block.pointee.handles[rank]
        }
        if block.pointee.count == block.pointee.capacity {
            Self.resizeHandles(&block.pointee, to: block.pointee.capacity * 2)
        }
        invariant(
            rank <= block.pointee.count && block.pointee.count < block.pointee.capacity,
            "A block has room for the handles of its bits.")
        let at = block.pointee.handles + rank
        (at + 1).update(from: at, count: block.pointee.count - rank)
        at.pointee = handle
        block.pointee.count += 1
        block.pointee.words[bit >> 6] |= 1 << UInt64(bit & 63)
        let prefix = block.pointee.prefix
        for word in (bit >> 6) + 1..<512 { prefix[word] &+= 1 }
        count += 1
        return nil
    }

    /// Removes an ordinal.
    ///
    /// - Returns: the handle of the ordinal; nil if the ordinal was not connected.
    @discardableResult
    public mutating func remove(_ ordinal: Ordinal) -> UInt32? {
        let index = Int(ordinal.blockIndex)
        guard index < blocksCapacity, let block = blocks[index] else { return nil }
        let bit = ordinal.bitIndex
        guard block.pointee.contains(bit) else { return nil }
        let at = block.pointee.handles + block.pointee.rank(bit)
        invariant(
            count > 0 && at - block.pointee.handles < block.pointee.count,
            "A block has a handle for each of its bits.")
        let handle = at.pointee
        count -= 1
        block.pointee.count -= 1
        if block.pointee.count == 0 {
            block.pointee.deallocate()
            block.deallocate()
            blocks[index] = nil
            return handle
        }
        let behind = block.pointee.count - (at - block.pointee.handles)
        at.update(from: at + 1, count: behind)
        block.pointee.words[bit >> 6] &= ~(1 << UInt64(bit & 63))
        let prefix = block.pointee.prefix
        for word in (bit >> 6) + 1..<512 { prefix[word] &-= 1 }
        // Halve the capacity only below a quarter, so that growing and shrinking do not alternate.
        if block.pointee.capacity > 32, block.pointee.count * 4 < block.pointee.capacity {
            Self.resizeHandles(&block.pointee, to: block.pointee.capacity / 2)
        }
        return handle
    }

    // MARK: Asking

    /// The handle of an ordinal; nil if the ordinal is not connected.
    @inlinable public func handle(of ordinal: Ordinal) -> UInt32? {
        let index = Int(ordinal.blockIndex)
        guard index < blocksCapacity, let block = blocks[index] else { return nil }
        let bit = ordinal.bitIndex
        guard block.pointee.contains(bit) else { return nil }
        return block.pointee.handles[block.pointee.rank(bit)]
    }

    /// Whether the ordinal is connected.
    @inlinable public func contains(_ ordinal: Ordinal) -> Bool {
        let index = Int(ordinal.blockIndex)
        guard index < blocksCapacity, let block = blocks[index] else { return false }
        return block.pointee.contains(ordinal.bitIndex)
    }

    /// Calls `body` with the connected ordinals of one block, which are valid until `body` returns.
    @inlinable
    public func withView<Result>(ofBlock index: UInt32, _ body: (BlockView) -> Result) -> Result {
        guard Int(index) < blocksCapacity, let block = blocks[Int(index)] else {
            return body(.empty)
        }
        return body(.bitmap(UnsafePointer(block.pointee.words)))
    }

    /// The number of connected ordinals in one block.
    @inlinable public func count(inBlock index: UInt32) -> Int {
        guard Int(index) < blocksCapacity, let block = blocks[Int(index)] else { return 0 }
        return block.pointee.count
    }

    /// Calls `body` with the handle of every connected ordinal of `view`, in the order of the ordinals. `body` must
    /// not change the set.
    @inlinable
    public func forEachHandle(
        in index: UInt32, intersecting view: BlockView, _ body: (UInt32) -> Void
    ) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: Self.handlesPerStep) { found in
            var step: UInt32 = 0
            while step != .max {
                let count = handles(in: index, intersecting: view, from: &step, into: found)
                for at in 0..<count { body(found[at]) }
            }
        }
    }

    /// Writes the handles of connected ordinals of `view`, in the order of the ordinals, until `found` is full.
    /// - Parameters:
    ///   - step: 0 for the first call; the call leaves the value for the next call, `.max` at the end. A step stays
    ///     valid when the set changes: an ordinal that is connected throughout is neither skipped nor repeated.
    ///   - found: room for at least `handlesPerStepMin` handles.
    /// - Returns: the number of handles written.
    @inlinable
    public func handles(
        in index: UInt32, intersecting view: BlockView, from step: inout UInt32,
        into found: UnsafeMutableBufferPointer<UInt32>
    ) -> Int {
        guard Int(index) < blocksCapacity, let pointer = blocks[Int(index)] else {
            step = .max
            return 0
        }
        var count = 0
        switch view {
        case .empty: step = .max
        case .full: count = Self.select(UnsafePointer(pointer.pointee.words), pointer, found, &step)
        case .bitmap(let words): count = Self.select(words, pointer, found, &step)
        case .list(let list):
            var element = Int(step)
            while element < list.count, count < found.count {
                let bit = Int(list[element] & 0x7FFF)
                element &+= 1
                guard pointer.pointee.contains(bit) else { continue }
                found[count] = pointer.pointee.handles[pointer.pointee.rank(bit)]
                count &+= 1
            }
            step = element < list.count ? UInt32(element) : .max
        case .wideList(let bytes):
            var element = Int(step)
            while element < bytes.count / 4, count < found.count {
                let bit = BlockView.wideBit(bytes, element)
                element &+= 1
                guard pointer.pointee.contains(bit) else { continue }
                found[count] = pointer.pointee.handles[pointer.pointee.rank(bit)]
                count &+= 1
            }
            step = element < bytes.count / 4 ? UInt32(element) : .max
        case .runs(let toggles):
            count = Self.select(toggles, pointer, found, &step)
        }
        return count
    }

    /// Handles per call: enough to make the cost of a call negligible, and the largest buffer (1024 bytes) that the
    /// standard library puts on the stack instead of the heap.
    @inlinable public static var handlesPerStep: Int { 256 }
    /// The smallest buffer for a call, in handles: the bits of one word.
    @inlinable public static var handlesPerStepMin: Int { 64 }

    @usableFromInline
    static func select(
        _ words: UnsafePointer<UInt64>, _ block: UnsafeMutablePointer<Block>,
        _ found: UnsafeMutableBufferPointer<UInt32>, _ word: inout UInt32
    ) -> Int {
        let count = BitKernels.current.select(
            words, mine: block.pointee.words, prefix: block.pointee.prefix,
            handles: block.pointee.handles, into: found, word: &word)
        if word >= UInt32(truncatingIfNeeded: BlockGeometry.wordsPerBlock) { word = .max }
        return count
    }

    /// Writes the handles of connected ordinals in runs; the handles of one run are adjacent in `handles`. `step`
    /// is the bit for the next call.
    @usableFromInline
    static func select(
        _ toggles: UnsafeBufferPointer<UInt16>, _ block: UnsafeMutablePointer<Block>,
        _ found: UnsafeMutableBufferPointer<UInt32>, _ step: inout UInt32
    ) -> Int {
        var count = 0
        let rankOf = { (bit: Int) in
            bit < BlockGeometry.bitsPerBlock ? block.pointee.rank(bit) : block.pointee.count
        }
        for index in 0..<toggles.count / 2 {
            let run = BlockView.run(toggles, index)
            var bit = max(run.lowerBound, Int(step))
            while bit < run.upperBound {
                // Word by word, so that a step ends at a bit.
                let end = min(run.upperBound, (bit | 63) + 1)
                let handles = rankOf(bit)..<rankOf(end)
                guard count + handles.count <= found.count else {
                    step = UInt32(truncatingIfNeeded: bit)
                    return count
                }
                for rank in handles {
                    found[count] = block.pointee.handles[rank]
                    count &+= 1
                }
                bit = end
            }
        }
        step = .max
        return count
    }

    // MARK: Parts

    private mutating func growDirectory(toFit index: Int) {
        let capacity = max(index + 1, blocksCapacity * 2)
        let grown = UnsafeMutablePointer<UnsafeMutablePointer<Block>?>.allocate(capacity: capacity)
        grown.initialize(repeating: nil, count: capacity)
        grown.update(from: blocks, count: blocksCapacity)
        blocks.deallocate()
        blocks = grown
        blocksCapacity = capacity
    }

    private static func resizeHandles(_ block: inout Block, to capacity: Int) {
        let handles = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)
        handles.initialize(from: block.handles, count: block.count)
        block.handles.deallocate()
        block.handles = handles
        invariant(block.count <= capacity, "A block has room for its handles.")
        block.capacity = capacity
    }
}
