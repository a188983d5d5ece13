// SPDX-License-Identifier: Apache-2.0
//
// How a set is stored in sixteen neighbouring blocks: a row per block, or all runs in one row, a span (drawn in
// Schema). A change reads the span's first key. If a span is there, its runs are changed, and if they become too many,
// it falls apart into a row per block.
//
// Rows are gathered into a span after a change, and only if a changed block has long runs; a few words of a block of
// random members show that it has none. They are gathered at half of the toggles that a span may have, and with at
// least eight members per run on average, so one instance that comes and goes doesn't flip the form. Rests on
// SetLedger.

import MartletBase
import MartletBits
import MartletRows

extension SetLedger {
    /// Fewest members per run, on average, in gathered rows. Below that, lists are as small as runs.
    private static let membersPerRunMin = 8

    /// Adds members to a set, or removes them.
    /// - Parameter ordinals: sorted and distinct.
    /// - Returns: how many memberships changed.
    func changeSpans(
        _ ordinals: [UInt32], of set: UInt32, in project: ProjectNumber, adding: Bool
    ) throws(StorageError) -> Int {
        assert(ordinals.isAscending, "The changed members of a set are sorted and distinct.")
        var changed = 0
        var start = 0
        while start < ordinals.count {
            let first = RunSpan.start(ofBlock: ordinals[start] >> BlockGeometry.strideShift)
            var end = start + 1
            while end < ordinals.count,
                RunSpan.start(ofBlock: ordinals[end] >> BlockGeometry.strideShift) == first
            {
                end += 1
            }
            changed += try changeSpan(
                ordinals[start..<end], at: first, of: set, in: project, adding: adding)
            start = end
        }
        return changed
    }

    private func changeSpan(
        _ ordinals: ArraySlice<UInt32>, at first: UInt32, of set: UInt32,
        in project: ProjectNumber, adding: Bool
    ) throws(StorageError) -> Int {
        let key = Key.block(first, of: set, in: project)
        let found = try raw.get(.sets, key)
        if let found, found.count & 1 != 0 {
            let span = try Self.span(found)
            let before = span.count
            var builder = RunSpanBuilder()
            if Self.append(span, changing: ordinals, adding: adding, to: &builder) {
                let after = builder.count
                if after == 0 {
                    try raw.deleteFound(.sets, key)
                } else if after != before {
                    try builder.withBytes { bytes throws(StorageError) in
                        try raw.put(.sets, key, bytes)
                    }
                }
                invariant(
                    abs(after - before) <= ordinals.count,
                    "A span changes by the changed members alone.")
                return abs(after - before)
            }
            try scatter(found, at: first, of: set, in: project)
        } else if found == nil, adding, ordinals.count >= Self.membersPerRunMin,
            try !hasRows(at: first, of: set, in: project)
        {
            var builder = RunSpanBuilder()
            if Self.append(.empty, changing: ordinals, adding: true, to: &builder),
                Self.isWorthGathering(builder)
            {
                try builder.withBytes { bytes throws(StorageError) in
                    try raw.put(.sets, key, bytes)
                }
                return ordinals.count
            }
        }
        var changed = 0
        var hasRuns = false
        var start = ordinals.startIndex
        while start < ordinals.endIndex {
            let block = ordinals[start] >> BlockGeometry.strideShift
            var end = start + 1
            while end < ordinals.endIndex, ordinals[end] >> BlockGeometry.strideShift == block {
                end += 1
            }
            let bits = ordinals[start..<end].map { UInt16($0 & BlockGeometry.bitMask) }
            let key = Key.block(block, of: set, in: project)
            changed += try change(bits, of: key, in: .sets, adding: adding)
            if !hasRuns, let row = try raw.get(.sets, key) { hasRuns = Self.hasRuns(row) }
            start = end
        }
        if hasRuns { try gatherRuns(at: first, of: set, in: project) }
        return changed
    }

    /// The members of one block, in any form. Valid until the next write.
    func storedView(
        ofBlock block: UInt32, of set: UInt32, in project: ProjectNumber
    ) throws(StorageError) -> BlockView {
        let first = RunSpan.start(ofBlock: block)
        let found = try raw.get(.sets, .block(first, of: set, in: project))
        if let found, found.count & 1 != 0 {
            return try Self.span(found).view(ofBlockAt: Int(block - first))
        }
        let own = block == first ? found : try raw.get(.sets, .block(block, of: set, in: project))
        return own.map { .stored($0) } ?? .empty
    }

    /// - Throws: `StorageError` if the bytes, an odd number, aren't a span.
    static func span(_ bytes: UnsafeRawBufferPointer) throws(StorageError) -> RunSpan {
        guard let span = RunSpan(checking: bytes) else { throw .damagedSpan }
        return span
    }

