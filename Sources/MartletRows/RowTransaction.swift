// SPDX-License-Identifier: Apache-2.0
//
// The port between the engine and a store: rows of bytes, in the order of their keys. `MartletStore` keeps the rows
// in LMDB. Tests keep the rows in memory. Rests on Schema.

import Glibc
import MartletBase

/// A snapshot of all tables, or the writing transaction.
package protocol RowTransaction: AnyObject {
    /// A number that rises with every transaction that writes.
    var number: UInt64 { get }

    /// The value of a key. The bytes are valid until the next change, at most until the end of the transaction.
    func get(
        _ table: Table, _ key: UnsafeRawBufferPointer
    ) throws(StorageError) -> UnsafeRawBufferPointer?
    /// - Parameter value: must not lie in a row. The bytes are copied.
    func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) throws(StorageError)
    /// Puts a row if its key is above all keys of the table.
    /// - Returns: false if the key is not above them; then the table is unchanged.
    func append(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) throws(StorageError) -> Bool
    /// - Returns: whether the key had a row.
    func delete(_ table: Table, _ key: UnsafeRawBufferPointer) throws(StorageError) -> Bool
    func rowCount(_ table: Table) -> Int

    func openCursor(_ table: Table) throws(StorageError) -> CursorHandle
    /// - Parameter key: the key for `.to` and `.from`; nil for the other movements.
    /// - Returns: the row at the cursor's new position; nil if there is none.
    func move(
        _ cursor: CursorHandle, _ movement: CursorMovement, _ key: UnsafeRawBufferPointer?
    ) throws(StorageError) -> RowEntry?
    func close(_ cursor: CursorHandle)
}

/// A row, borrowed until the next change.
package typealias RowEntry = (key: RowKey, value: UnsafeRawBufferPointer)

/// A cursor's identity for the transaction that opened the cursor.
package struct CursorHandle {
    package let pointer: UnsafeMutableRawPointer
    package init(_ pointer: UnsafeMutableRawPointer) { self.pointer = pointer }
}

/// The movements of a cursor.
package enum CursorMovement {
    /// The row with a key.
    case to
    /// The first row whose key is not below a key.
    case from
    case next, previous, last
}

/// Access to the rows of a transaction by `Key`.
package struct Rows {
    package let transaction: any RowTransaction

    package init(_ transaction: any RowTransaction) { self.transaction = transaction }

    package var number: UInt64 { transaction.number }

    package func get(
        _ table: Table, _ key: Key
    ) throws(StorageError) -> UnsafeRawBufferPointer? {
        try key.withBytes { (bytes) throws(StorageError) in try transaction.get(table, bytes) }
    }

    package func put(_ table: Table, _ key: Key, _ bytes: [UInt8]) throws(StorageError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            try put(table, key, UnsafeRawBufferPointer(bytes))
        }
    }

    /// - Parameter bytes: must not lie in a row.
    package func put(
        _ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) {
        try key.withBytes { (found) throws(StorageError) in
            try transaction.put(table, found, bytes)
        }
    }

    /// Puts a row whose key is probably the last of its table. If the key is the last, nothing is searched, and the
    /// store fills pages to their ends instead of to the half.
    /// - Returns: false if the key is not the last; then the table is unchanged.
    package func append(
        _ table: Table, _ key: Key, _ bytes: [UInt8]
    ) throws(StorageError) -> Bool {
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            try append(table, key, UnsafeRawBufferPointer(bytes))
        }
    }

    /// - Parameter bytes: must not lie in a row.
    package func append(
        _ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> Bool {
        try key.withBytes { (found) throws(StorageError) in
            try transaction.append(table, found, bytes)
        }
    }

    /// - Returns: whether the key had a row.
    @discardableResult
    package func delete(_ table: Table, _ key: Key) throws(StorageError) -> Bool {
        try key.withBytes { (found) throws(StorageError) in
            try transaction.delete(table, found)
        }
    }

    /// Deletes a row that the transaction has found.
    package func deleteFound(_ table: Table, _ key: Key) throws(StorageError) {
        let wasThere = try delete(table, key)
        invariant(wasThere, "A row that a transaction has found stays until its deletion.")
    }
    package func entryCount(_ table: Table) -> Int { transaction.rowCount(table) }
}

/// A position in a table.
package struct Cursor: ~Copyable {
    private let transaction: any RowTransaction
    private let handle: CursorHandle

    package init(_ rows: Rows, _ table: Table) throws(StorageError) {
        transaction = rows.transaction
        handle = try transaction.openCursor(table)
    }

    deinit { transaction.close(handle) }

    package typealias Entry = RowEntry

    /// The first entry whose key is not below `key`.
    package borrowing func seek(_ key: Key) throws(StorageError) -> Entry? {
        try key.withBytes { (bytes) throws(StorageError) in
            try transaction.move(handle, .from, bytes)
        }
    }

    /// The value of a key. Cheaper than `get` if the key is near the cursor's last position.
    package borrowing func value(of key: Key) throws(StorageError) -> UnsafeRawBufferPointer? {
        try key.withBytes { (bytes) throws(StorageError) in
            try transaction.move(handle, .to, bytes)?.value
        }
    }

    package borrowing func next() throws(StorageError) -> Entry? {
        try transaction.move(handle, .next, nil)
    }

    package borrowing func previous() throws(StorageError) -> Entry? {
        try transaction.move(handle, .previous, nil)
    }

    package borrowing func last() throws(StorageError) -> Entry? {
        try transaction.move(handle, .last, nil)
    }

    /// The last entry whose key is below `key`.
    package borrowing func seekLast(below key: Key) throws(StorageError) -> Entry? {
        try seek(key) == nil ? last() : previous()
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the bytes are equal to those of `other`.
    package func hasBytes(of other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count, let start = baseAddress else { return count == other.count }
        return memcmp(start, other.baseAddress!, count) == 0
    }
}

extension Key {
    /// Whether `other` begins with this key.
    package func isPrefix(of other: RowKey) -> Bool {
        guard other.count >= count, let start = other.bytes.baseAddress else { return count == 0 }
        return withBytes { $0.isEmpty || memcmp($0.baseAddress!, start, $0.count) == 0 }
    }
}
