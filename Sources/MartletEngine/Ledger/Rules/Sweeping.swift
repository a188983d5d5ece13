// SPDX-License-Identifier: Apache-2.0
//
// Work that is due at a time, in bounded steps: instances become inactive, messages and upstream messages expire, and
// answers, receipts and used tickets are forgotten. Rests on Expiring and Collecting.

package import MartletBase
package import MartletRows

/// Does the work that is due.
package struct Sweeping: Ledger {
    package let context: LedgerContext
    private var sets: SetLedger { SetLedger(context) }
    private var answers: AnswerLedger { AnswerLedger(context) }
    private var apps: AppLedger { AppLedger(context) }
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var registrations: RegistrationLedger { RegistrationLedger(context) }
    private var collecting: Collecting { Collecting(context) }
    private var connections: ConnectionLedger { ConnectionLedger(context) }
    private var dueRows: DueLedger { DueLedger(context) }
    private var expiring: Expiring { Expiring(context) }
    private var expiryLines: ExpiryLines { ExpiryLines(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var receipts: ReceiptLedger { ReceiptLedger(context) }
    private var reports: ReportLedger { ReportLedger(context) }
    private var settling: Settling { Settling(context) }
    private var upstream: UpstreamLedger { UpstreamLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Does one bounded step of the due work, and deletes rows that no longer matter: instances become inactive,
    /// messages expire, answers and receipts are forgotten. Scheduled messages are left to the engine.
    /// - Returns: whether more work is due at `now`.
    package func sweep(
        now: Instant, limits: BrokerLimits, rowsMax: Int
    ) throws(StorageError) -> Bool {
        invariant(rowsMax > 0, "A step of due work may look at a row.")
        var rows = rowsMax
        try sweepSeen(now: now, limits: limits, rows: &rows)
        while rows > 0, let due = try dueRows.next(.answer, through: now) {
            try answers.remove(AnswerDigest(bytes: due.id), in: due.project)
            try dueRows.remove(due, .answer)
            rows -= 1
        }
        while rows > 0, let due = try dueRows.next(.ticket, through: now) {
            try registrations.forget(ticket: due.id, in: due.project)
            try dueRows.remove(due, .ticket)
            rows -= 1
        }
        try sweepDeletedApps(now: now, limits: limits, rows: &rows)
        while rows > 0, let due = try dueRows.next(.receiptsWanted, through: now) {
            try raw.delete(.receiptsWanted, .number(due.number, in: due.project))
            try dueRows.remove(due, .receiptsWanted)
            rows -= 1
        }
        while rows > 0, let due = try dueRows.next(.receiptsTold, through: now) {
            var key = Key(due.project)
            key.append(name: due.id)
            try raw.delete(.receiptsTold, key)
            try dueRows.remove(due, .receiptsTold)
            rows -= 1
        }
        while rows > 0, let due = try dueRows.next(.receiptsTaken, through: now) {
            rows -= try 1 + receipts.deleteTaken(in: due.project, rowsMax: rows)
        }
        while rows > 0, let due = try dueRows.next(.upstream, through: now) {
            _ = try upstream.remove(due.number, in: due.project)
            try dueRows.remove(due, .upstream)
            rows -= 1
        }
        while rows > 0, let due = try dueRows.next(.upstreamIDs, through: now) {
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            try dueRows.remove(due, .upstreamIDs)
            try upstream.forgetIDs(of: ordinal, in: due.project, now: now)
            rows -= 1
        }
        while rows > 0, let due = try dueRows.next(.discarded, through: now) {
            let row = LogRow(MessageSequence(due.number), isDiscarded: true)
            rows -= try 1 + expiring.forget(row, in: due.project)
            try dueRows.remove(due, .discarded)
        }
        try expiryLines.sweep(now: now, rows: &rows) {
            (row, project, rows) throws(StorageError) in
            try expiring.expire(row, in: project, now: now, limits: limits, rows: &rows)
        }
        while rows > 0, let due = try dueRows.next(.expiry, through: now) {
            rows -= 1
            let row = LogRow(MessageSequence(due.number))
            if try expiring.expire(row, in: due.project, now: now, limits: limits, rows: &rows) {
                try dueRows.remove(due, .expiry)
            }
        }
        while rows > 0, let due = try dueRows.next(.settlement, through: now) {
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            rows -= 1
            let isDone = try settling.settle(
                ordinal, in: due.project, now: now, limits: limits, rows: &rows)
            if isDone { try dueRows.remove(due, .settlement) }
        }
        while rows > 0, let due = try dueRows.next(.collection, through: now) {
            try collecting.collect(due.project, now: now, limits: limits, rows: &rows)
        }
        try reports.sweep(now: now, limits: limits, rows: &rows)
        invariant(rows <= rowsMax, "A step of due work counts the rows that it looks at.")
        return rows <= 0
    }

    /// Whether an instance is due to become inactive (STO-2).
    package func isInactivityDue(
        now: Instant, limits: BrokerLimits
    ) throws(StorageError) -> Bool {
        guard let last = Self.lastSeen(now: now, limits: limits) else { return false }
        return try dueRows.next(.seen, through: last) != nil
    }

    /// Who was last seen then, or earlier, is inactive at `now`; nil if nobody can be.
    private static func lastSeen(now: Instant, limits: BrokerLimits) -> Instant? {
        guard limits.inactiveSeconds > 0 else { return nil }
        let last = Instant(
            millisecondsSince1970: now.millisecondsSince1970 - 1
                - Int64(limits.inactiveSeconds) * 1000)
        return last.millisecondsSince1970 >= 0 ? last : nil
    }

    /// Frees the numbers of apps that no daily counts can name any more (REG-8).
    private func sweepDeletedApps(
        now: Instant, limits: BrokerLimits, rows: inout Int
    ) throws(StorageError) {
        guard limits.reportDaysMax > 0 else { return }
        // A day more, because the last day's counts begin before the deletion.
        let last = now.advanced(bySeconds: -Int64(limits.reportDaysMax + 1) * 86_400)
        guard last.millisecondsSince1970 > 0 else { return }
        while rows > 0, let due = try dueRows.next(.deletedApp, through: last) {
            let app = AppNumber(UInt32(truncatingIfNeeded: due.number))
            try apps.forget(app, in: due.project)
            try instances.putFree(app.rawValue, .app, in: due.project)
            try dueRows.remove(due, .deletedApp)
            rows -= 1
        }
    }

    private func sweepSeen(
        now: Instant, limits: BrokerLimits, rows: inout Int
    ) throws(StorageError) {
        guard let last = Self.lastSeen(now: now, limits: limits) else { return }
        var ordinals: [ProjectNumber: [UInt32]] = [:]
        while rows > 0, let due = try dueRows.next(.seen, through: last) {
            rows -= 1
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            if try connections.endLost(of: ordinal, in: due.project, now: now) {
                continue
            }
            // It is still connected, however old the last report of that is.
            if try mailboxes.isConnected(ordinal, in: due.project) {
                try mailboxes.see(ordinal, in: due.project, at: now)
                continue
            }
            ordinals[due.project, default: []].append(ordinal.rawValue)
            try dueRows.remove(due, .seen)
        }
        for (project, found) in ordinals {
            _ = try sets.add(found.sorted(), to: .inactive, in: project)
        }
    }
}
