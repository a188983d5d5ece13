// SPDX-License-Identifier: Apache-2.0
//
// Set algebra between recipients and stored sets, at a cost per block of instances. If nobody is removed, the same set comes
// back, because loops recognise the same recipients by identity. Rests on the ledgers and MartletBits.

import MartletBase
import MartletBits
import MartletCondition
import MartletRows

enum RecipientFilter {
    /// Recipients that are in any of the sets.
    static func intersection(
        of recipients: RecipientSet, with sets: [InstanceSet], in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RecipientSet {
        guard recipients.count > 0, !sets.isEmpty else { return .none }
        var stored = try storage.sets.blocks(of: sets, in: project)
        var union = BlockBuffer()
        var result = BlockBuffer()
        var builder = RecipientSetBuilder()
        let view = recipients.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            var allowed = BlockView.empty
            var foundCount = 0
            for slot in sets.indices {
                guard let found = stored.nextBlock(slot: slot, from: block.block),
                    found.block == block.block
                else { continue }
                switch foundCount {
                case 0: allowed = found.view
                case 1:
                    union.assign(allowed)
                    union.formUnion(found.view)
                default: union.formUnion(found.view)
                }
                foundCount += 1
            }
            if foundCount > 1 {
                union.withView { append(block, in: $0, to: &builder, &result) }
            } else {
                append(block, in: allowed, to: &builder, &result)
            }
        }
        try stored.finish()
        return builder.count == recipients.count ? recipients : builder.finish()
    }

    private static func append(
        _ block: (block: UInt32, view: BlockView, count: Int), in allowed: BlockView,
        to builder: inout RecipientSetBuilder, _ result: inout BlockBuffer
    ) {
        let count = block.view.intersectionCount(with: allowed)
        invariant(count <= block.count, "An intersection has no more members than its sets.")
        if count == block.count {
            builder.append(block: block.block, view: block.view, count: count)
        } else if count > 0 {
            result.assign(block.view)
            result.formIntersection(allowed)
            builder.append(block: block.block, buffer: result, count: count)
        }
    }

    /// Recipients in a set, if there are any, and those outside it.
    static func split(
        _ recipients: RecipientSet, by set: InstanceSet, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> (inside: RecipientSet?, outside: RecipientSet) {
        var stored = try storage.sets.blocks(of: [set], in: project)
        var head = stored.nextBlock(slot: 0, from: 0)
        guard head != nil else {
            try stored.finish()
            return (nil, recipients)
        }
        var result = BlockBuffer()
        var inside = RecipientSetBuilder()
        var outside = RecipientSetBuilder()
        let view = recipients.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            if let at = head, at.block < block.block {
                head = stored.nextBlock(slot: 0, from: block.block)
            }
            var count = 0
            if let head, head.block == block.block {
                count = block.view.intersectionCount(with: head.view)
                if count > 0, count < block.count {
                    result.assign(block.view)
                    result.formIntersection(head.view)
                    inside.append(block: block.block, buffer: result, count: count)
                    result.assign(block.view)
                    result.subtract(head.view)
                    outside.append(
                        block: block.block, buffer: result, count: block.count - count)
                    continue
                }
            }
            if count == 0 {
                outside.append(block: block.block, view: block.view, count: block.count)
            } else {
                inside.append(block: block.block, view: block.view, count: block.count)
            }
        }
        try stored.finish()
        guard inside.count > 0 else { return (nil, recipients) }
        invariant(
            inside.count + outside.count == recipients.count,
            "A recipient is inside or outside of a set.")
        return (inside.finish(), outside.finish())
    }

    static func contains(
        _ ordinal: Ordinal, in set: InstanceSet, of project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Bool {
        var stored = try storage.sets.blocks(of: [set], in: project)
        let found = stored.nextBlock(slot: 0, from: ordinal.blockIndex)
        try stored.finish()
        guard let found, found.block == ordinal.blockIndex else { return false }
        return found.view.contains(bit: ordinal.bitIndex)
    }
}
