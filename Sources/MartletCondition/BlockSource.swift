// SPDX-License-Identifier: Apache-2.0
//
// Where the evaluator reads sets from. The store implements this over cursors of LMDB, tests over
// arrays. One call per set and block: what it costs is spread over 32,640 instances. Rests on
// `BlockView`.

public import MartletBits

/// One cursor per slot, over the blocks of the slot's set.
public protocol BlockSource: ~Copyable {
    /// The first block not below `block` in which the slot's set has members, and the members; nil
    /// at the end. The view is valid until the source's read transaction ends. For each slot
    /// `block` never decreases from call to call.
    mutating func nextBlock(slot: Int, from block: UInt32) -> (block: UInt32, view: BlockView)?
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
