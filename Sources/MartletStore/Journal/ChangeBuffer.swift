// SPDX-License-Identifier: Apache-2.0
//
// The changes of one transaction in their order, as a record of the journal. The buffer is reused by later
// transactions, so noting a change is a copy of its bytes. Rests on the tables of MartletRows.
//
//   record   u64 magic ‖ u64 checksum of the rest of the record ‖ u64 number ‖ u64 bytes of the changes ‖ changes;
//            zeros up to a whole block
//   change   u8 table (bit 7: deleted) ‖ u16 bytes of the key ‖ u32 bytes of the value ‖ key ‖ value

import Glibc
import MartletBase
import MartletEngine
import MartletRows

/// The record of the open transaction.
struct ChangeBuffer: ~Copyable {
    static let headerBytes = 32
    static let magic: UInt64 = 0x314E_5254_4C52_414D
    private static let changeBytes = 7
    private static let deletedBit: UInt8 = 0x80
    /// Largest capacity that is kept, in bytes; `removeAll` frees a larger buffer.
    private static let keptBytes = 4 << 20

    private var start: UnsafeMutableRawPointer
    private var capacity: Int
    private var end = Self.headerBytes

    init() {
        capacity = 64 << 10
        start = .allocate(byteCount: capacity, alignment: JournalFile.blockBytes)
    }

    deinit { start.deallocate() }

    var isEmpty: Bool { end == Self.headerBytes }

    mutating func removeAll() {
        end = Self.headerBytes
        guard capacity > Self.keptBytes else { return }
        start.deallocate()
        capacity = 64 << 10
        start = .allocate(byteCount: capacity, alignment: JournalFile.blockBytes)
    }

    mutating func notePut(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        note(UInt8(table.rawValue), key, value)
    }

    mutating func noteDelete(_ table: Table, _ key: UnsafeRawBufferPointer) {
        note(
            UInt8(table.rawValue) | Self.deletedBit, key,
            UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private mutating func note(
        _ kind: UInt8, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        invariant(key.count <= Int(UInt16.max), "A key of a change has 16 bits of length.")
        invariant(value.count <= Int(UInt32.max), "A value of a change has 32 bits of length.")
        reserve(Self.changeBytes + key.count + value.count)
        start.storeBytes(of: kind, toByteOffset: end, as: UInt8.self)
        start.storeLittleEndian(UInt16(key.count), at: end + 1)
        start.storeLittleEndian(UInt32(value.count), at: end + 3)
        end += Self.changeBytes
        if let bytes = key.baseAddress { memcpy(start + end, bytes, key.count) }
        end += key.count
        if let bytes = value.baseAddress { memcpy(start + end, bytes, value.count) }
        end += value.count
        invariant(end + JournalFile.blockBytes <= capacity, "A record has room for its last block.")
    }

    private mutating func reserve(_ byteCount: Int) {
        // Room for the zeros behind the last change, up to a whole block.
        let needed = end + byteCount + JournalFile.blockBytes
        guard needed > capacity else { return }
        capacity = max(needed, 2 * capacity)
        let larger = UnsafeMutableRawPointer.allocate(
            byteCount: capacity, alignment: JournalFile.blockBytes)
        memcpy(larger, start, end)
        start.deallocate()
        start = larger
    }

    /// The complete record, padded to whole blocks. Valid until the next change of the buffer.
    mutating func record(number: UInt64, seed: UInt64) -> UnsafeRawBufferPointer {
        let whole =
            (end + JournalFile.blockBytes - 1) / JournalFile.blockBytes * JournalFile.blockBytes
        invariant(whole <= capacity, "A record has room for its last block.")
        memset(start + end, 0, whole - end)
        start.storeLittleEndian(Self.magic, at: 0)
        start.storeLittleEndian(number, at: 16)
        start.storeLittleEndian(UInt64(end - Self.headerBytes), at: 24)
        let checksum = JournalFile.checksum(
            UnsafeRawBufferPointer(start: start + 16, count: end - 16), seed: seed)
        start.storeLittleEndian(checksum, at: 8)
        return UnsafeRawBufferPointer(start: start, count: whole)
    }

    /// The changes noted so far. Valid until the next change of the buffer.
    var changes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: start + Self.headerBytes, count: end - Self.headerBytes)
    }

    /// Repeats the changes of a record.
    /// - Parameter changes: the bytes behind the record's header.
    /// - Throws: `StorageError` if the bytes are not changes, or if a row cannot be written.
    static func apply(
        _ changes: UnsafeRawBufferPointer, to raw: Rows
    ) throws(StorageError) {
        try forEach(changes) { (table, key, value) throws(StorageError) in
            if let value {
                try raw.transaction.put(table, key, value)
            } else {
                _ = try raw.transaction.delete(table, key)
            }
        }
    }

    /// Calls `body` with each change. The bytes are those of `changes`; a value of nil is a deletion.
    /// - Parameter changes: the bytes behind a record's header.
    /// - Throws: `StorageError` if the bytes are not changes, or the error of `body`.
    static func forEach(
        _ changes: UnsafeRawBufferPointer,
        _ body: (Table, UnsafeRawBufferPointer, UnsafeRawBufferPointer?) throws(StorageError) ->
            Void
    ) throws(StorageError) {
        var at = 0
        while at < changes.count {
            guard changes.count - at >= Self.changeBytes,
                let table = Table(rawValue: Int(changes[at] & ~Self.deletedBit))
            else { throw JournalFile.damaged }
            let isDeleted = changes[at] & Self.deletedBit != 0
            let keyBytes = Int(changes.loadLittleEndian(UInt16.self, at: at + 1))
            let valueBytes = Int(changes.loadLittleEndian(UInt32.self, at: at + 3))
            at += Self.changeBytes
            guard changes.count - at >= keyBytes + valueBytes else { throw JournalFile.damaged }
            let key = UnsafeRawBufferPointer(rebasing: changes[at..<(at + keyBytes)])
            at += keyBytes
            let value = UnsafeRawBufferPointer(rebasing: changes[at..<(at + valueBytes)])
            at += valueBytes
            try body(table, key, isDeleted ? nil : value)
        }
    }
}
