// SPDX-License-Identifier: Apache-2.0
//
// The calls of LMDB behind the store. Returned bytes are borrowed from the map and valid until the next write or
// the end of the transaction; code that keeps or changes bytes must copy them first. A key that a cursor returned
// is never handed to a put, because such a put corrupts the tree (observed with LMDB 0.9.24). Rests on CLMDB and
// MartletRows.

internal import CLMDB
import MartletRows

/// An open transaction, reading or writing. `Environment` and `Store` own and end the transaction. One thread at a
/// time uses the transaction; an idle reader rests in the environment.
final class LMDBTransaction: RowTransaction, @unchecked Sendable {
    let transaction: OpaquePointer
    /// The handle of the first table. The handles of the other tables follow in the order of `Table.rawValue`.
    private let firstHandle: MDB_dbi
    /// The changes noted for the journal; nil without a journal or in a reading transaction.
    private let changes: UnsafeMutablePointer<ChangeBuffer>?
    /// Added to LMDB's number of the transaction.
    private let numberOffset: UInt64

    init(
        _ transaction: OpaquePointer, firstHandle: MDB_dbi,
        changes: UnsafeMutablePointer<ChangeBuffer>? = nil, numberOffset: UInt64 = 0
    ) {
        self.transaction = transaction
        self.firstHandle = firstHandle
        self.changes = changes
        self.numberOffset = numberOffset
    }

    private func handle(_ table: Table) -> MDB_dbi { firstHandle + MDB_dbi(table.rawValue) }

    var number: UInt64 { numberOffset + UInt64(mdb_txn_id(transaction)) }

    func get(
        _ table: Table, _ key: UnsafeRawBufferPointer
    ) throws(StorageError) -> UnsafeRawBufferPointer? {
        var found = MDB_val(key)
        var value = MDB_val()
        let code = mdb_get(transaction, handle(table), &found, &value)
        if code == MDB_NOTFOUND { return nil }
        try check(code, "get \(table.name)")
        return UnsafeRawBufferPointer(value)
    }

    func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) throws(StorageError) {
        try check(code(ofPut: table, key, value, 0), "put \(table.name)")
    }

    func append(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) throws(StorageError) -> Bool {
        let code = code(ofPut: table, key, value, UInt32(MDB_APPEND))
        if code == MDB_KEYEXIST { return false }
        try check(code, "append \(table.name)")
        return true
    }

    private func code(
        ofPut table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ flags: UInt32
    ) -> Int32 {
        var found = MDB_val(key)
        var bytes = MDB_val(value)
        let code = mdb_put(transaction, handle(table), &found, &bytes, flags)
        if code == 0 { changes?.pointee.notePut(table, key, value) }
        return code
    }

    func delete(_ table: Table, _ key: UnsafeRawBufferPointer) throws(StorageError) -> Bool {
        var found = MDB_val(key)
        let code = mdb_del(transaction, handle(table), &found, nil)
        if code == MDB_NOTFOUND { return false }
        try check(code, "delete \(table.name)")
        changes?.pointee.noteDelete(table, key)
        return true
    }

    func rowCount(_ table: Table) -> Int {
        var statistics = MDB_stat()
        mdb_stat(transaction, handle(table), &statistics)
        return statistics.ms_entries
    }

    // MARK: Cursors

    func openCursor(_ table: Table) throws(StorageError) -> CursorHandle {
        var opened: OpaquePointer?
        try check(mdb_cursor_open(transaction, handle(table), &opened), "cursor \(table.name)")
        return CursorHandle(UnsafeMutableRawPointer(opened!))
    }

    func close(_ cursor: CursorHandle) { mdb_cursor_close(OpaquePointer(cursor.pointer)) }

    private func table(of cursor: CursorHandle) -> Table {
        Table(rawValue: Int(mdb_cursor_dbi(OpaquePointer(cursor.pointer)) - firstHandle))!
    }

    func move(
        _ cursor: CursorHandle, _ movement: CursorMovement, _ key: UnsafeRawBufferPointer?
    ) throws(StorageError) -> RowEntry? {
        var found = key.map { MDB_val($0) } ?? MDB_val()
        var value = MDB_val()
        let code = mdb_cursor_get(
            OpaquePointer(cursor.pointer), &found, &value, movement.operation)
        if code == MDB_NOTFOUND { return nil }
        try check(code, "read \(table(of: cursor).name)")
        return (RowKey(UnsafeRawBufferPointer(found)), UnsafeRawBufferPointer(value))
    }
}

extension CursorMovement {
    fileprivate var operation: MDB_cursor_op {
        switch self {
        case .to: MDB_SET
        case .from: MDB_SET_RANGE
        case .next: MDB_NEXT
        case .previous: MDB_PREV
        case .last: MDB_LAST
        }
    }
}

extension MDB_val {
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(
            mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    }
}

extension UnsafeRawBufferPointer {
    fileprivate init(_ value: MDB_val) { self.init(start: value.mv_data, count: value.mv_size) }
}
