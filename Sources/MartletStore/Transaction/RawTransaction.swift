// SPDX-License-Identifier: Apache-2.0
//
// The few calls of LMDB that the store is made of, with Swift's types. Bytes that come back are
// borrowed from the map: they live until the next write or the transaction's end, so whoever wants
// to keep or to change them copies first. A key returned by a cursor is never handed back to a put,
// which corrupts the tree (measured with LMDB 0.9.24). Rests on CLMDB.

internal import CLMDB
import Glibc
import MartletBase
import MartletEngine

/// An open transaction of either kind. Trivial on purpose: owners stand in `Environment` and `Store`.
struct RawTransaction {
    let transaction: OpaquePointer
    /// The handle of the first table; those of the others follow in their order.
    let firstHandle: MDB_dbi
    /// Where changes are noted for the journal; nil: there is none, or nothing is written.
    var changes: UnsafeMutablePointer<ChangeBuffer>?

    func handle(_ table: Table) -> MDB_dbi { firstHandle + MDB_dbi(table.rawValue) }

    /// LMDB's number of the snapshot, or of the transaction that is being written: it rises.
    var number: UInt64 { UInt64(mdb_txn_id(transaction)) }

    func get(_ table: Table, _ key: Key) throws(StorageError) -> UnsafeRawBufferPointer? {
        var value = MDB_val()
        let code = key.withValue { found in
            mdb_get(transaction, handle(table), &found, &value)
        }
        if code == MDB_NOTFOUND { return nil }
        try check(code, "get \(table.name)")
        return UnsafeRawBufferPointer(value)
    }

    func put(_ table: Table, _ key: Key, _ bytes: [UInt8]) throws(StorageError) {
        let code: Int32 = bytes.withUnsafeBytes { self.code(ofPut: table, key, $0) }
        try check(code, "put \(table.name)")
    }

    /// `bytes` must not lie in the map.
    func put(_ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        try check(code(ofPut: table, key, bytes), "put \(table.name)")
    }

    /// Puts a row that may well be the last of its table: then pages are filled to their ends, and not to
    /// half, and nothing is searched.
    /// - Returns: whether it was the last one. If not, nothing was put.
    func append(_ table: Table, _ key: Key, _ bytes: [UInt8]) throws(StorageError) -> Bool {
        let code: Int32 = bytes.withUnsafeBytes { self.code(ofAppend: table, key, $0) }
        return try isAppended(table, code)
    }

    /// `bytes` must not lie in the map.
    func append(
        _ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> Bool {
        try isAppended(table, code(ofAppend: table, key, bytes))
    }

    private func code(
        ofAppend table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) -> Int32 { code(ofPut: table, key, bytes, UInt32(MDB_APPEND)) }

    private func isAppended(_ table: Table, _ code: Int32) throws(StorageError) -> Bool {
        if code == MDB_KEYEXIST { return false }
        try check(code, "append \(table.name)")
        return true
    }

    private func code(
        ofPut table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer, _ flags: UInt32 = 0
    ) -> Int32 {
        var value = MDB_val(
            mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
        return key.withValue { found in
            let code = mdb_put(transaction, handle(table), &found, &value, flags)
            if code == 0 { changes?.pointee.notePut(table, UnsafeRawBufferPointer(found), bytes) }
            return code
        }
    }

    /// Returns whether there was something to delete.
    @discardableResult
    func delete(_ table: Table, _ key: Key) throws(StorageError) -> Bool {
        let code = key.withValue { found in
            let code = mdb_del(transaction, handle(table), &found, nil)
            if code == 0 { changes?.pointee.noteDelete(table, UnsafeRawBufferPointer(found)) }
            return code
        }
        if code == MDB_NOTFOUND { return false }
        try check(code, "delete \(table.name)")
        return true
    }

    /// Entries of a whole table.
    func entryCount(_ table: Table) -> Int {
        var statistics = MDB_stat()
        mdb_stat(transaction, handle(table), &statistics)
        return statistics.ms_entries
    }
}

/// A position in a table.
struct Cursor: ~Copyable {
    private let cursor: OpaquePointer
    private let table: Table

    init(_ raw: RawTransaction, _ table: Table) throws(StorageError) {
        var opened: OpaquePointer?
        try check(
            mdb_cursor_open(raw.transaction, raw.handle(table), &opened),
            "cursor \(table.name)")
        cursor = opened!
        self.table = table
    }

    deinit { mdb_cursor_close(cursor) }

    typealias Entry = (key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)

    /// The first entry whose key is not below `key`.
    borrowing func seek(_ key: Key) throws(StorageError) -> Entry? {
        var value = MDB_val()
        var found = MDB_val()
        let code = key.withValue { sought in
            found = sought
            return mdb_cursor_get(cursor, &found, &value, MDB_SET_RANGE)
        }
        return try entry(code, found, value)
    }

    /// The value of one key. Costs less than `get` where the key lies near the cursor's last one.
    borrowing func value(of key: Key) throws(StorageError) -> UnsafeRawBufferPointer? {
        var value = MDB_val()
        let code = key.withValue { mdb_cursor_get(cursor, &$0, &value, MDB_SET) }
        if code == MDB_NOTFOUND { return nil }
        try check(code, "get \(table.name)")
        return UnsafeRawBufferPointer(value)
    }

    borrowing func next() throws(StorageError) -> Entry? { try step(MDB_NEXT) }
    borrowing func previous() throws(StorageError) -> Entry? { try step(MDB_PREV) }
    borrowing func last() throws(StorageError) -> Entry? { try step(MDB_LAST) }

    private borrowing func step(_ operation: MDB_cursor_op) throws(StorageError) -> Entry? {
        var found = MDB_val()
        var value = MDB_val()
        let code = mdb_cursor_get(cursor, &found, &value, operation)
        return try entry(code, found, value)
    }

    /// The last entry whose key is below `key`.
    borrowing func seekLast(below key: Key) throws(StorageError) -> Entry? {
        try seek(key) == nil ? last() : previous()
    }

    private borrowing func entry(
        _ code: Int32, _ key: MDB_val, _ value: MDB_val
    ) throws(StorageError) -> Entry? {
        if code == MDB_NOTFOUND { return nil }
        try check(code, "read \(table.name)")
        return (UnsafeRawBufferPointer(key), UnsafeRawBufferPointer(value))
    }
}

extension Key {
    /// The key as LMDB wants it, for the time of one call.
    func withValue(_ body: (inout MDB_val) -> Int32) -> Int32 {
        withBytes { buffer in
            var value = MDB_val(
                mv_size: buffer.count,
                mv_data: UnsafeMutableRawPointer(mutating: buffer.baseAddress))
            return body(&value)
        }
    }

    /// Whether `other` begins with this key.
    func isPrefix(of other: UnsafeRawBufferPointer) -> Bool {
        guard other.count >= count, let start = other.baseAddress else { return count == 0 }
        return withBytes { $0.isEmpty || memcmp($0.baseAddress!, start, $0.count) == 0 }
    }
}

extension UnsafeRawBufferPointer {
    init(_ value: MDB_val) { self.init(start: value.mv_data, count: value.mv_size) }
}
