// SPDX-License-Identifier: Apache-2.0
//
// Rows of stored messages. Each has one record. If its recipients are few, they have a row each in the inbox; if they
// are many, they are in one blob. Rests on the rows.

package import MartletBase
import MartletBits
package import MartletRows

/// The rows of stored messages and their recipients.
package struct MessageLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// Deletes an instance's inbox rows up to `through`.
    /// - Returns: how many were deleted.
    @discardableResult
    func removeInbox(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence, isTaken: Bool
    ) throws(StorageError) -> Int {
        let rows = try inboxRows(of: ordinal, in: project, through: through)
        for row in rows { try removeInboxRow(ordinal, row, in: project, isTaken: isTaken) }
        return rows.count
    }

    private func inboxRows(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) -> [LogRow] {
        let prefix = Key.ordinal(ordinal, in: project)
        let cursor = try Cursor(raw, .inbox)
        var found = try cursor.seek(prefix)
        var rows: [LogRow] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let sequence = entry.key.instanceSequence
            guard sequence <= through else { break }
            rows.append(InboxRow.row(sequence, entry.value))
            found = try cursor.next()
        }
        return rows
    }

    /// Lets a message expire now, so whoever hasn't got it doesn't get it.
    /// - Returns: false if there is no such message, or it had expired before.
    package func expire(
        _ sequence: MessageSequence, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> Bool {
        let key = Key.log(LogRow(sequence), in: project)
        guard let found = try raw.get(.messages, key) else { return false }
        let record = try MessageRecord(found)
        let expires = try record.expires()
        guard expires > now else { return false }
        let bytes = try record.dropped(expiring: now)
        try raw.put(.messages, key, bytes)
        if !record.isInLine {
            try raw.delete(.due, .due(.expiry, expires, project, sequence.rawValue))
        }
        try raw.put(.due, .due(.expiry, now, project, sequence.rawValue), [])
        return true
    }

    /// Deletes an inbox row, and the message with its last one.
    /// - Parameter isTaken: whether the instance has acknowledged the message.
    func removeInboxRow(
        _ ordinal: Ordinal, _ row: LogRow, in project: ProjectNumber, isTaken: Bool = false
    ) throws(StorageError) {
        try raw.deleteFound(.inbox, .inbox(ordinal, row.sequence, in: project))
        let key = Key.log(row, in: project)
        guard let found = try raw.get(.messages, key) else { return }
        let record = try MessageRecord(found)
        if record.ownerCount > 1 {
            try raw.put(.messages, key, try record.bytes(without: ordinal, isTaken: isTaken))
        } else {
            try removeMessage(row, record, in: project)
        }
    }

    /// Deletes all rows of a message except inbox rows.
    /// - Parameter isUnmarked: whether the message is known to have no row in `live`.
    func removeMessage(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, isUnmarked: Bool = false
    ) throws(StorageError) {
        let key = Key.log(row, in: project)
        if !record.isInLine, !record.flags.contains(.isExpired) {
            try raw.delete(
                .due, .due(row.dueKind, try record.expires(), project, row.sequence.rawValue))
        }
        if record.hasReport {
            let message = ReportTally.Message(project: project, sequence: row.sequence)
            tally?.left[message] = ReportRow(of: record, row.sequence)
        }
        if record.flags.contains(.hasNumber) {
            let number = try record.rest(row.sequence).number
            try raw.delete(.numbers, .number(number, in: project))
        }
        if record.flags.contains(.hasBlob) {
            try raw.delete(.recipients, key)
            if !isUnmarked { try raw.delete(.live, key) }
        }
        try raw.deleteFound(.messages, key)
    }

    /// Calls `body` with a message, in the form for a platform.
    /// - Returns: false if the message is gone, or has no form for the platform.
    package func withMessage(
        _ sequence: MessageSequence, on platform: Platform, in project: ProjectNumber,
        _ body: (borrowing PendingMessage) -> Void
    ) throws(StorageError) -> Bool {
        guard let found = try raw.get(.messages, .log(LogRow(sequence), in: project)) else {
            return false
        }
        let record = try MessageRecord(found)
        guard !record.flags.contains(.isDropped), let variant = try record.variant(on: platform)
        else { return false }
        body(try record.pending(sequence, variant))
        return true
    }

    /// Calls `body` with the members of a message's blob. Small values are copied, because a view needs more alignment
    /// than LMDB gives them.
    func withRecipients(
        of row: LogRow, in project: ProjectNumber,
        _ body: (RecipientSetView) throws(StorageError) -> Void
    ) throws(StorageError) {
        guard let blob = try raw.get(.recipients, .log(row, in: project)) else {
            throw StorageError(
                operation: "read recipients", code: 0,
                text: "a message has none; run 'martlet check'", isFull: false)
        }
        if let view = RecipientSetView(validating: blob) { return try body(view) }
        guard let copy = RecipientSet(copying: blob) else {
            throw RecordReader(blob, of: .recipients).damaged()
        }
        try body(copy.view)
        withExtendedLifetime(copy) {}
    }

    /// A message's sequence; nil if it is gone. It differs from the number if the message waited before it was sent.
    package func sequence(
        ofNumber number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        if let found = try raw.get(.numbers, .number(number, in: project)) {
            var reader = RecordReader(found, of: .numbers)
            return MessageSequence(try reader.read(UInt64.self))
        }
        let sequence = MessageSequence(number)
        guard let found = try raw.get(.messages, .log(LogRow(sequence), in: project)),
            try !MessageRecord(found).flags.contains(.hasNumber)
        else { return nil }
        return sequence
    }
}

/// Up to so many recipients a message has inbox rows, above it a blob. A row costs about 0.3 µs and 235 bytes to write;
/// a blob costs a look by every recipient that reconnects.
let inboxRecipientsMax = 64

extension LogRow {
    var dueKind: DueKind { isDiscarded ? .discarded : .expiry }
}
