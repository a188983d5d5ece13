// SPDX-License-Identifier: Apache-2.0
//
// Messages, their recipients and acknowledgements. If all recipients of a message to few have unregistered, it has no
// inbox row any more, which is valid. A message to many keeps its blob. Rests on Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    mutating func checkMessages() throws(StorageError) {
        let number = project.number
        let line = try expiryLine()
        var lastInLine: Instant?
        try forEachRow(of: .messages, keyBytes: 12...13) { (it, entry) throws(StorageError) in
            let row = LogRow(entry.key)
            let sequence = row.sequence
            it.report.counts.messages += 1
            if sequence == .none || sequence > it.project.lastSequence {
                it.note(.messageSequence, "message \(sequence.rawValue) was never issued")
            }
            let record: MessageRecord
            do throws(StorageError) {
                record = try MessageRecord(entry.value)
                if try record.rest(sequence).number != sequence.rawValue {
                    try it.checkNumber(of: sequence, try record.rest(sequence).number)
                }
            } catch {
                try it.noteDamage(error, in: number)
                return
            }
            let blob = try it.raw.get(.recipients, .log(row, in: number))
            if (blob != nil) != record.flags.contains(.hasBlob) {
                it.note(
                    .recipients,
                    "message \(sequence.rawValue) " + (blob == nil ? "has no blob" : "has a blob"))
            }
            if let blob { it.check(blob, of: sequence) }
            try it.checkOwners(of: row, try record.owners())
            if let line, record.isInLine, !record.flags.contains(.isExpired) {
                let expires = try record.expires()
                if sequence < line.first || expires < line.due || expires > line.last
                    || lastInLine.map({ expires < $0 }) ?? false
                {
                    it.note(.due, "message \(sequence.rawValue) is not in its place of the line")
                }
                lastInLine = expires
            }
            try it.expectDue(row.dueKind, entry)
        }
        try forEachRow(of: .recipients, keyBytes: 12...13) { (it, entry) throws(StorageError) in
            let row = LogRow(entry.key)
            if try it.raw.get(.messages, .log(row, in: number)) == nil {
                it.note(.recipients, "a blob has no message \(row.sequence.rawValue)")
            }
        }
    }

    private mutating func expiryLine() throws(StorageError) -> ExpiryLineRow? {
        do throws(StorageError) {
            let line = try transaction.expiryLines.line(of: project.number)
            try expectDue(.expiryLine, [], "the expiry line")
            return line
        } catch {
            try noteDamage(error, in: project.number)
            return nil
        }
    }

    private mutating func checkNumber(
        of sequence: MessageSequence, _ number: UInt64
    ) throws(StorageError) {
        let found = try raw.get(.numbers, .number(number, in: project.number))
        if found?.count != 8 || found?.loadLittleEndian(UInt64.self, at: 0) != sequence.rawValue {
            note(.messageNumber, "number \(number) does not lead to message \(sequence.rawValue)")
        }
    }

    /// Checks that each recipient in the record has an inbox row. `checkInbox` checks the other direction.
    private mutating func checkOwners(
        of row: LogRow, _ owners: [Ordinal]
    ) throws(StorageError) {
        for owner in owners {
            let key = Key.inbox(owner, row.sequence, in: project.number)
            guard let value = try raw.get(.inbox, key),
                InboxRow.row(row.sequence, value) == row
            else {
                note(
                    .inbox,
                    "ordinal \(owner.rawValue) has no row for message \(row.sequence.rawValue)")
                continue
            }
        }
    }

    private mutating func check(_ blob: UnsafeRawBufferPointer, of sequence: MessageSequence) {
        // Copied, because the map aligns values to two bytes only, and the validation needs more.
        guard let set = RecipientSet(copying: blob), isInOrder(set.view) else {
            note(.recipients, "the blob of message \(sequence.rawValue) is damaged")
            return
        }
        report.counts.recipients += set.count
    }

    /// Whether each block has as many members as it says, in ascending order, and all were issued.
    private func isInOrder(_ view: RecipientSetView) -> Bool {
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            var previous = -1
            var members = 0
            var isAscending = true
            block.view.forEachBit { bit in
                isAscending = isAscending && bit > previous
                previous = bit
                members += 1
            }
            let last = Ordinal(block: block.block, bit: max(previous, 0))
            guard isAscending, members == block.count, previous < BlockGeometry.bitsPerBlock,
                last < project.nextOrdinal
            else { return false }
        }
        return true
    }

    mutating func checkInbox() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .inbox, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            let sequence = entry.key.instanceSequence
            let row = InboxRow.row(sequence, entry.value)
            it.report.counts.recipients += 1
            guard it.universe.contains(ordinal) else {
                it.note(.inbox, "ordinal \(ordinal) is not registered")
                return
            }
            let found = try it.raw.get(.messages, .log(row, in: number))
            // An unreadable record was reported before.
            let owners = found.map { (try? MessageRecord($0).owners()) ?? [Ordinal(ordinal)] }
            if owners?.contains(Ordinal(ordinal)) != true {
                it.note(.inbox, "ordinal \(ordinal) waits for no message \(sequence.rawValue)")
            }
        }
    }

    mutating func checkMailboxes() throws(StorageError) {
        let number = project.number
        let last = project.lastSequence
        var count: UInt64 = 0
        try forEachRow(of: .mailboxes, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            guard it.universe.contains(ordinal) else {
                it.note(.mailbox, "ordinal \(ordinal) is not registered")
                return
            }
            count += 1
            let state: MailboxState
            do throws(StorageError) {
                state = try MailboxRow.state(entry.value)
            } catch {
                try it.noteDamage(error, in: number)
                return
            }
            if state.acknowledged.highest > last || state.discardedThrough > last {
                it.note(.mailbox, "ordinal \(ordinal) is past the last message \(last.rawValue)")
            }
            if state.noticeStreamID > last {
                it.note(
                    .mailbox,
                    "the notice of ordinal \(ordinal) is behind the last message \(last.rawValue)")
            }
            if state.awayFrom > last {
                it.note(
                    .mailbox, "ordinal \(ordinal) left behind the last message \(last.rawValue)")
            }
            try it.expectDue(.seen, entry)
        }
        try forEachRow(of: .connections, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            if !it.universe.contains(ordinal) {
                it.note(.mailbox, "ordinal \(ordinal) has a connection but is not registered")
            }
            if entry.value.count != ConnectionRow.byteCount {
                it.note(.damagedRecord, "connections: a value of \(entry.value.count) bytes")
            }
        }
        if count < universe.count {
            note(.mailbox, "\(universe.count - count) instances have no mailbox")
        }
    }

    mutating func checkAcknowledgements() throws(StorageError) {
        let number = project.number
        let last = project.lastSequence
        try forEachRow(of: .acknowledged, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal
            let sequence = entry.key.instanceSequence.rawValue
            guard it.universe.contains(ordinal.rawValue) else {
                it.note(.acknowledgement, "ordinal \(ordinal.rawValue) is not registered")
                return
            }
            let start: MessageSequence
            do throws(StorageError) {
                start = try it.transaction.mailboxes.state(of: ordinal, in: number).logStart
            } catch {
                // Reported by the check of the mailboxes.
                guard error.code == 0 else { throw error }
                return
            }
            if sequence <= start.rawValue || sequence > last.rawValue {
                it.note(
                    .acknowledgement,
                    """
                    ordinal \(ordinal.rawValue) acknowledged \(sequence), with its log from \
                    \(start.rawValue) and the last message \(last.rawValue)
                    """)
            }
        }
    }
}
