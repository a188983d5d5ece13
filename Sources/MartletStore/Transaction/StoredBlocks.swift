// SPDX-License-Identifier: Apache-2.0
//
// Reads sets block by block straight from LMDB's pages, for the evaluator: one cursor a set, moving
// forward only. Rests on the forms drawn in Schema.swift.

internal import CLMDB
import MartletBase
public import MartletBits
import MartletCondition
public import MartletEngine

/// A cursor over one set's block rows. A large condition makes some hundred steps for each of its
/// topics, so a step compares eight bytes and allocates nothing.
final class BlockCursor {
    private let cursor: OpaquePointer
    /// Project and set, as the first eight bytes of a key are read.
    private let prefix: UInt64
    private let prefixKey: Key
    /// The entry the cursor stands on; nil past the end.
    private var current: (block: UInt32, value: UnsafeRawBufferPointer)?
    /// Why the set seemed to end, if that was not its end.
    private(set) var failure: StorageError?

    init(_ raw: RawTransaction, prefix: Key) throws(StorageError) {
        var opened: OpaquePointer?
        try check(
            mdb_cursor_open(raw.transaction, raw.handles[Table.sets.rawValue], &opened),
            "cursor sets")
        cursor = opened!
        prefixKey = prefix
        self.prefix = prefix.bytes.withUnsafeBytes { $0.loadBigEndian(UInt64.self, at: 0) }
        seek(0)
    }

    deinit { mdb_cursor_close(cursor) }

    /// The first block not below `block`. Asked for in ascending order.
    func next(from block: UInt32) -> (block: UInt32, value: UnsafeRawBufferPointer)? {
        guard let at = current else { return nil }
        if at.block >= block { return at }
        step()
        if let at = current, at.block < block { seek(block) }
        return current
    }

    private func seek(_ block: UInt32) {
        var key = prefixKey
        key.append(block)
        var value = MDB_val()
        var found = MDB_val()
        let code = key.withValue { sought in
            found = sought
            return mdb_cursor_get(cursor, &found, &value, MDB_SET_RANGE)
        }
        settle(code, found, value)
    }

    private func step() {
        var found = MDB_val()
        var value = MDB_val()
        let code = mdb_cursor_get(cursor, &found, &value, MDB_NEXT)
        settle(code, found, value)
    }

    private func settle(_ code: Int32, _ key: MDB_val, _ value: MDB_val) {
        if code != 0, code != MDB_NOTFOUND { failure = MartletStore.failure("read sets", code) }
        let bytes = UnsafeRawBufferPointer(key)
        guard code == 0, bytes.count == 12, bytes.loadBigEndian(UInt64.self, at: 0) == prefix
        else {
            current = nil
            return
        }
        let block = bytes.loadBigEndian(UInt32.self, at: 8)
        current = block == SetKey.smallTopicBlock ? nil : (block, UnsafeRawBufferPointer(value))
    }
}

/// Several sets of one project, as the evaluator's slots.
public struct StoredBlocks: StoredBlockSource {
    enum Slot {
        /// A small topic: the whole sorted list of ordinals, and how many bytes are behind us.
        case small(UnsafeRawBufferPointer, passed: Int)
        case blocks(BlockCursor)

        init(small: UnsafeRawBufferPointer) { self = .small(small, passed: 0) }
        init(_ cursor: BlockCursor) { self = .blocks(cursor) }
    }

    private var slots: [Slot]

    init(slots: [Slot]) { self.slots = slots }

    public mutating func nextBlock(
        slot: Int, from block: UInt32
    ) -> (block: UInt32, view: BlockView)? {
        switch slots[slot] {
        case .blocks(let cursor):
            guard let next = cursor.next(from: block) else { return nil }
            return (next.block, .stored(next.value))
        case .small(let list, let passed):
            var start = passed
            while start < list.count, Self.block(list, start) < block { start += 4 }
            slots[slot] = .small(list, passed: start)
            guard start < list.count else { return nil }
            let found = Self.block(list, start)
            var end = start + 4
            while end < list.count, Self.block(list, end) == found { end += 4 }
            return (found, .wideList(UnsafeRawBufferPointer(rebasing: list[start..<end])))
        }
    }

    public func finish() throws(StorageError) {
        for case .blocks(let cursor) in slots {
            if let failure = cursor.failure { throw failure }
        }
    }

    private static func block(_ list: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        list.loadLittleEndian(UInt32.self, at: offset) >> BlockGeometry.strideShift
    }
}
