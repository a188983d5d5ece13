// SPDX-License-Identifier: Apache-2.0
//
// Stored messages. A message lies here once. Who it is for lies either in the inbox, a row per
// recipient, where they are few, or in one immutable blob where they are many. What an instance has
// acknowledged is in its row of `mailboxes`, and single sequences above. What is stored for an
// instance is worked out on reading. Rests on Schema.

public import MartletBase
import MartletBits
public import MartletRows

/// From how many recipients on a message gets a blob instead of inbox rows. A row costs about
/// 0.3 µs and 235 bytes to write; a blob costs every recipient that reconnects a look into it.
let inboxRecipientsMax = 64

extension Transaction {
    /// Keeps a message for its recipients until it is acknowledged, collapsed, discarded or expires.
    public borrowing func append(
        _ message: StoredMessage, recipients: Recipients, in project: ProjectNumber
    ) throws(StorageError) {
        if case .one(let ordinal) = recipients, let variant = message.variants.first,
            message.variants.count == 1, variant.collapse != .none
        {
            try dropReplaced(by: message, for: ordinal, in: project)
        }
        let expires = message.variants.reduce(Instant(millisecondsSince1970: .min)) {
            max($0, $1.expires)
        }
        var hasReport = false
        if case .one = recipients { hasReport = takeOpenReport(of: message.sequence, in: project) }
        try append(
            LogRow(message.sequence), accepted: message.accepted, expires: expires,
            recipients: recipients, in: project
        ) { owners, isInLine, flags in
            MessageRecord.bytes(
                of: message, owners: owners, isInLine: isInLine, hasReport: hasReport, flags: flags)
        }
        if message.number != message.sequence.rawValue, recipients.count > 0 {
            var writer = RecordWriter()
            writer.append(message.sequence.rawValue)
            try raw.put(.numbers, .number(message.number, in: project), writer.bytes)
        }
    }

    /// STO-2: keeps in mind who a message was discarded for, until `expires`.
    public borrowing func appendDiscarded(
        _ sequence: MessageSequence, accepted: Instant, expires: Instant, recipients: Recipients,
        in project: ProjectNumber
    ) throws(StorageError) {
        let record = StoredMessage(
            sequence: sequence, number: sequence.rawValue, accepted: accepted, kind: .token,
            from: "", wantsReceipts: false,
            variants: [
                MessageVariant(
                    platforms: .all, expires: expires, priority: .normal, collapse: .none, body: [])
            ])
        try append(
            LogRow(sequence, isDiscarded: true), accepted: accepted, expires: expires,
            recipients: recipients, in: project
        ) { owners, isInLine, flags in
            MessageRecord.bytes(
                of: record, owners: owners, isInLine: isInLine, flags: flags.union(.isDiscarded))
        }
    }

    private borrowing func append(
        _ row: LogRow, accepted: Instant, expires: Instant, recipients: Recipients,
        in project: ProjectNumber,
        _ record: (_ owners: [Ordinal], _ isInLine: Bool, MessageRecord.Flags) -> [UInt8]
    ) throws(StorageError) {
        let key = Key.log(row, in: project)
        guard recipients.count > 0 else { return }
        var isInLine = false
        if !row.isDiscarded {
            isInLine = try joinLine(row.sequence, expires: expires, in: project)
        }
        let value = row.isDiscarded ? InboxRow.discarded : InboxRow.message
        switch recipients {
        case .one(let ordinal):
            let bytes = record([ordinal], isInLine, [])
            try putLast(.messages, key, bytes)
            let digest = bytes.withUnsafeBytes { MessageRecord.onlyDigest($0) }
            try raw.put(
                .inbox, .inbox(ordinal, row.sequence, in: project),
                digest.map { InboxRow.collapsible($0) } ?? value)
        case .many(let set) where set.count <= inboxRecipientsMax:
            var ordinals: [Ordinal] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
            }
            try putLast(.messages, key, record(ordinals, isInLine, []))
            for ordinal in ordinals {
                try raw.put(.inbox, .inbox(ordinal, row.sequence, in: project), value)
            }
        case .many(let set):
            try putLast(.messages, key, record([], isInLine, .hasBlob))
            try putLast(.recipients, key, set.bytes)
            noteBlob(of: set.bytes.count, in: project, now: accepted)
        }
        if !isInLine {
            try raw.put(.due, .due(row.dueKind, expires, project, row.sequence.rawValue), [])
        }
    }

    /// Nobody gets the message any more who has not got it: as if it expired now.
    /// - Returns: false if there is no such message.
    public borrowing func expire(
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

    /// Deletes an inbox row, and the message if that was its last one.
    /// - Parameter isTaken: because it was acknowledged.
    borrowing func removeInboxRow(
        _ ordinal: Ordinal, _ row: LogRow, in project: ProjectNumber, isTaken: Bool = false
    ) throws(StorageError) {
        try raw.delete(.inbox, .inbox(ordinal, row.sequence, in: project))
        let key = Key.log(row, in: project)
        guard let found = try raw.get(.messages, key) else { return }
        let record = try MessageRecord(found)
        if record.ownerCount > 1 {
            try raw.put(.messages, key, try record.bytes(without: ordinal, isTaken: isTaken))
        } else {
            try removeMessage(row, record, in: project)
        }
    }

    /// Deletes a message's rows but those in the inbox.
    borrowing func removeMessage(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber
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
            try raw.delete(.live, key)
        }
        try raw.delete(.messages, key)
    }
}

extension LogRow {
    var dueKind: DueKind { isDiscarded ? .discarded : .expiry }
}
