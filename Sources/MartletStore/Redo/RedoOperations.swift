// SPDX-License-Identifier: Apache-2.0
//
// The changes of a transaction as operations that lead from the state before the transaction to the state after it.
// Each row of the store occurs in one operation at most. All deletions stand at the end, so a copy finds its source
// also if the transaction deletes the source. Rests on the tables of MartletRows.
//
//   operation  u8 kind ‖ u8 table ‖ u16 bytes of the key ‖ key ‖ what the kind adds
//   put        u32 bytes ‖ value
//   delete     nothing
//   xor        u32 bytes ‖ the former value xor the value
//   copy       u8 table ‖ u16 bytes of the key ‖ key: the row that has the value

import Glibc
import MartletBase
import MartletRows

/// The kinds of operations.
enum RedoKind: UInt8 {
    /// The row gets a value.
    case put = 1
    /// The row is deleted.
    case delete = 2
    /// The row gets a value of the former value's length. Equal bytes are zeros, which take hardly any room once the
    /// operations are packed.
    case xor = 3
    /// The row gets the value of another row.
    case copy = 4
}

/// Operations under construction.
struct RedoWriter {
    private(set) var bytes: [UInt8] = []

    private mutating func append(_ kind: RedoKind, _ table: Table, _ key: UnsafeRawBufferPointer) {
        bytes.append(kind.rawValue)
        append(table, key)
    }

    private mutating func append(_ table: Table, _ key: UnsafeRawBufferPointer) {
        invariant(key.count <= Int(UInt16.max), "A key of an operation has 16 bits of length.")
        bytes.append(UInt8(table.rawValue))
        bytes.append(littleEndian: UInt16(key.count))
        bytes.append(contentsOf: key)
    }

    private mutating func append(byteCount: Int) {
        invariant(byteCount <= Int(UInt32.max), "A value of an operation has 32 bits of length.")
        bytes.append(littleEndian: UInt32(byteCount))
    }

    mutating func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        append(.put, table, key)
        append(byteCount: value.count)
        bytes.append(contentsOf: value)
    }

    mutating func delete(_ table: Table, _ key: UnsafeRawBufferPointer) {
        append(.delete, table, key)
    }

    /// - Parameter former: as long as `value`.
    mutating func xor(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        former: UnsafeRawBufferPointer
    ) {
        append(.xor, table, key)
        append(byteCount: value.count)
        let start = bytes.count
        bytes.append(contentsOf: value)
        bytes.withUnsafeMutableBytes {
            UnsafeMutableRawBufferPointer(rebasing: $0[start...]).formXor(former)
        }
    }

    mutating func copy(
        _ table: Table, _ key: UnsafeRawBufferPointer, from source: Table,
        _ sourceKey: UnsafeRawBufferPointer
    ) {
        append(.copy, table, key)
        append(source, sourceKey)
    }
}

/// Repeats operations in a writing transaction.
struct RedoReader {
    /// Tables whose newest rows mostly have the highest keys. The engine appends such rows, so that the store fills
    /// pages to their ends; a store that repeats the operations does likewise and has files of equal size.
    private static let appendedTables: Set<Table> = [.messages, .recipients, .reports]

    private let rows: any RowTransaction
    /// Called with each project of which a set is changed, before the change.
    private let changesSet: (ProjectNumber) -> Void
    private var notAppended: Set<Table> = []
    /// A value that does not lie in a row.
    private var scratch: [UInt8] = []

    init(_ rows: any RowTransaction, changesSet: @escaping (ProjectNumber) -> Void) {
        self.rows = rows
        self.changesSet = changesSet
    }

    static var damaged: StorageError {
        StorageError(
            operation: "apply a row of the log", code: EBADMSG, text: "its operations are damaged",
            isFull: false)
    }

    /// - Throws: `StorageError` if the bytes are not operations, if they do not fit the rows of the store, or if a row
    ///   cannot be written.
    mutating func apply(_ operations: UnsafeRawBufferPointer) throws(StorageError) {
        var rest = operations
        while !rest.isEmpty {
            guard let kind = RedoKind(rawValue: try Self.take(UInt8.self, from: &rest)) else {
                throw Self.damaged
            }
            let (table, key) = try Self.takeKey(from: &rest)
            if table == .sets { try noteSet(key) }
            switch kind {
            case .put:
                let byteCount = Int(try Self.take(UInt32.self, from: &rest))
                try put(table, key, try Self.take(byteCount, from: &rest))
            case .delete:
                guard try rows.delete(table, key) else { throw Self.damaged }
            case .xor:
                let byteCount = Int(try Self.take(UInt32.self, from: &rest))
                let change = try Self.take(byteCount, from: &rest)
                guard let former = try rows.get(table, key), former.count == byteCount else {
                    throw Self.damaged
                }
                try putCopy(table, key, of: former) { $0.formXor(change) }
            case .copy:
                let (source, sourceKey) = try Self.takeKey(from: &rest)
                guard let value = try rows.get(source, sourceKey) else { throw Self.damaged }
                try putCopy(table, key, of: value) { _ in }
            }
        }
    }

    private func noteSet(_ key: UnsafeRawBufferPointer) throws(StorageError) {
        guard key.count >= 4 else { throw Self.damaged }
        changesSet(ProjectNumber(key.loadBigEndian(UInt32.self, at: 0)))
    }

    private mutating func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) throws(StorageError) {
        if Self.appendedTables.contains(table), !notAppended.contains(table) {
            if try rows.append(table, key, value) { return }
            notAppended.insert(table)
        }
        try rows.put(table, key, value)
    }

    /// Puts a value that is made of the bytes of a row.
    private mutating func putCopy(
        _ table: Table, _ key: UnsafeRawBufferPointer, of bytes: UnsafeRawBufferPointer,
        _ change: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(StorageError) {
        var value = scratch
        scratch = []
        defer { scratch = value }
        value.removeAll(keepingCapacity: true)
        value.append(contentsOf: bytes)
        value.withUnsafeMutableBytes { change($0) }
        try value.withUnsafeBufferPointer { (value) throws(StorageError) in
            try put(table, key, UnsafeRawBufferPointer(value))
        }
    }

    private static func takeKey(
        from rest: inout UnsafeRawBufferPointer
    ) throws(StorageError) -> (Table, UnsafeRawBufferPointer) {
        guard let table = Table(rawValue: Int(try take(UInt8.self, from: &rest))) else {
            throw damaged
        }
        let byteCount = Int(try take(UInt16.self, from: &rest))
        guard byteCount > 0 else { throw damaged }
        return (table, try take(byteCount, from: &rest))
    }

    private static func take<Number: FixedWidthInteger>(
        _ type: Number.Type, from rest: inout UnsafeRawBufferPointer
    ) throws(StorageError) -> Number {
        try take(MemoryLayout<Number>.size, from: &rest).loadLittleEndian(type, at: 0)
    }

    private static func take(
        _ count: Int, from rest: inout UnsafeRawBufferPointer
    ) throws(StorageError) -> UnsafeRawBufferPointer {
        guard rest.count >= count else { throw damaged }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[count...]) }
        return UnsafeRawBufferPointer(rebasing: rest[..<count])
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Changes each byte to the byte xor the byte of `other` at its place.
    fileprivate func formXor(_ other: UnsafeRawBufferPointer) {
        invariant(count == other.count, "An xor is of two values of equal length.")
        for index in indices { self[index] ^= other[index] }
    }
}
