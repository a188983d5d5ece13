// SPDX-License-Identifier: Apache-2.0
//
// Encoding of records: little-endian, fixed fields first, text last. The store reads only records that it wrote, but
// a disk can damage them. Reading past the end of a record throws an error. Rests on MartletBase.

public import MartletBase

/// Appends fields to a record.
public struct RecordWriter {
    /// Fields so far, in the order in which they were appended.
    public var bytes: [UInt8] = []

    /// Makes a writer without fields.
    @inlinable public init() {}

    /// Appends an integer, little-endian.
    @inlinable public mutating func append<T: FixedWidthInteger>(_ value: T) {
        bytes.append(littleEndian: value)
    }

    /// Appends UTF-8 with a u16 byte count before it.
    @inlinable public mutating func append(text: String) {
        append(UInt16(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }

    /// Appends bytes with a u32 byte count before them.
    @inlinable public mutating func append(bytes content: some Collection<UInt8>) {
        append(UInt32(content.count))
        bytes.append(contentsOf: content)
    }
}

/// Reads fields from a record, in the order in which they were appended.
public struct RecordReader {
    @usableFromInline let bytes: UnsafeRawBufferPointer
    /// Bytes read so far.
    public var offset = 0
    @usableFromInline let table: Table

    /// Makes a reader at the first byte.
    /// - Parameters:
    ///   - bytes: the record, valid as long as the reader.
    ///   - table: the table that the record comes from. Errors name the table.
    @inlinable public init(_ bytes: UnsafeRawBufferPointer, of table: Table) {
        self.bytes = bytes
        self.table = table
    }

    /// Whether all bytes are read.
    @inlinable public var isAtEnd: Bool { offset == bytes.count }

    /// Reads a little-endian integer.
    /// - Throws: `StorageError` if the record ends before.
    @inlinable public mutating func read<T: FixedWidthInteger>(_ type: T.Type) throws(StorageError)
        -> T
    {
        let size = MemoryLayout<T>.size
        guard bytes.count - offset >= size else { throw damaged() }
        defer { offset += size }
        return bytes.loadLittleEndian(type, at: offset)
    }

    /// Reads `count` bytes, borrowed from the record.
    /// - Throws: `StorageError` if the record ends before.
    @inlinable public mutating func bytes(_ count: Int) throws(StorageError)
        -> UnsafeRawBufferPointer
    {
        guard bytes.count - offset >= count else { throw damaged() }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)])
    }

    /// Reads UTF-8 with a u16 byte count before it. Invalid UTF-8 is repaired.
    /// - Throws: `StorageError` if the record ends before.
    @inlinable public mutating func text() throws(StorageError) -> String {
        let count = Int(try read(UInt16.self))
        return String(decoding: try bytes(count), as: UTF8.self)
    }

    /// Reads bytes with a u32 byte count before them, borrowed from the record.
    /// - Throws: `StorageError` if the record ends before.
    @inlinable public mutating func countedBytes() throws(StorageError) -> UnsafeRawBufferPointer {
        try bytes(Int(try read(UInt32.self)))
    }

    /// Reads all bytes up to the record's end.
    @inlinable public mutating func rest() -> UnsafeRawBufferPointer {
        defer { offset = bytes.count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset...])
    }

    /// The error of a damaged record. Its text has the reader's offset.
    public func damaged() -> StorageError {
        StorageError(
            operation: "read \(table.name)", code: 0,
            text: "a record is damaged (at byte \(offset) of \(bytes.count)); run 'martlet check'",
            isFull: false)
    }
}
