// SPDX-License-Identifier: Apache-2.0
//
// One row of a set, borrowed. It is validated as a whole, so a damaged row contributes no members. Rests on MartletBits
// and on the forms drawn in Schema.

import MartletBase
import MartletBits
import MartletRows

/// The members in a row of a set.
enum SetRow {
    /// Ascending ordinals of four bytes, from any blocks.
    case list(UnsafeRawBufferPointer)
    case block(UInt32, BlockView)
    /// The blocks from a number on.
    case span(UInt32, RunSpan)

    /// nil if the row's form is invalid.
    init?(checking value: UnsafeRawBufferPointer, block: UInt32) {
        if block == SetKey.smallTopicBlock {
            guard Self.isList(value) else { return nil }
            self = .list(value)
        } else if value.count & 1 != 0 {
            guard block == RunSpan.start(ofBlock: block), let span = RunSpan(checking: value),
                (1...RunSpan.togglesMax).contains(span.toggleCount),
                block <= BlockGeometry.blockMax,
                (0..<RunSpan.blockCount).allSatisfy(span.isAscending)
            else { return nil }
            self = .span(block, span)
        } else if value.count == BlockGeometry.bytesPerBlock {
            let view = BlockView.stored(value)
            guard view.count > 0 else { return nil }
            self = .block(block, view)
        } else {
            guard Self.isBlockList(value) else { return nil }
            self = .block(block, .stored(value))
        }
    }

    private static func isList(_ value: UnsafeRawBufferPointer) -> Bool {
        guard value.count % 4 == 0, (1...SetKey.smallTopicMembersMax).contains(value.count / 4)
        else { return false }
        var previous: UInt32?
        for offset in stride(from: 0, to: value.count, by: 4) {
            let ordinal = value.loadLittleEndian(UInt32.self, at: offset)
            guard Ordinal(ordinal).isUsable, previous.map({ $0 < ordinal }) ?? true else {
                return false
            }
            previous = ordinal
        }
        return true
    }

    private static func isBlockList(_ value: UnsafeRawBufferPointer) -> Bool {
        guard value.count % 2 == 0, (1...SetKey.listMembersMax).contains(value.count / 2)
        else { return false }
        var previous = -1
        for offset in stride(from: 0, to: value.count, by: 2) {
            let bit = Int(value.loadLittleEndian(UInt16.self, at: offset))
            guard bit > previous, bit < BlockGeometry.bitsPerBlock else { return false }
            previous = bit
        }
        return true
    }

    /// Calls `body` with the members of each block.
    func forEachBlock(_ body: (_ block: UInt32, BlockView) -> Void) {
        switch self {
        case .block(let block, let view): body(block, view)
        case .span(let first, let span):
            for index in 0..<RunSpan.blockCount {
                body(first + UInt32(index), span.view(ofBlockAt: index))
            }
        case .list(let value):
            var start = 0
            while start < value.count {
                func block(_ offset: Int) -> UInt32 {
                    value.loadLittleEndian(UInt32.self, at: offset) >> BlockGeometry.strideShift
                }
                let first = block(start)
                var end = start + 4
                while end < value.count, block(end) == first { end += 4 }
                body(first, .wideList(UnsafeRawBufferPointer(rebasing: value[start..<end])))
                start = end
            }
        }
    }

    /// Calls `body` with each member, ascending.
    func forEachOrdinal(_ body: (UInt32) -> Void) {
        forEachBlock { block, view in
            view.forEachBit { body(block << BlockGeometry.strideShift | UInt32($0)) }
        }
    }
}
