// SPDX-License-Identifier: Apache-2.0
//
// Sets of instances as blocks (Schema draws the forms). A request's ordinals are merged into each block at once, so it
// reads and writes a block once, however many they are. Rests on the rows and on MartletBits.

package import MartletBase
import MartletBits
package import MartletRows

/// Sets of instances: subscribers of topics, all instances, those of an app, inactive ones.
package struct SetLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// Notes that one of the project's sets is about to change.
    private func noteChange(in project: ProjectNumber) {
        context.setChanges.note(raw.number, in: project)
    }

    /// Adds members to a set.
    /// - Parameter ordinals: sorted and distinct.
    /// - Returns: how many are new.
    package func add(
        _ ordinals: [UInt32], to set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> Int {
        assert(ordinals.isAscending, "The new members of a set are sorted and distinct.")
        noteChange(in: project)
        let number = SetKey.number(of: set)
        guard SetKey.isTopic(number) else {
            return try changeSpans(ordinals, of: number, in: project, adding: true)
        }
        let smallKey = Key.block(SetKey.smallTopicBlock, of: number, in: project)
        let small = try raw.get(.sets, smallKey)
        if small == nil, try hasBlocks(number, in: project) {
            return try changeSpans(ordinals, of: number, in: project, adding: true)
        }
        let before = (small?.count ?? 0) / 4
        let merged = PackedList.inserting(
            small ?? UnsafeRawBufferPointer(start: nil, count: 0), sorted: ordinals)
        let after = merged.count / 4
        if after <= SetKey.smallTopicMembersMax {
            try raw.put(.sets, smallKey, merged)
        } else {
            try raw.delete(.sets, smallKey)
            let all = merged.withUnsafeBytes { bytes in
                (0..<after).map { bytes.loadLittleEndian(UInt32.self, at: $0 * 4) }
            }
            _ = try changeSpans(all, of: number, in: project, adding: true)
        }
        invariant(
            (0...ordinals.count).contains(after - before), "A set grows by its new members alone.")
        return after - before
    }

    /// Removes members from a set.
    /// - Parameter ordinals: sorted and distinct.
    /// - Returns: how many were removed.
    package func remove(
        _ ordinals: [UInt32], from set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> Int {
        assert(ordinals.isAscending, "The leaving members of a set are sorted and distinct.")
        noteChange(in: project)
        let number = SetKey.number(of: set)
        if SetKey.isTopic(number) {
            let smallKey = Key.block(SetKey.smallTopicBlock, of: number, in: project)
            if let small = try raw.get(.sets, smallKey) {
                let before = small.count / 4
                let remaining = PackedList.removing(small, sorted: ordinals)
                if remaining.isEmpty {
                    try raw.delete(.sets, smallKey)
                } else {
                    try raw.put(.sets, smallKey, remaining)
                }
                let removed = before - remaining.count / 4
                invariant(
                    (0...ordinals.count).contains(removed),
                    "A set loses its leaving members alone.")
                return removed
            }
        }
        let removed = try changeSpans(ordinals, of: number, in: project, adding: false)
        if removed > 0, SetKey.isTopic(number) {
            try gatherIfSmall(number, removed: removed, in: project)
        }
        return removed
    }

    /// Replaces a topic's blocks by a list when at most half of a list's members are left. At half, one instance that
    /// comes and goes doesn't flip the form.
    private func gatherIfSmall(
        _ number: UInt32, removed: Int, in project: ProjectNumber
    ) throws(StorageError) {
        // The topic's record still has the count from before this request. A large topic isn't walked through.
        let membersMax = SetKey.smallTopicMembersMax / 2
        let record = try raw.get(.topics, .topic(TopicNumber(number), in: project))
        if let record, record.count >= 8,
            record.loadLittleEndian(UInt64.self, at: 0) > UInt64(membersMax + removed)
        {
            return
        }
        var prefix = Key(project)
        prefix.append(number)
        var blocks: [UInt32] = []
        var members: [UInt32] = []
        let cursor = try Cursor(raw, .sets)
        var entry = try cursor.seek(prefix)
        while let row = entry, row.key.count == 12, prefix.isPrefix(of: row.key) {
            let first = row.key.block
            let span = row.value.count & 1 == 0 ? nil : try Self.span(row.value)
            for index in 0..<(span == nil ? 1 : RunSpan.blockCount) {
                let view = span?.view(ofBlockAt: index) ?? .stored(row.value)
                guard members.count + view.count <= membersMax else { return }
                let block = first + UInt32(index)
                view.forEachBit {
                    members.append(block << BlockGeometry.strideShift | UInt32($0))
                }
            }
            blocks.append(first)
            entry = try cursor.next()
        }
        guard !members.isEmpty else { return }
        for block in blocks {
            try raw.deleteFound(.sets, .block(block, of: number, in: project))
        }
        try raw.put(
            .sets, .block(SetKey.smallTopicBlock, of: number, in: project),
            PackedList.bytes(of: members))
    }

    private func hasBlocks(
        _ set: UInt32, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        var prefix = Key(project)
        prefix.append(set)
        let cursor = try Cursor(raw, .sets)
        guard let entry = try cursor.seek(prefix) else { return false }
        return prefix.isPrefix(of: entry.key)
    }

    /// Changes a set that has a row per block.
    /// - Parameters:
    ///   - ordinals: sorted and distinct.
    ///   - key: the key of a block's row.
    /// - Returns: how many memberships changed.
    func changeBlocks(
        _ ordinals: [UInt32], in table: Table, adding: Bool, key: (_ block: UInt32) -> Key
    ) throws(StorageError) -> Int {
        var changed = 0
        var start = 0
        while start < ordinals.count {
            let block = ordinals[start] >> BlockGeometry.strideShift
            var end = start + 1
            while end < ordinals.count, ordinals[end] >> BlockGeometry.strideShift == block {
                end += 1
            }
            let bits = ordinals[start..<end].map { UInt16($0 & BlockGeometry.bitMask) }
            changed += try change(bits, of: key(block), in: table, adding: adding)
            start = end
        }
        return changed
    }

    func change(
        _ bits: [UInt16], of key: Key, in table: Table, adding: Bool
    ) throws(StorageError) -> Int {
        let found = try raw.get(table, key) ?? UnsafeRawBufferPointer(start: nil, count: 0)
        if found.count != BlockGeometry.bytesPerBlock {
            let before = found.count / 2
            let list =
                adding
                ? PackedList.inserting(found, sorted: bits)
                : PackedList.removing(found, sorted: bits)
            let after = list.count / 2
            if after == 0 {
                try raw.delete(table, key)
            } else if after <= SetKey.listMembersMax {
                try raw.put(table, key, list)
            } else {
                var block = BlockBuffer()
                list.withUnsafeBytes { block.assign(.list($0.bindMemory(to: UInt16.self))) }
                try block.withBytes { bytes throws(StorageError) in try raw.put(table, key, bytes) }
            }
            invariant(
                abs(after - before) <= bits.count, "A block changes by the changed bits alone.")
            return abs(after - before)
        }
        var block = BlockBuffer(.storedBitmap(found))
        var changed = 0
        for bit in bits {
            let differs = adding ? block.insert(bit: Int(bit)) : block.remove(bit: Int(bit))
            if differs { changed += 1 }
        }
        invariant(changed <= bits.count, "A block changes by the changed bits alone.")
        if changed == 0 { return 0 }
        let count = adding ? Int.max : block.count
        if count == 0 {
            try raw.delete(table, key)
        } else if count <= SetKey.listMembersMax / 2 {
            // Half of the bound, so one instance that comes and goes doesn't flip the form.
            var list: [UInt16] = []
            list.reserveCapacity(count)
            block.forEachBit { list.append(UInt16($0)) }
            try raw.put(table, key, PackedList.bytes(of: list))
        } else {
            try block.withBytes { bytes throws(StorageError) in try raw.put(table, key, bytes) }
        }
        return changed
    }

    /// A source with one slot per set, in order. Its views are valid until the next write, or the end of the
    /// transaction.
    package func blocks(
        of sets: [InstanceSet], in project: ProjectNumber
    ) throws(StorageError) -> StoredBlocks {
        var readers: [SetReader] = []
        readers.reserveCapacity(sets.count)
        for set in sets { readers.append(try reader(of: set, in: project)) }
        return StoredBlocks(readers)
    }

    package func memberCount(
        of set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        var blocks = try blocks(of: [set], in: project)
        var (count, from): (UInt64, UInt32) = (0, 0)
        while let next = blocks.nextBlock(slot: 0, from: from) {
            count += UInt64(next.view.count)
            from = next.block + 1
        }
        try blocks.finish()
        return count
    }

    /// A set's lowest ordinals, at most `limit`.
    package func first(
        _ limit: Int, of set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> [Ordinal] {
        var blocks = try blocks(of: [set], in: project)
        var ordinals: [Ordinal] = []
        var from: UInt32 = 0
        while ordinals.count < limit, let next = blocks.nextBlock(slot: 0, from: from) {
            next.view.forEachBit { bit in
                if ordinals.count < limit {
                    ordinals.append(Ordinal(block: next.block, bit: bit))
                }
            }
            from = next.block + 1
        }
        try blocks.finish()
        return ordinals
    }

    private func reader(
        of set: InstanceSet, in project: ProjectNumber
    ) throws(StorageError) -> SetReader {
        let number = SetKey.number(of: set)
        let smallKey = Key.block(SetKey.smallTopicBlock, of: number, in: project)
        if SetKey.isTopic(number), let small = try raw.get(.sets, smallKey) {
            return SetReader(small: small)
        }
        return SetReader(raw, project: project, set: number)
    }
}

extension BlockView {
    /// The view of a value of 4080 bytes, which has an overflow page of its own and so is aligned to 16 bytes.
    static func storedBitmap(_ bytes: UnsafeRawBufferPointer) -> BlockView {
        .bitmap(bytes.baseAddress!.assumingMemoryBound(to: UInt64.self))
    }

    /// The view of a block's row in `sets`.
    static func stored(_ bytes: UnsafeRawBufferPointer) -> BlockView {
        if bytes.count == BlockGeometry.bytesPerBlock { return storedBitmap(bytes) }
        return .list(
            UnsafeBufferPointer(
                start: bytes.baseAddress?.assumingMemoryBound(to: UInt16.self),
                count: bytes.count / 2))
    }
}
