// SPDX-License-Identifier: Apache-2.0
//
// What all ledgers have in common. A ledger knows a noun or a rule, and reads and changes a transaction's rows. The
// private properties at its top are the ledgers that it uses; there are no cycles. Rests on MartletRows.

import MartletBase
import MartletRows

/// A view of a transaction, made for a single call.
package protocol Ledger {
    var context: LedgerContext { get }
    init(_ context: LedgerContext)
}

/// A transaction's rows, and the memory that its ledgers share.
package struct LedgerContext {
    let rows: Rows
    let setChanges: SetChanges
    /// nil in a reading transaction.
    let settlings: Settlings?
    /// nil in a reading transaction.
    let tally: ReportTally?

    init(
        _ rows: Rows, _ setChanges: SetChanges, _ settlings: Settlings? = nil,
        _ tally: ReportTally? = nil
    ) {
        self.rows = rows
        self.setChanges = setChanges
        self.settlings = settlings
        self.tally = tally
    }
}

extension Ledger {
    var raw: Rows { context.rows }
    var tally: ReportTally? { context.tally }
    var settlings: Settlings? { context.settlings }

    /// The first row from `key` on. The transaction keeps the cursor for later searches. The bytes are valid until the
    /// next search in the table.
    func seek(_ table: Table, _ key: Key) throws(StorageError) -> Cursor.Entry? {
        guard let tally else { return try Cursor(raw, table).seek(key) }
        if let held = tally.cursors[table] { return try held.cursor.seek(key) }
        let held = HeldCursor(try Cursor(raw, table))
        tally.cursors[table] = held
        return try held.cursor.seek(key)
    }

    /// Puts the last row of its project. If no project has a higher number, it is the table's last, and the store
    /// appends it without a search.
    func putLast(
        _ table: Table, _ key: Key, _ bytes: [UInt8]
    ) throws(StorageError) {
        if mayAppend(table) {
            if try raw.append(table, key, bytes) { return }
            tally?.notAppended.insert(table)
        }
        try raw.put(table, key, bytes)
    }

    /// Puts the last row of its project.
    /// - Parameter bytes: must not lie in a row.
    func putLast(
        _ table: Table, _ key: Key, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) {
        if mayAppend(table) {
            if try raw.append(table, key, bytes) { return }
            tally?.notAppended.insert(table)
        }
        try raw.put(table, key, bytes)
    }

    private func mayAppend(_ table: Table) -> Bool {
        tally.map { !$0.notAppended.contains(table) } ?? false
    }

    /// Deletes all rows whose keys begin with `prefix`.
    func deleteAll(_ table: Table, under prefix: Key) throws(StorageError) {
        invariant(prefix.count >= 4, "Rows deleted together belong to one project.")
        for key in try keys(table, under: prefix) { try raw.deleteFound(table, key) }
    }

    /// Copies of the keys that begin with `prefix`.
    func keys(_ table: Table, under prefix: Key) throws(StorageError) -> [Key] {
        let cursor = try Cursor(raw, table)
        var found = try cursor.seek(prefix)
        var keys: [Key] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            keys.append(Key(bytes: Array(entry.key)))
            found = try cursor.next()
        }
        return keys
    }
}

extension StorageError {
    /// Two rows contradict each other: the disk is at fault, or the broker that wrote them.
    static func contradiction(_ table: Table, _ text: String) -> StorageError {
        StorageError(
            operation: "read \(table.name)", code: 0, text: "\(text); run 'martlet check'",
            isFull: false)
    }
}

extension UInt64 {
    /// The count when a row is deleted.
    /// - Throws: `StorageError` if the count is 0 although `table` has a row.
    func less(_ removed: UInt64 = 1, in table: Table) throws(StorageError) -> UInt64 {
        guard self >= removed else {
            throw .contradiction(table, "fewer rows are counted than there are")
        }
        return self - removed
    }
}
