// SPDX-License-Identifier: Apache-2.0
//
// A message expires (TTL-3), or the notice to recipients that it was discarded for. Its bodies go at once. Its other rows go
// as soon as they can't matter to other messages any more: with few recipients by settling them, with many in the project's
// collection of fanouts. Rests on Settling and Collecting.

import MartletBase
import MartletBits
import MartletRows

/// Removes expired messages, and counts who didn't get them.
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

    /// Checking so many instances costs as much as one row of a step.
    private static let ordinalsPerRow = 64

    /// Counts the outcomes of recipients that did not take an expired fanout, in bounded steps.
    /// - Returns: whether all recipients were looked at.
    func close(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: BrokerLimits, rows: inout Int
    ) throws(StorageError) -> Bool {
        guard tally != nil, try reports.isPending(row.sequence, in: project) else { return true }
        let mayBeDropped = try mayBeDropped(row, record, in: project, limits: limits)
        let from = try reports.closedBlockCount(of: row.sequence, in: project)
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
            try reports.removeClosing(of: row.sequence, in: project)
            return true
        }
        invariant(next >= from, "The closing of a fanout goes forward.")
        try reports.putClosing(of: row.sequence, below: next, in: project)
        return false
    }

    /// - Returns: how many log entries were looked at.
    private func close(
        _ row: LogRow, _ record: MessageRecord, for ordinal: Ordinal, mayBeDropped: Bool,
        in project: ProjectNumber, now: Instant, limits: BrokerLimits
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

    /// Whether a rule may have dropped a message from some log: a later one may have replaced it or pushed it out (COL-1,
    /// COL-3), or the project has more messages than an instance may store (STO-1).
    private func mayBeDropped(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, limits: BrokerLimits
    ) throws(StorageError) -> Bool {
        try !isAlone(record, in: project, limits: limits) { other, _ in
            other.sequence > row.sequence
        }
    }

    /// Deletes a row of the log for all instances.
    /// - Returns: how many inbox rows were deleted.
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

    /// Handles a message's expiry (TTL-3).
    /// - Returns: whether all recipients were looked at.
    func expire(
        _ row: LogRow, in project: ProjectNumber, now: Instant, limits: BrokerLimits,
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
            row, try self.record(row, in: project), in: project, limits: limits)
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
        limits: BrokerLimits
    ) throws(StorageError) -> Int {
        let owners = try record.owners()
        if record.flags.contains(.isDropped) {
            // A dropped message was cancelled, or another one replaced it for its only recipient. In that case its
            // inbox row says so.
            tally?.cancelled.insert(
                ReportTally.Message(project: project, sequence: row.sequence))
        }
        let bytes = try record.dropped(expiring: nil, .isExpired)
        try raw.put(.messages, .log(row, in: project), bytes)
        var rows = 0
        for owner in owners {
            rows += try settling.settle(owner, in: project, now: now, limits: limits)
        }
        // An instance on a platform without a variant has no entry, so settling leaves its inbox row to `forget`.
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

    /// Whether an expired message can be deleted without reading a log. The project must have so few messages without a
    /// collapse key that no mailbox can have overflowed (STO-1), and if the message is collapsible, there must be no earlier
    /// collapsible one that it could have replaced or pushed out (COL-1, COL-3).
    private func isHarmless(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, limits: BrokerLimits
    ) throws(StorageError) -> Bool {
        try isAlone(record, in: project, limits: limits) { other, earlier in
            // An earlier message's outcome is open until its own expiry is handled, even if its time is over.
            other.sequence < row.sequence && !earlier.flags.contains(.isExpired)
        }
    }

    /// Most messages that `isAlone` looks at. Past that, the message is taken to have rivals.
    private static let rivalLookup = 1024

    /// Whether no mailbox rule can have tied a message's outcome to another message: the project has no more messages
    /// without a collapse key than an instance may store (STO-1), and a collapsible one has no rival (COL-1, COL-3).
    private func isAlone(
        _ record: MessageRecord, in project: ProjectNumber, limits: BrokerLimits,
        beside isRival: (LogRow, MessageRecord) -> Bool
    ) throws(StorageError) -> Bool {
        let isReplaceable = try record.variants().contains(where: \.collapse.isReplaceable)
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(prefix)
        var looked = 0
        var plainCount = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            looked += 1
            guard looked <= Self.rivalLookup else { return false }
            let other = LogRow(entry.key)
            if !other.isDiscarded {
                let otherRecord = try MessageRecord(entry.value)
                let variants = try otherRecord.variants()
                if variants.contains(where: { !$0.collapse.isCollapsible }) { plainCount += 1 }
                if limits.storedPerInstanceMax > 0, plainCount > limits.storedPerInstanceMax {
                    return false
                }
                if isReplaceable, isRival(other, otherRecord),
                    variants.contains(where: \.collapse.isReplaceable)
                {
                    return false
                }
            }
            found = try cursor.next()
        }
        return true
    }
}
