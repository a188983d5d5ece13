// SPDX-License-Identifier: Apache-2.0
//
// Work that is due at a time. Each kind's rows are in the order of their times. Rests on the rows.

import MartletBase
import MartletRows

/// Rows of the table `due`.
package struct DueLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// A kind's first row, if it isn't after `last`.
    func next(
        _ kind: DueKind, through last: Instant
    ) throws(StorageError) -> DueRow? {
        let prefix = Key(bytes: [kind.rawValue])
        let cursor = try Cursor(raw, .due)
        guard let entry = try cursor.seek(prefix), prefix.isPrefix(of: entry.key) else {
            return nil
        }
        guard entry.key.count >= 13 else { throw RecordReader(entry.key.bytes, of: .due).damaged() }
        guard entry.key.dueTime.millisecondsSince1970 <= max(last.millisecondsSince1970, 0) else {
            return nil
        }
        return DueRow(
            time: entry.key.dueTime,
            project: entry.key.dueProject,
            id: Array(entry.key.dropFirst(13)))
    }

    func remove(_ row: DueRow, _ kind: DueKind) throws(StorageError) {
        try raw.delete(.due, .due(kind, row.time, row.project, row.id))
    }
}

/// A row of the table `due`.
struct DueRow {
    let time: Instant
    let project: ProjectNumber
    let id: [UInt8]

    /// The id, of four or eight bytes, as a number.
    var number: UInt64 { id.reduce(0) { $0 << 8 | UInt64($1) } }
}
