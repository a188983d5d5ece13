// SPDX-License-Identifier: Apache-2.0
//
// The end of a message's time (TTL-3), or of its discarded recipients' notice. An expired message loses its bodies at
// once. Its other rows go as soon as they cannot matter for what is left: where recipients are few by settling them,
// where they are many by the project's collection of fanouts. Rests on Settling and Collecting.

import MartletBase
import MartletBits
import MartletRows

/// Removes expired messages, and counts the instances that did not get them.
package struct Expiring: Ledger {
    package let context: LedgerContext
    private var collecting: Collecting { Collecting(context) }
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var recipients: RecipientLedger { RecipientLedger(context) }
    private var reports: ReportLedger { ReportLedger(context) }
    private var settling: Settling { Settling(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Instances of which a look counts as one row of a step.
    private static let ordinalsPerRow = 64

    /// A message to many is over: whoever has not got it does not get it.
    /// - Returns: whether everybody was looked at.
    func close(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits, rows: inout Int
    ) throws(StorageError) -> Bool {
        guard tally != nil, try reports.isPending(row.sequence, in: project) else { return true }
        let mayBeDropped = try mayBeDropped(row, record, in: project, limits: limits)
        let key = Key.sequence(row.sequence, in: project)
        let from = try raw.get(.closings, key)?.loadLittleEndian(UInt32.self, at: 0) ?? 0
        var next: UInt32?
        var left = rows
        try messages.withRecipients(of: row, in: project) { (view) throws(StorageError) in
            var index = view.index(ofBlockFrom: from)
            while index < view.blockCount, left > 0 {
                let ordinals = view.ordinals(ofBlockAt: index)
                let open = try recipients.waiting(
                    for: row.sequence, record, among: ordinals, in: project)
                for ordinal in open {
                    left -= try close(
                        row, record, for: ordinal, mayBeDropped: mayBeDropped, in: project,
                        now: now, limits: limits)
                }
                left -= 1 + ordinals.count / Self.ordinalsPerRow
                index += 1
            }
            if index < view.blockCount { next = view.block(at: index).block }
        }
        rows = left
        guard let next else {
            try raw.delete(.closings, key)
            return true
        }
        var writer = RecordWriter()
        writer.append(next)
        try raw.put(.closings, key, writer.bytes)
        return false
    }

    /// - Returns: how many entries of the instance's log were looked at.
    private func close(
        _ row: LogRow, _ record: MessageRecord, for ordinal: Ordinal, mayBeDropped: Bool,
        in project: ProjectNumber, now: Instant, limits: MailboxLimits
    ) throws(StorageError) -> Int {
        guard let instance = try instances.instance(ordinal, in: project),
            let owner = try log.owner(instance, in: project),
            let variant = try record.variant(on: instance.platform)
        else { return 0 }
        var event = try outcomes.ending(
            of: record, row.sequence, expires: variant.expires, in: project)
        var looked = 0
        if mayBeDropped {
            let state = try mailboxes.state(of: ordinal, in: project)
            let (rows, replay) = try outcomes.read(owner, state, limits: limits)
            looked = rows.count
            if let logged = rows.first(where: { $0.row == row }) {
                event =
                    try outcomes.outcome(of: logged, replay, for: ordinal, in: project, now: now)
                    ?? event
            }
        }
        reports.count(
            event, of: row.sequence, accepted: record.accepted, for: ordinal, of: instance.app,
            in: project)
        return looked
    }

    /// How many messages are looked through to find that nobody's mailbox need be.
    private static let droppedLookup = 1024

    /// Whether a rule may have taken a message from anybody: others came that may have replaced it, or
    /// pushed it out (COL-1, COL-3), or there are more than may be stored (STO-1).
    private func mayBeDropped(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        let isCollapsible = try record.variants().contains { $0.collapse != .none }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(prefix)
        var looked = 0
        var plainCount = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            looked += 1
            guard looked <= Self.droppedLookup else { return true }
            let other = LogRow(entry.key)
            found = try cursor.next()
            guard !other.isDiscarded else { continue }
            let variants = try MessageRecord(entry.value).variants()
            if variants.contains(where: { $0.collapse == .none }) { plainCount += 1 }
            if limits.storedPerInstanceMax > 0, plainCount > limits.storedPerInstanceMax {
                return true
            }
            if isCollapsible, other.sequence > row.sequence,
                variants.contains(where: { $0.collapse != .none })
            {
                return true
            }
        }
        return false
    }

    /// Deletes a row of the log for everybody.
    /// - Returns: how many inbox rows it had.
    func forget(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> Int {
        guard let found = try raw.get(.messages, .log(row, in: project)) else { return 0 }
        let owners = try MessageRecord(found).owners()
        for owner in owners {
            try raw.delete(.inbox, .inbox(owner, row.sequence, in: project))
        }
        if let found = try raw.get(.messages, .log(row, in: project)) {
            try messages.removeMessage(row, try MessageRecord(found), in: project)
        }
        return owners.count
    }

    /// TTL-3: a message has expired for everybody.
    /// - Returns: whether all of its recipients were looked at.
    func expire(
        _ row: LogRow, in project: ProjectNumber, now: Instant, limits: MailboxLimits,
        rows: inout Int
    ) throws(StorageError) -> Bool {
        let key = Key.log(row, in: project)
        guard let found = try raw.get(.messages, key) else { return true }
        let record = try MessageRecord(found)
        if !record.flags.contains(.hasBlob) {
            rows -= try expireFew(row, record, in: project, now: now, limits: limits)
            return true
        }
        guard try close(row, record, in: project, now: now, limits: limits, rows: &rows)
        else { return false }
        if try isHarmless(
            row, try self.record(row, in: project), in: project, now: now, limits: limits)
        {
            rows -= try forget(row, in: project)
            return true
        }
        let closed = try self.record(row, in: project).dropped(expiring: nil, .isExpired)
        try raw.put(.messages, key, closed)
        let blob = try raw.get(.recipients, key)?.count ?? 0
        collecting.noteBlob(of: blob, in: project, now: now)
        return true
    }

    /// - Returns: how many rows were looked at.
    private func expireFew(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError) -> Int {
        let owners = try record.owners()
        if record.flags.contains(.isDropped) {
            // Replaced, if it was for one; that is what its row in the inbox says then.
            tally?.cancelled.insert(
                ReportTally.Message(project: project, sequence: row.sequence))
        }
        let bytes = try record.dropped(expiring: nil, .isExpired)
        try raw.put(.messages, .log(row, in: project), bytes)
        var rows = 0
        for owner in owners {
            rows += try settling.settle(owner, in: project, now: now, limits: limits)
        }
        // Who is on no platform of it has no entry of it.
        return try rows + forget(row, in: project)
    }

    private func record(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> MessageRecord {
        guard let found = try raw.get(.messages, .log(row, in: project)) else {
            throw StorageError(
                operation: "read messages", code: 0,
                text: "a message is missing; run 'martlet check'", isFull: false)
        }
        return try MessageRecord(found)
    }

    /// How many messages are looked through to find that an expired one cannot matter.
    private static let harmlessLookup = 1024

    /// Whether an expired message can go without anybody's log being looked at: the project has so few
    /// messages that are not collapsible that nobody's can have been discarded (STO-1), and, if it
    /// is collapsible itself, nothing is left that it could have replaced or pushed out (COL-1, COL-3).
    private func isHarmless(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        let isCollapsible = try record.variants().contains { $0.collapse != .none }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(prefix)
        var looked = 0
        var plainCount = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            looked += 1
            guard looked <= Self.harmlessLookup else { return false }
            let other = LogRow(entry.key)
            if !other.isDiscarded {
                let record = try MessageRecord(entry.value)
                let (flags, variants) = (record.flags, try record.variants())
                if variants.contains(where: { $0.collapse == .none }) { plainCount += 1 }
                // One whose time is over is seen to after this: what became of it is asked then.
                if isCollapsible, other.sequence < row.sequence,
                    !flags.contains(.isExpired),
                    variants.contains(where: { $0.collapse != .none })
                {
                    return false
                }
            }
            if limits.storedPerInstanceMax > 0, plainCount > limits.storedPerInstanceMax {
                return false
            }
            found = try cursor.next()
        }
        return true
    }
}
