// SPDX-License-Identifier: Apache-2.0
//
// The evaluator's source of sets. The store implements the protocol over LMDB cursors, tests over arrays. A call
// per set and block would cost several times as much as combining the block, so a source returns as many blocks at
// once as the evaluator expects to use. Rests on `BlockView`.

public import MartletBits

/// One cursor per slot over the blocks of the slot's set.
public protocol BlockSource: ~Copyable {
    /// The first block not below `block` in which the slot's set has members, with the members; nil at the end. The
    /// view is valid until the source's read transaction ends. For each slot, `block` never decreases from call to
    /// call.
    mutating func nextBlock(slot: Int, from block: UInt32) -> (block: UInt32, view: BlockView)?

    /// Writes the first blocks not below `block`, ascending, at most as many as `target` has places. `block` is
    /// above every block returned before. Runs come as whole spans, and the first span may begin below `block`.
    ///
    /// - Returns: the number of blocks; 0 only at the end.
    mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int

    /// All members of the slot's set as one sorted list of ordinals, four little-endian bytes each; nil if the
    /// source stores the set in another form. The evaluator asks before it reads the slot's first block.
    func wholeList(slot: Int) -> UnsafeRawBufferPointer?
}

extension BlockSource where Self: ~Copyable {
    /// Returns one block per call.
    @inlinable
    public mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        guard let found = nextBlock(slot: slot, from: block) else { return 0 }
        target[0] = SourceBlock(block: found.block, view: found.view)
        return 1
    }

    /// Returns nil: the source has no set as a single list.
    @inlinable
    public func wholeList(slot: Int) -> UnsafeRawBufferPointer? { nil }
}

/// One block of a set, or a span of blocks, as a source returns it.
public struct SourceBlock {
    /// The members of the block; empty if the value is a span.
    public let view: BlockView
    /// The number of the block, or of a span's first block.
    public let block: UInt32
    /// The members of a span of blocks; nil if the value is a single block.
    public let span: RunSpan?

    /// A single block of a set.
    @inlinable public init(block: UInt32, view: BlockView) {
        self.block = block
        self.view = view
        span = nil
    }

    /// - Parameter block: a multiple of `RunSpan.blockCount`.
    @inlinable public init(block: UInt32, span: RunSpan) {
        self.block = block
        self.view = .empty
        self.span = span
    }

    /// The number of the block, or of a span's last block.
    @inlinable public var last: UInt32 { span == nil ? block : block &+ 15 }

    /// The members in one of the blocks.
    @inlinable public func view(ofBlock number: UInt32) -> BlockView {
        span?.view(ofBlockAt: Int(number &- block)) ?? view
    }
}

/// The members of the result in one block.
public struct EvaluatedBlock {
    /// The number of the block.
    public let block: UInt32
    /// Valid until the evaluator's next step.
    public let view: BlockView
    /// The number of members; never 0.
    public let count: Int

    /// - Parameter count: the number of members in `view`; never 0.
    @inlinable public init(block: UInt32, view: BlockView, count: Int) {
        self.block = block
        self.view = view
        self.count = count
    }
}
