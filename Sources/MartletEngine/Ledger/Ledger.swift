// SPDX-License-Identifier: Apache-2.0
//
// What all ledgers have in common. A ledger is one noun or one rule: it looks at the rows of a transaction, and
// changes them. The ledgers that a ledger rests on are the private properties at its beginning; no ledger rests, over
// others, on itself. Rests on MartletRows.

import MartletRows

/// A view of one transaction, which a caller makes for one call.
package protocol Ledger {
    var context: LedgerContext { get }
    init(_ context: LedgerContext)
}

/// The rows of a transaction, and what is remembered between its calls.
package struct LedgerContext {
    let rows: Rows
    let setChanges: SetChanges
    /// nil: the transaction does not write.
    let settlings: Settlings?
    /// nil: the transaction does not write.
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

    /// The first row whose key is not below `key`, with a cursor that later searches use again. The
    /// bytes live until the next search in the table.
    func seek(_ table: Table, _ key: Key) throws(StorageError) -> Cursor.Entry? {
        guard let tally else { return try Cursor(raw, table).seek(key) }
        if let held = tally.cursors[table] { return try held.cursor.seek(key) }
        let held = HeldCursor(try Cursor(raw, table))
        tally.cursors[table] = held
        return try held.cursor.seek(key)
    }

    /// Puts a row that is its project's last one. Those of the project with the highest number are the
    /// table's last ones as well.
    func putLast(
        _ table: Table, _ key: Key, _ bytes: [UInt8]
    ) throws(StorageError) {
        if mayAppend(table) {
            if try raw.append(table, key, bytes) { return }
            tally?.notAppended.insert(table)
        }
        try raw.put(table, key, bytes)
    }

    /// Puts a row that is its project's last one.
    /// - Parameter bytes: not those of a row.
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

    /// Deletes every row whose key begins with `prefix`.
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
