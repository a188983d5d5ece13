// SPDX-License-Identifier: Apache-2.0
//
// Reads sets block by block from the rows, for the evaluator. Each set has a cursor that only moves forward. Rests on
// the forms drawn in Schema.
//
// A step of LMDB's cursor costs 9 ns in a tight loop, and several times that if each is a call from elsewhere. So the
// requested blocks are read ahead, in a loop that calls nothing but LMDB.

import MartletBase
package import MartletBits
package import MartletCondition
package import MartletRows

/// Where one set of a `StoredBlocks` is being read.
struct SetReader {
    /// A small topic's sorted ordinals; nil if rows are read with `cursor`.
    private let list: UnsafeRawBufferPointer?
    /// How many bytes of the list were read.
    private var passed = 0
    private let raw: Rows?
    /// Opened when the first row is read: a condition doesn't read every set that it names.
    private var cursor: CursorHandle?
    /// Project and set, as in the first eight bytes of a key.
    private let prefix: UInt64
    /// The last block returned.
    private var last: SourceBlock?
    private var isStarted = false
    private var isEnded = false
    /// What ended the reading too early.
    private(set) var failure: StorageError?

    /// - Parameter list: whole ordinals; an incomplete one at the end is ignored.
    init(small list: UnsafeRawBufferPointer) {
        self.list = UnsafeRawBufferPointer(rebasing: list[..<(list.count & ~3)])
        raw = nil
        prefix = 0
    }

    init(_ raw: Rows, project: ProjectNumber, set: UInt32) {
        self.raw = raw
        prefix = UInt64(project.rawValue) << 32 | UInt64(set)
        list = nil
    }

    func close() {
        if let cursor { raw?.transaction.close(cursor) }
    }

    /// A small topic's list, while nothing of it was read.
    var wholeList: UnsafeRawBufferPointer? { passed == 0 && last == nil ? list : nil }

    /// The first block from `block` on that has members, possibly the last one returned.
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
            assert(found.last >= block, "A set is read in the order of its blocks.")
            guard found.span != nil else { return (found.block, found.view) }
            for number in max(found.block, block)...found.last {
                let view = found.view(ofBlock: number)
                if case .empty = view { continue }
                return (number, view)
            }
            block = found.last + 1
        }
    }

    /// Reads blocks from `block` on, which is above the last one returned.
    /// - Returns: how many blocks are in `target`.
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
        guard !isEnded, let rows = raw?.transaction else { return 0 }
        var count = 0
        do throws(StorageError) {
            let cursor = try openedCursor(rows)
            var entry = isStarted ? try rows.move(cursor, .next, nil) : nil
            // Search the first time, and if the step has found a row below `block`.
            if !isStarted || entry.map({ isBelow($0, block) }) ?? false {
                entry = try seek(rows, cursor, block)
                isStarted = true
            }
            while let found = entry {
                guard found.key.count == 12, found.key.projectAndSet == prefix else { break }
                let number = found.key.block
                guard number != SetKey.smallTopicBlock else { break }
                if found.value.count & 1 == 0 {
                    target[count] = SourceBlock(block: number, view: .stored(found.value))
                } else if number == RunSpan.start(ofBlock: number),
                    let span = RunSpan(checking: found.value)
                {
                    target[count] = SourceBlock(block: number, span: span)
                } else {
                    throw .damagedSpan
                }
                count &+= 1
                if count == target.count { return count }
                entry = try rows.move(cursor, .next, nil)
            }
        } catch {
            failure = error
        }
        isEnded = true
        return count
    }

    private mutating func openedCursor(
        _ rows: any RowTransaction
    ) throws(StorageError) -> CursorHandle {
        if let cursor { return cursor }
        let opened = try rows.openCursor(.sets)
        cursor = opened
        return opened
    }

    /// Moves to the first row that has a block from `block` on.
    private func seek(
        _ rows: any RowTransaction, _ cursor: CursorHandle, _ block: UInt32
    ) throws(StorageError) -> RowEntry? {
        var entry = try find(rows, cursor, block)
        let first = RunSpan.start(ofBlock: block)
        if block == first || entry.map({ isAt($0.key, block) }) ?? false { return entry }
        // The row before may be a span that includes the block.
        entry = try find(rows, cursor, first)
        while let found = entry, isBelow(found, block) {
            entry = try rows.move(cursor, .next, nil)
        }
        return entry
    }

    private func find(
        _ rows: any RowTransaction, _ cursor: CursorHandle, _ block: UInt32
    ) throws(StorageError) -> RowEntry? {
        let sought = (prefix.bigEndian, block.bigEndian)
        return try withUnsafeBytes(of: sought) { (bytes) throws(StorageError) in
            try rows.move(cursor, .from, UnsafeRawBufferPointer(rebasing: bytes[..<12]))
        }
    }

    /// Whether a row is this set's, and only about blocks before `block`.
    private func isBelow(_ entry: RowEntry, _ block: UInt32) -> Bool {
        guard entry.key.count == 12, entry.key.projectAndSet == prefix else { return false }
        let isSpan = entry.value.count & 1 != 0
        return entry.key.block &+ UInt32(isSpan ? RunSpan.blockCount - 1 : 0) < block
    }

    private func isAt(_ key: RowKey, _ block: UInt32) -> Bool {
        key.count == 12 && key.projectAndSet == prefix && key.block == block
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

/// Several sets of one project, as the slots of the evaluator.
package struct StoredBlocks: BlockSource {
    /// Shared by all copies: a read by the evaluator's copy moves every one.
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

    /// - Parameter readers: closed with the last copy.
    init(_ readers: [SetReader]) { self.readers = Readers(readers) }

    /// See `BlockSource`. A slot outside the source ends the process.
    package mutating func nextBlock(
        slot: Int, from block: UInt32
    ) -> (block: UInt32, view: BlockView)? {
        invariant(slot >= 0 && slot < readers.count, "There is no such slot.")
        return readers.slots[slot].next(from: block)
    }

    /// See `BlockSource`. A slot outside the source ends the process.
    package mutating func readBlocks(
        slot: Int, from block: UInt32, into target: UnsafeMutableBufferPointer<SourceBlock>
    ) -> Int {
        invariant(slot >= 0 && slot < readers.count, "There is no such slot.")
        return readers.slots[slot].read(from: block, into: target)
    }

    /// See `BlockSource`. A slot outside the source ends the process.
    package func wholeList(slot: Int) -> UnsafeRawBufferPointer? {
        invariant(slot >= 0 && slot < readers.count, "There is no such slot.")
        return readers.slots[slot].wholeList
    }

    /// Checks that all sets were read without an error. A source can't fail in the middle: the set seems to end, and
    /// the error comes out here. Any copy can be asked.
    /// - Throws: `StorageError` if a set was not read to its end.
    package func finish() throws(StorageError) {
        for index in 0..<readers.count {
            if let failure = readers.slots[index].failure { throw failure }
        }
    }
}
