// SPDX-License-Identifier: Apache-2.0
//
// The place in the journal that a transaction of the data file belongs to. Each transaction with a record writes it
// beside the names of the tables, whose page every transaction writes anyway. So data file and journal are compared
// when a folder is opened: a folder whose files are not of one time, or whose journal has lost its end, is refused
// instead of being served as if nothing was missing.
//
// A record is on disk before LMDB writes the page with its mark. Whatever a crash leaves, no mark that belongs to its meta
// page is therefore beyond the journal's last record. Rests on CLMDB.

internal import CLMDB
import MartletBase
import MartletRows

/// The journal, and the number of its record.
struct JournalMark: Equatable {
    /// No table has this name.
    static let key = Array("journal mark".utf8)
    static let byteCount = 24
    /// LMDB's tree of all tables by their names.
    private static let mainTree: MDB_dbi = 1

    /// The seed of the journal's checksums, which no two journals share.
    var seed: UInt64
    var number: UInt64
    /// LMDB's number of the transaction. A page that a failed transaction has left has another one than the meta page that
    /// leads to it.
    var transaction: UInt64

    init(seed: UInt64, number: UInt64, transaction: UInt64) {
        self.seed = seed
        self.number = number
        self.transaction = transaction
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        seed = bytes.withUnsafeBytes { $0.loadLittleEndian(UInt64.self, at: 0) }
        number = bytes.withUnsafeBytes { $0.loadLittleEndian(UInt64.self, at: 8) }
        transaction = bytes.withUnsafeBytes { $0.loadLittleEndian(UInt64.self, at: 16) }
    }

    func write(in transaction: OpaquePointer) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(seed)
        writer.append(number)
        writer.append(self.transaction)
        let code = Self.withKey { key in
            writer.bytes.withUnsafeMutableBytes { bytes in
                var value = MDB_val(mv_size: bytes.count, mv_data: bytes.baseAddress)
                return mdb_put(transaction, Self.mainTree, &key, &value, 0)
            }
        }
        try check(code, "write the journal's mark")
    }

    static func remove(in transaction: OpaquePointer) throws(StorageError) {
        let code = withKey { key in mdb_del(transaction, mainTree, &key, nil) }
        if code != MDB_NOTFOUND { try check(code, "remove the journal's mark") }
    }

    private static func withKey(_ body: (inout MDB_val) -> Int32) -> Int32 {
        var bytes = key
        return bytes.withUnsafeMutableBytes { bytes in
            var key = MDB_val(mv_size: bytes.count, mv_data: bytes.baseAddress)
            return body(&key)
        }
    }
}
