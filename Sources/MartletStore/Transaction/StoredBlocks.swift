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
    private let raw: RawTransaction?
    /// Opened with the first row that is asked for: of the sets that a condition could read, it reads
    /// those that make a difference.
    private var cursor: OpaquePointer?
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
        raw = nil
        prefix = 0
    }

    init(_ raw: RawTransaction, project: ProjectNumber, set: UInt32) {
        self.raw = raw
        prefix = UInt64(project.rawValue) << 32 | UInt64(set)
        list = nil
    }

    func close() {
        if let cursor { mdb_cursor_close(cursor) }
    }

    /// The list, if this set is one and nothing was read of it.
    var wholeList: UnsafeRawBufferPointer? { passed == 0 && last == nil ? list : nil }

    /// The first block not below `block` that has members, which may be the one handed out last.
    mutating func next(from block: UInt32) -> (block: UInt32, view: BlockView)? {
        var block = block
        while true {
            var found = SourceBlock(block: 0, view: .empty)
            if let last, last.last >= block {
                found = last
            } else {
                let count = withUnsafeMutablePointer(to: &found) {
                    read(from: block, into: UnsafeMutableBufferPointer(start: $0, count: 1))
                }
                guard count > 0 else { return nil }
            }
            guard found.span != nil else { return (found.block, found.view) }
            for number in max(found.block, block)...found.last {
                let view = found.view(ofBlock: number)
                if case .empty = view { continue }
                return (number, view)
            }
            block = found.last + 1
        }
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
        guard !isEnded, let cursor = openedCursor() else { return 0 }
        var key = MDB_val()
        var value = MDB_val()
        var code = isStarted ? mdb_cursor_get(cursor, &key, &value, MDB_NEXT) : MDB_NOTFOUND
        // Far behind is what the step found, or there was nothing to step from.
        if !isStarted || (code == 0 && Self.isBelow(key, value, prefix, block)) {
            code = Self.seek(cursor, prefix, block, &key, &value)
            isStarted = true
        }
        var count = 0
        while code == 0 {
            guard key.mv_size == 12, Self.prefix(key) == prefix else { break }
            let found = Self.block(key)
            guard found != SetKey.smallTopicBlock else { break }
            let bytes = UnsafeRawBufferPointer(value)
            if bytes.count & 1 == 0 {
                target[count] = SourceBlock(block: found, view: .stored(bytes))
            } else if found == RunSpan.start(ofBlock: found), let span = RunSpan(checking: bytes) {
                target[count] = SourceBlock(block: found, span: span)
            } else {
                failure = .damagedSpan
                code = MDB_NOTFOUND
                break
            }
            count &+= 1
            if count == target.count { return count }
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
        }
        isEnded = true
        if code != 0, code != MDB_NOTFOUND { failure = MartletStore.failure("read sets", code) }
        return count
    }

    private mutating func openedCursor() -> OpaquePointer? {
        if let cursor { return cursor }
        guard let raw else { return nil }
        let code = mdb_cursor_open(
            raw.transaction, raw.handle(.sets), &cursor)
        guard code == 0 else {
            failure = MartletStore.failure("cursor sets", code)
            isEnded = true
            return nil
        }
        return cursor
    }

    /// Moves to the first row that has a block not below `block`.
    private static func seek(
        _ cursor: OpaquePointer, _ prefix: UInt64, _ block: UInt32, _ key: inout MDB_val,
        _ value: inout MDB_val
    ) -> Int32 {
        var code = find(cursor, prefix, block, &key, &value)
        let first = RunSpan.start(ofBlock: block)
        if block == first || (code == 0 && isAt(key, prefix, block)) { return code }
        // The row before may be a span that has the block.
        code =
            code == 0 || code == MDB_NOTFOUND
            ? find(cursor, prefix, first, &key, &value) : code
        while code == 0, isBelow(key, value, prefix, block) {
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
        }
        return code
    }

    private static func find(
        _ cursor: OpaquePointer, _ prefix: UInt64, _ block: UInt32, _ key: inout MDB_val,
        _ value: inout MDB_val
    ) -> Int32 {
        var sought = (prefix.bigEndian, block.bigEndian)
        return withUnsafeMutableBytes(of: &sought) { bytes in
            key = MDB_val(mv_size: 12, mv_data: bytes.baseAddress)
            return mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE)
        }
    }

    /// Whether a row is of this set and of blocks before `block`.
    private static func isBelow(
        _ key: MDB_val, _ value: MDB_val, _ prefix: UInt64, _ block: UInt32
    ) -> Bool {
        guard key.mv_size == 12, Self.prefix(key) == prefix else { return false }
        let last = Self.block(key) &+ UInt32(value.mv_size & 1 == 0 ? 0 : RunSpan.blockCount - 1)
        return last < block
    }

    private static func isAt(_ key: MDB_val, _ prefix: UInt64, _ block: UInt32) -> Bool {
        key.mv_size == 12 && Self.prefix(key) == prefix && Self.block(key) == block
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
        return readers.slots[slot].next(from: block)
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