    private static func append(
        _ span: RunSpan, changing ordinals: ArraySlice<UInt32>, adding: Bool,
        to builder: inout RunSpanBuilder
    ) -> Bool {
        var start = ordinals.startIndex
        for index in 0..<RunSpan.blockCount {
            var end = start
            let mask = UInt32(RunSpan.blockCount - 1)
            while end < ordinals.endIndex,
                Int(ordinals[end] >> BlockGeometry.strideShift & mask) == index
            {
                end += 1
            }
            let view = span.view(ofBlockAt: index)
            if start == end {
                guard builder.append(view) else { return false }
                continue
            }
            let bits = ordinals[start..<end].map { UInt16($0 & BlockGeometry.bitMask) }
            guard
                bits.withUnsafeBufferPointer({
                    builder.append(view, changing: $0, adding: adding)
                })
            else { return false }
            start = end
        }
        return true
    }

    /// Replaces a span by a row per block.
    private func scatter(
        _ found: UnsafeRawBufferPointer, at first: UInt32, of set: UInt32,
        in project: ProjectNumber
    ) throws(StorageError) {
        // A copy, because the first write changes the memory behind `found`.
        let bytes = [UInt8](found)
        try raw.deleteFound(.sets, .block(first, of: set, in: project))
        for index in 0..<RunSpan.blockCount {
            let value = bytes.withUnsafeBytes { Self.rowOfBlock(index, in: $0) }
            guard let value else { continue }
            try raw.put(.sets, .block(first + UInt32(index), of: set, in: project), value)
        }
    }

    /// A block's row, if it leaves its span; nil if it has no members.
    private static func rowOfBlock(_ index: Int, in span: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let view = RunSpan(checking: span)?.view(ofBlockAt: index), view.count > 0 else {
            return nil
        }
        guard view.count > SetKey.listMembersMax else {
            var list: [UInt16] = []
            view.forEachBit { list.append(UInt16($0)) }
            return PackedList.bytes(of: list)
        }
        return BlockBuffer(view).withBytes { Array($0) }
    }

    /// Whether a block's members form long runs.
    private static func hasRuns(_ row: UnsafeRawBufferPointer) -> Bool {
        var builder = RunSpanBuilder()
        return builder.append(.stored(row)) && isWorthGathering(builder)
    }

    private static func isWorthGathering(_ builder: borrowing RunSpanBuilder) -> Bool {
        builder.toggleCount <= RunSpan.togglesMax / 2
            && builder.count >= builder.toggleCount / 2 * membersPerRunMin
    }

    /// Replaces a span's rows by one, if the members form long runs.
    private func gatherRuns(
        at first: UInt32, of set: UInt32, in project: ProjectNumber
    ) throws(StorageError) {
        var builder = RunSpanBuilder()
        var blocks: [UInt32] = []
        do {
            var next = first
            let cursor = try Cursor(raw, .sets)
            var entry = try cursor.seek(.block(first, of: set, in: project))
            while let row = entry, let block = Self.block(row.key, at: first, of: set, in: project)
            {
                guard row.value.count & 1 == 0 else { throw StorageError.damagedSpan }
                while next < block {
                    _ = builder.append(.empty)
                    next += 1
                }
                guard builder.append(.stored(row.value)),
                    builder.toggleCount <= RunSpan.togglesMax / 2
                else { return }
                blocks.append(block)
                next = block + 1
                entry = try cursor.next()
            }
        }
        guard Self.isWorthGathering(builder) else { return }
        invariant(blocks.isAscending, "The rows of a set are read in the order of the blocks.")
        for block in blocks { try raw.deleteFound(.sets, .block(block, of: set, in: project)) }
        try builder.withBytes { bytes throws(StorageError) in
            try raw.put(.sets, .block(first, of: set, in: project), bytes)
        }
    }

    private func hasRows(
        at first: UInt32, of set: UInt32, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let cursor = try Cursor(raw, .sets)
        guard let entry = try cursor.seek(.block(first, of: set, in: project)) else { return false }
        return Self.block(entry.key, at: first, of: set, in: project) != nil
    }

    /// A key's block; nil if it is outside the span at `first`.
    private static func block(
        _ key: RowKey, at first: UInt32, of set: UInt32, in project: ProjectNumber
    ) -> UInt32? {
        guard key.count == 12, key.project == project, key.set == set else { return nil }
        let block = key.block
        return block >= first && block - first < UInt32(RunSpan.blockCount) ? block : nil
    }
}

extension StorageError {
    /// A span's parts lie outside its bytes.
    static var damagedSpan: StorageError {
        StorageError(
            operation: "read sets", code: 0, text: "a span is damaged; run 'martlet check'",
            isFull: false)
    }
}
