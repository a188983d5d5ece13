// SPDX-License-Identifier: Apache-2.0
//
// A table that the present format does not have. Rests on CLMDB.

internal import CLMDB
import MartletEngine
import MartletRows

struct FormerTable {
    private let name: String
    private let handle: MDB_dbi

    /// nil: the environment has no table of the name.
    init?(named name: String, in environment: Environment) throws {
        let open = try environment.beginWrite()
        var handle: MDB_dbi = 0
        let code = mdb_dbi_open(open.transaction, name, 0, &handle)
        guard code == 0 else {
            environment.abort(open)
            if code == MDB_NOTFOUND { return nil }
            throw failure("open table \(name)", code)
        }
        // A handle outlives a transaction that is committed.
        try environment.commit(open)
        (self.name, self.handle) = (name, handle)
    }

    /// Removes the first rows of the table, and hands them out.
    /// - Returns: the number of rows.
    func takeFirst(
        _ rowsMax: Int, of rows: any RowTransaction,
        _ body: ([UInt8], [UInt8]) throws(StorageError) -> Void
    ) throws(StorageError) -> Int {
        let transaction = (rows as! LMDBTransaction).transaction
        var opened: OpaquePointer?
        try check(mdb_cursor_open(transaction, handle, &opened), "cursor \(name)")
        defer { mdb_cursor_close(opened) }
        for count in 0..<rowsMax {
            var key = MDB_val()
            var value = MDB_val()
            let code = mdb_cursor_get(opened, &key, &value, MDB_FIRST)
            if code == MDB_NOTFOUND { return count }
            try check(code, "read \(name)")
            let row = (Self.bytes(key), Self.bytes(value))
            try check(mdb_cursor_del(opened, 0), "delete \(name)")
            try body(row.0, row.1)
        }
        return rowsMax
    }

    func rowCount(of rows: any RowTransaction) -> Int {
        var statistics = MDB_stat()
        mdb_stat((rows as! LMDBTransaction).transaction, handle, &statistics)
        return statistics.ms_entries
    }

    func drop(in rows: any RowTransaction) throws(StorageError) {
        try check(mdb_drop((rows as! LMDBTransaction).transaction, handle, 1), "drop \(name)")
    }

    private static func bytes(_ value: MDB_val) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: value.mv_data, count: value.mv_size))
    }
}
