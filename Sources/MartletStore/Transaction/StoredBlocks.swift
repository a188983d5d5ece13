// SPDX-License-Identifier: Apache-2.0
//
// Reads sets block by block straight from LMDB's pages, for the evaluator: one cursor a set, moving
// forward only. Rests on the forms drawn in Schema.swift.
//
// A step of LMDB's cursor costs 9 ns in a loop that does nothing else, and several times that when
// every step is a call from far away. So blocks are read ahead, as many as are asked for, in one
// loop without calls but LMDB's.

internal import CLMDB
import MartletBase
public import MartletBits
public import MartletCondition
public import MartletEngine

/// One set of a `StoredBlocks`: where reading stands.
struct SetReader {
    /// The whole sorted list of ordinals of a small topic; else the rows of `cursor` are read.
    private let list: UnsafeRawBufferPointer?
    /// Bytes of the list that are behind us.
    private var passed = 0
    private let cursor: OpaquePointer?
    /// Project and set, as the first eight bytes of a key are read.
    private let prefix: UInt64
    /// The block that was handed out last.
    private var last: SourceBlock?
    private var isStarted = false
    private var isEnded = false
    /// Why the set seemed to end, if that was not its end.
    private(set) var failure: StorageError?

    /// - Parameter list: must be whole ordinals; a last piece of one is left out.
    init(small list: UnsafeRawBufferPointer) {
        self.list = UnsafeRawBufferPointer(rebasing: list[..<(list.count & ~3)])
        cursor = nil
        prefix = 0
    }

    init(_ raw: RawTransaction, project: ProjectNumber, set: UInt32) throws(StorageError) {
        var opened: OpaquePointer?
        try check(
            mdb_cursor_open(raw.transaction, raw.handles[Table.sets.rawValue], &opened),
            "cursor sets")
        cursor = opened
        prefix = UInt64(project.rawValue) << 32 | UInt64(set)
        list = nil
    }

    func close() {
        if let cursor { mdb_cursor_close(cursor) }
    }

    /// The list, if this set is one and nothing was read of it.
    var wholeList: UnsafeRawBufferPointer? { passed == 0 && last == nil ? list : nil }

    /// The first block not below `block`, which may be the one handed out last.
    mutating func next(from block: UInt32) -> SourceBlock? {
        if let last, last.block >= block { return last }
        var found = SourceBlock(block: 0, view: .empty)
        let count = withUnsafeMutablePointer(to: &found) {
            read(from: block, into: UnsafeMutableBufferPointer(start: $0, count: 1))
        }
        return count == 0 ? nil : found
    }

    /// The blocks not below `block`, which is above the one handed out last.
    mutating func read(
        from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        let count: Int
        if let list {
            count = slice(list, from: block, into: target)
        } else {
            count = step(from: block, into: target)
        }
        last = count == 0 ? nil : target[count - 1]
        return count
    }

    // MARK: Rows

    private mutating func step(
        from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        guard !isEnded, let cursor else { return 0 }
        var key = MDB_val()
        var value = MDB_val()
        var code = isStarted ? mdb_cursor_get(cursor, &key, &value, MDB_NEXT) : MDB_NOTFOUND
        // Far behind is what the step found, or there was nothing to step from.
        if !isStarted || (code == 0 && Self.isBelow(key, prefix, block)) {
            code = Self.seek(cursor, prefix, block, &key, &value)
            isStarted = true
        }
        var count = 0
        while code == 0 {
            guard key.mv_size == 12, Self.prefix(key) == prefix else { break }
            let found = Self.block(key)
            guard found != SetKey.smallTopicBlock else { break }
            target[count] = SourceBlock(
                block: found, view: .stored(UnsafeRawBufferPointer(value)))
            count &+= 1
            if count == target.count { return count }
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
        }
        isEnded = true
        if code != 0, code != MDB_NOTFOUND { failure = MartletStore.failure("read sets", code) }
        return count
    }

    private static func seek(
        _ cursor: OpaquePointer, _ prefix: UInt64, _ block: UInt32, _ key: inout MDB_val,
        _ value: inout MDB_val
    ) -> Int32 {
        var sought = (prefix.bigEndian, block.bigEndian)
        return withUnsafeMutableBytes(of: &sought) { bytes in
            key = MDB_val(mv_size: 12, mv_data: bytes.baseAddress)
            return mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE)
        }
    }

    /// Whether a key is of this set and of a block before `block`.
    private static func isBelow(_ key: MDB_val, _ prefix: UInt64, _ block: UInt32) -> Bool {
        key.mv_size == 12 && Self.prefix(key) == prefix && Self.block(key) < block
    }

    private static func prefix(_ key: MDB_val) -> UInt64 {
        UInt64(bigEndian: key.mv_data.loadUnaligned(as: UInt64.self))
    }

    private static func block(_ key: MDB_val) -> UInt32 {
        UInt32(bigEndian: key.mv_data.loadUnaligned(fromByteOffset: 8, as: UInt32.self))
    }

    // MARK: The one list

    private mutating func slice(
        _ list: UnsafeRawBufferPointer, from block: UInt32,
        into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        var start = passed
        var least = block
        var count = 0
        while count < target.count {
            while start < list.count, Self.block(list, start) < least { start &+= 4 }
            guard start < list.count else { break }
            let found = Self.block(list, start)
            var end = start &+ 4
            while end < list.count, Self.block(list, end) == found { end &+= 4 }
            target[count] = SourceBlock(
                block: found,
                view: .wideList(UnsafeRawBufferPointer(rebasing: list[start..<end])))
            count &+= 1
            start = end
            least = found &+ 1
        }
        passed = start
        return count
    }

    private static func block(_ list: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        list.loadLittleEndian(UInt32.self, at: offset) >> BlockGeometry.strideShift
    }
}

/// Several sets of one project, as the evaluator's slots.
public struct StoredBlocks: StoredBlockSource {
    /// Shared by all copies: what the evaluator's copy read is where every copy stands.
    private final class Readers {
        let slots: UnsafeMutablePointer<SetReader>
        let count: Int

        init(_ readers: [SetReader]) {
            count = readers.count
            slots = .allocate(capacity: max(count, 1))
            for (index, reader) in readers.enumerated() {
                (slots + index).initialize(to: reader)
            }
        }

        deinit {
            for index in 0..<count { slots[index].close() }
            slots.deinitialize(count: count)
            slots.deallocate()
        }
    }

    private let readers: Readers

    /// - Parameter readers: closed when the last copy goes.
    init(_ readers: [SetReader]) { self.readers = Readers(readers) }

    public mutating func nextBlock(
        slot: Int, from block: UInt32
    ) -> (block: UInt32, view: BlockView)? {
        precondition(slot >= 0 && slot < readers.count, "There is no such slot.")
        guard let next = readers.slots[slot].next(from: block) else { return nil }
        return (next.block, next.view)
    }

    public mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        precondition(slot >= 0 && slot < readers.count, "There is no such slot.")
        return readers.slots[slot].read(from: block, into: target)
    }

    public func wholeList(slot: Int) -> UnsafeRawBufferPointer? {
        precondition(slot >= 0 && slot < readers.count, "There is no such slot.")
        return readers.slots[slot].wholeList
    }

    public func finish() throws(StorageError) {
        for index in 0..<readers.count {
            if let failure = readers.slots[index].failure { throw failure }
        }
    }
}
