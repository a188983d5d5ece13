// SPDX-License-Identifier: Apache-2.0
//
// Reads sets block by block straight from the rows, for the evaluator: one cursor a set, moving
// forward only. Rests on the forms drawn in Schema.swift.
//
// A step of LMDB's cursor costs 9 ns in a loop that does nothing else, and several times that when
// every step is a call from far away. So blocks are read ahead, as many as are asked for, in one
// loop without calls but LMDB's.

import MartletBase
public import MartletBits
public import MartletCondition
public import MartletRows

/// One set of a `StoredBlocks`: where reading stands.
struct SetReader {
    /// The whole sorted list of ordinals of a small topic; else the rows of `cursor` are read.
    private let list: UnsafeRawBufferPointer?
    /// Bytes of the list that are behind us.
    private var passed = 0
    private let raw: Rows?
    /// Opened with the first row that is asked for: of the sets that a condition could read, it reads
    /// those that make a difference.
    private var cursor: CursorHandle?
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

    init(_ raw: Rows, project: ProjectNumber, set: UInt32) {
        self.raw = raw
        prefix = UInt64(project.rawValue) << 32 | UInt64(set)
        list = nil
    }

    func close() {
        if let cursor { raw?.transaction.close(cursor) }
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
        guard !isEnded, let rows = raw?.transaction else { return 0 }
        var count = 0
        do throws(StorageError) {
            let cursor = try openedCursor(rows)
            var entry = isStarted ? try rows.move(cursor, .next, nil) : nil
            // Far behind is what the step found, or there was nothing to step from.
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

    /// Moves to the first row that has a block not below `block`.
    private func seek(
        _ rows: any RowTransaction, _ cursor: CursorHandle, _ block: UInt32
    ) throws(StorageError) -> RowEntry? {
        var entry = try find(rows, cursor, block)
        let first = RunSpan.start(ofBlock: block)
        if block == first || entry.map({ isAt($0.key, block) }) ?? false { return entry }
        // The row before may be a span that has the block.
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

    /// Whether a row is of this set and of blocks before `block`.
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

/// Several sets of one project, as the evaluator's slots.
public struct StoredBlocks: BlockSource {
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

    /// Throws if a set could not be read to its end. A source has no way of failing in the middle: it ends, and
    /// says afterwards whether that was the end. Asked on any copy of the source.
    public func finish() throws(StorageError) {
        for index in 0..<readers.count {
            if let failure = readers.slots[index].failure { throw failure }
        }
    }
}
