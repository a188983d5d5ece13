// SPDX-License-Identifier: Apache-2.0
//
// Where the evaluator reads sets from. The store implements this over cursors of LMDB, tests over
// arrays. A call for every set and block costs several times what the step itself does, so a source
// hands out as many blocks at once as the evaluator expects to use. Rests on `BlockView`.

public import MartletBits

/// One cursor per slot, over the blocks of the slot's set.
public protocol BlockSource: ~Copyable {
    /// The first block not below `block` in which the slot's set has members, and the members; nil
    /// at the end. The view is valid until the source's read transaction ends. For each slot
    /// `block` never decreases from call to call.
    mutating func nextBlock(slot: Int, from block: UInt32) -> (block: UInt32, view: BlockView)?

    /// The first blocks not below `block`, ascending, at most as many as `target` has places;
    /// returns how many, and 0 only at the end. `block` is above every block handed out before. Runs
    /// come as whole spans, of which the first may begin below `block`.
    mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int

    /// All members of the slot's set, if they lie together as one sorted list of ordinals, four
    /// little-endian bytes each. Asked before the slot's first block.
    func wholeList(slot: Int) -> UnsafeRawBufferPointer?
}

extension BlockSource where Self: ~Copyable {
    /// One block a call.
    @inlinable
    public mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        guard let found = nextBlock(slot: slot, from: block) else { return 0 }
        target[0] = SourceBlock(block: found.block, view: found.view)
        return 1
    }

    @inlinable
    public func wholeList(slot: Int) -> UnsafeRawBufferPointer? { nil }
}

/// One block of a set, or a span of blocks, as a source hands it out.
public struct SourceBlock {
    /// The members, if this is no span.
    public let view: BlockView
    /// The first block.
    public let block: UInt32
    public let span: RunSpan?

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

    /// The last block.
    @inlinable public var last: UInt32 { span == nil ? block : block &+ 15 }

    /// The members in one of the blocks.
    @inlinable public func view(ofBlock number: UInt32) -> BlockView {
        span?.view(ofBlockAt: Int(number &- block)) ?? view
    }
}

/// Members of the result in one block.
public struct EvaluatedBlock {
    public let block: UInt32
    /// Valid until the evaluator's next step.
    public let view: BlockView
    /// Members; never 0.
    public let count: Int

    @inlinable public init(block: UInt32, view: BlockView, count: Int) {
        self.block = block
        self.view = view
        self.count = count
    }
}
