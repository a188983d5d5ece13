// SPDX-License-Identifier: Apache-2.0
//
// The common part of all ledgers. A ledger knows a noun or a rule, and reads and changes the rows of a transaction.
// The private properties at the beginning of a ledger are the ledgers below it. The dependencies between ledgers have
// no cycles. Rests on MartletRows.

import MartletRows

/// A view of a transaction. A caller makes a ledger for a single call.
package protocol Ledger {
    var context: LedgerContext { get }
    init(_ context: LedgerContext)
}

/// The rows of a transaction, and the memory shared by the ledgers of the transaction.
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

    /// The first row whose key is not below `key`. The transaction keeps the cursor for later searches. The bytes are
    /// valid until the next search in the table.
    func seek(_ table: Table, _ key: Key) throws(StorageError) -> Cursor.Entry? {
        guard let tally else { return try Cursor(raw, table).seek(key) }
        if let held = tally.cursors[table] { return try held.cursor.seek(key) }
        let held = HeldCursor(try Cursor(raw, table))
        tally.cursors[table] = held
        return try held.cursor.seek(key)
    }

    /// Puts the last row of its project. For the project with the highest number the row is also the last of the
    /// table, so the store can append it without a search.
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
        for key in try keys(table, under: prefix) { try raw.delete(table, key) }
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
