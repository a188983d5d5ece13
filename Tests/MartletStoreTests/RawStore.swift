// SPDX-License-Identifier: Apache-2.0
//
// The rows of a closed store, read and changed by LMDB itself and past the store, for tests that damage
// a store or look at its bytes. Rests on CLMDB.

import CLMDB
import Foundation

/// Puts and deletes rows of a closed store.
struct RawStore {
    let folder: String

    /// A nil value deletes.
    func change(_ table: String, _ key: [UInt8], _ value: [UInt8]?) throws {
        try open { transaction, handle in
            key.withUnsafeBytes { key in
                var rawKey = MDB_val(
                    mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
                guard let value else { return mdb_del(transaction, handle, &rawKey, nil) }
                return value.withUnsafeBytes { value in
                    var rawValue = MDB_val(
                        mv_size: value.count,
                        mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
                    return mdb_put(transaction, handle, &rawKey, &rawValue, 0)
                }
            }
        } table: {
            table
        }
    }

    func get(_ table: String, _ key: [UInt8]) throws -> [UInt8]? {
        var found: [UInt8]?
        try open { transaction, handle in
            key.withUnsafeBytes { key in
                var rawKey = MDB_val(
                    mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
                var rawValue = MDB_val()
                let code = mdb_get(transaction, handle, &rawKey, &rawValue)
                guard code == 0 else { return code == MDB_NOTFOUND ? 0 : code }
                found = Array(
                    UnsafeRawBufferPointer(start: rawValue.mv_data, count: rawValue.mv_size))
                return 0
            }
        } table: {
            table
        }
        return found
    }

    func drop(_ table: String) throws {
        try open { transaction, handle in
            mdb_drop(transaction, handle, 1)
        } table: {
            table
        }
    }

    /// Entries of a table.
    func count(_ table: String) throws -> Int {
        var statistics = MDB_stat()
        try open { transaction, handle in
            mdb_stat(transaction, handle, &statistics)
        } table: {
            table
        }
        return statistics.ms_entries
    }

    /// Everything in it: values by the table's name and the key.
    func rows() throws -> [String: [[UInt8]: [UInt8]]] {
        func entries(_ transaction: OpaquePointer?, _ handle: MDB_dbi) -> [[UInt8]: [UInt8]] {
            var entries: [[UInt8]: [UInt8]] = [:]
            var cursor: OpaquePointer?
            guard mdb_cursor_open(transaction, handle, &cursor) == 0 else { return [:] }
            defer { mdb_cursor_close(cursor) }
            var (key, value) = (MDB_val(), MDB_val())
            while mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 {
                entries[Array(UnsafeRawBufferPointer(start: key.mv_data, count: key.mv_size))] =
                    Array(UnsafeRawBufferPointer(start: value.mv_data, count: value.mv_size))
            }
            return entries
        }
        var rows: [String: [[UInt8]: [UInt8]]] = [:]
        try open { transaction, handle in
            for name in entries(transaction, handle).keys {
                let table = String(decoding: name, as: UTF8.self)
                // A store that was not closed has a row beside its tables.
                if table == "journal mark" { continue }
                var handle: MDB_dbi = 0
                let code = mdb_dbi_open(transaction, table, 0, &handle)
                guard code == 0 else { return code }
                rows[table] = entries(transaction, handle)
            }
            return 0
        } table: {
            nil
        }
        return rows
    }

    struct Failure: Error { let code: Int32 }

    private func open(
        _ body: (OpaquePointer?, MDB_dbi) -> Int32, table: () -> String?
    ) throws {
        // The journal of a store that was closed says nothing, and would undo what is changed here.
        for name in ["journal.0", "journal.1"] { unlink(folder + "/" + name) }
        var environment: OpaquePointer?
        func check(_ code: Int32) throws { if code != 0 { throw Failure(code: code) } }
        try check(mdb_env_create(&environment))
        defer { mdb_env_close(environment) }
        try check(mdb_env_set_maxdbs(environment, 64))
        try check(mdb_env_set_mapsize(environment, 1 << 28))
        try check(mdb_env_open(environment, folder, 0, 0o600))
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, 0, &transaction))
        var handle: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, table(), 0, &handle))
        let code = body(transaction, handle)
        try check(mdb_txn_commit(transaction))
        try check(code)
    }
}

func big(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { Array($0) }
}
