// SPDX-License-Identifier: Apache-2.0
//
// The fields of keys. Keys are decoded here and nowhere else. Schema.swift says which fields the keys of each
// table have. Rests on RecordBytes.

public import MartletBase

/// A borrowed key of a row, and the fields in the key.
public struct RowKey: RandomAccessCollection {
    /// Bytes of the key, valid as long as the row is.
    public let bytes: UnsafeRawBufferPointer

    /// Wraps the bytes of a key. Only the fields that the key's table has may be read.
    @inlinable public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Index of the first byte.
    @inlinable public var startIndex: Int { 0 }
    /// Index behind the last byte.
    @inlinable public var endIndex: Int { bytes.count }
    /// Number of bytes, at most 511.
    @inlinable public var count: Int { bytes.count }
    /// Byte of the key.
    @inlinable public subscript(index: Int) -> UInt8 { bytes[index] }

    @inlinable func word(_ offset: Int) -> UInt32 { bytes.loadBigEndian(UInt32.self, at: offset) }
    @inlinable func longWord(_ offset: Int) -> UInt64 {
        bytes.loadBigEndian(UInt64.self, at: offset)
    }

    /// p ‖ …
    @inlinable public var project: ProjectNumber { ProjectNumber(word(0)) }

    // MARK: What follows a project

    /// p ‖ o ‖ …
    @inlinable public var ordinal: Ordinal { Ordinal(word(4)) }
    /// p ‖ o ‖ s
    @inlinable public var instanceSequence: MessageSequence { MessageSequence(longWord(8)) }
    /// p ‖ t
    @inlinable public var topic: TopicNumber { TopicNumber(word(4)) }
    /// p ‖ app number
    @inlinable public var app: AppNumber { AppNumber(word(4)) }
    /// p ‖ s ‖ …
    @inlinable public var sequence: MessageSequence { MessageSequence(longWord(4)) }
    /// p ‖ u64
    @inlinable public var number: UInt64 { longWord(4) }
    /// p ‖ s ‖ block
    @inlinable public var missedBlock: UInt32 { word(12) }
    /// p ‖ set ‖ block
    @inlinable public var set: UInt32 { word(4) }
    /// p ‖ set ‖ block
    @inlinable public var block: UInt32 { word(8) }
    /// p ‖ set ‖ block: project and set as one number.
    @inlinable public var projectAndSet: UInt64 { longWord(0) }
    /// p ‖ u8 kind ‖ number
    @inlinable public var freeNumber: UInt32 { word(5) }
    /// p ‖ ~day ‖ app number: days since 1970-01-01, UTC.
    @inlinable public var day: UInt32 { ~word(4) }
    /// p ‖ ~day ‖ app number
    @inlinable public var dayApp: AppNumber { AppNumber(word(8)) }

    // MARK: Rows of `due`

    /// u8 kind ‖ u64 ms ‖ …
    @inlinable public var dueTime: Instant {
        Instant(millisecondsSince1970: Int64(bitPattern: longWord(1)))
    }
    /// u8 kind ‖ u64 ms ‖ p ‖ id
    @inlinable public var dueProject: ProjectNumber { ProjectNumber(word(9)) }
}
