// SPDX-License-Identifier: Apache-2.0
//
// Settling an instance writes down what the mailbox rules decide about its log. A discard moves the log's start past the
// discarded messages; replaced and expired ones lose their place in it. After that only stored entries matter, so no row need
// be kept for another's sake. Settling may stop anywhere: an entry that is left over changes nothing for the stored ones.
// Rests on Outcomes and the replay.

import MartletBase
import MartletRows

/// Writes down what the mailbox rules decide about a log.
package struct Settling: Ledger {
    package let context: LedgerContext
    private var connections: ConnectionLedger { ConnectionLedger(context) }
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var notices: Notices { Notices(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Settles a log in one transaction.
    /// - Returns: how many log entries were looked at.
    func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, now: Instant, limits: BrokerLimits
    ) throws(StorageError) -> Int {
        var rows = Int.max
        _ = try settle(ordinal, in: project, now: now, limits: limits, rows: &rows)
        return Int.max - rows
    }

    /// Settles the entries that a connection skipped when it read the mailbox, as of the time in `skipped`.
    func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, _ skipped: Acknowledgement.Skipped,
        limits: BrokerLimits
    ) throws(StorageError) {
        var rows = Int.max
        _ = try settle(
            ordinal, in: project, now: skipped.at, limits: limits, through: skipped.through,
            rows: &rows)
    }

    /// Settles a log, beginning where an earlier transaction stopped.
    /// - Parameters:
    ///   - through: entries behind this sequence are ignored.
    ///   - rows: how many entries may be looked at; reduced by those that were.
    ///   - needed: called with the fanouts stored for the instance, each once over all calls.
    /// - Returns: whether settling is complete.
    func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, now: Instant, limits: BrokerLimits,
        through last: MessageSequence = MessageSequence(.max), rows: inout Int,
        needed: ((LogRow) -> Void)? = nil
    ) throws(StorageError) -> Bool {
        let earlier = settlings?.take(ordinal, in: project, isCollecting: needed != nil)
        guard let instance = try instances.instance(ordinal, in: project),
            let owner = try log.owner(instance, in: project),
            try raw.get(.mailboxes, .ordinal(ordinal, in: project)) != nil
        else { return true }
        try connections.endLost(of: ordinal, in: project, now: now)
        var state = try mailboxes.state(of: ordinal, in: project)
        var settling = SettlingProgress(
            instance, in: project, state, limits: limits, isCollecting: needed != nil)
        if let earlier, earlier.holder == instance.holder, last.rawValue == .max {
            settling = earlier
        }
        if !settling.isRead {
            guard try read(settling, of: owner, through: last, rows: &rows) else {
                settlings?.keep(settling)
                return false
            }
            if let overflow = settling.replay.overflow, overflow.through > state.discardedThrough {
                if settling.isResumed, settling.state != state {
                    // The mailbox has changed since we read the log: other messages may be discarded now, and the device
                    // may have been told. Start over.
                    settling = SettlingProgress(
                        instance, in: project, state, limits: limits,
                        isCollecting: needed != nil)
                    var all = Int.max
                    _ = try read(settling, of: owner, through: last, rows: &all)
                    rows -= Int.max - all
                }
                try writeOverflow(of: settling, to: &state, now: now)
            }
            settling.isRead = true
        }
        guard try finish(settling, state, now: now, rows: &rows, needed: needed) else {
            settlings?.keep(settling)
            return false
        }
        try mailboxes.removeIdleMarks(of: ordinal, in: project, through: state.logStart)
        return true
    }

    /// - Returns: whether the end of the log was reached.
    private func read(
        _ settling: SettlingProgress, of owner: MailboxOwner, through last: MessageSequence,
        rows: inout Int
    ) throws(StorageError) -> Bool {
        var read: [LoggedRow] = []
        let scan = try log.forEachLoggedRow(
            for: owner, after: settling.readThrough, rowsMax: max(rows, 1)
        ) { row in
            guard row.entry.sequence <= last else { return }
            settling.replay.add(row.entry)
            read.append(row)
        }
        settling.add(read)
        switch scan {
        case .end(let count):
            rows -= count
            return true
        case .paused(let through):
            rows = 0
            invariant(through >= settling.readThrough, "A log is read forward.")
            settling.readThrough = through
            return false
        }
    }

    private func writeOverflow(
        of settling: SettlingProgress, to state: inout MailboxState, now: Instant
    ) throws(StorageError) {
        guard let overflow = settling.replay.overflow, overflow.through > state.discardedThrough
        else { return }
        let (before, project) = (state, settling.project)
        try settling.forEachRow(through: overflow.through) { (row) throws(StorageError) in
            var isOpen = row.entry.sequence > before.acknowledged[row.entry.lane]
            if isOpen, settling.isResumed {
                isOpen = try isThere(row, of: settling.ordinal, in: project)
            }
            guard isOpen else { return }
            try outcomes.countDropped(row, settling.replay, for: settling.taker, now: now)
        }
        state.discardedThrough = overflow.through
        state.discardedCount = overflow.count
        state.noticeStreamID = try notices.streamIDOfDiscards(in: project)
        try mailboxes.put(state, after: before, of: settling.ordinal, in: project)
        try mailboxes.removeIdleMarks(
            of: settling.ordinal, in: settling.project, through: state.logStart)
    }

    /// Handles the rows that were read.
    /// - Returns: whether all rows were handled.
    private func finish(
        _ settling: SettlingProgress, _ state: MailboxState, now: Instant, rows: inout Int,
        needed: ((LogRow) -> Void)?
    ) throws(StorageError) -> Bool {
        let (ordinal, project) = (settling.ordinal, settling.project)
        var isFirst = true
        while rows > 0 || isFirst {
            guard let row = settling.next() else { return true }
            isFirst = false
            rows -= 1
            let entry = row.entry
            if settling.isResumed, try !isThere(row, of: ordinal, in: project) { continue }
            let isBehind = entry.sequence <= state.logStart
            let isStored = settling.replay.isStored(entry, at: now)
            if !isBehind, isStored {
                if !row.isDirect { needed?(row.row) }
                continue
            }
            let key = Key.inbox(ordinal, entry.sequence, in: project)
            var isMarked = false
            if settling.isResumed { isMarked = try raw.get(.acknowledged, key) != nil }
            // A fanout's expiry has counted the outcomes of all recipients.
            if !row.isDirect, entry.expires <= now, try isOver(row.row, in: project) { continue }
            if !isBehind, !isMarked, entry.sequence > state.acknowledged[entry.lane] {
                try outcomes.countDropped(row, settling.replay, for: settling.taker, now: now)
            }
            if row.isDirect {
                try messages.removeInboxRow(ordinal, row.row, in: project)
            } else if !isBehind, !isMarked {
                try raw.put(.acknowledged, key, [1])
            }
        }
        return false
    }

    /// Whether a message's expiry was handled.
    private func isOver(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let bytes = try raw.get(.messages, .log(row, in: project)) else { return true }
        return try MessageRecord(bytes).flags.contains(.isExpired)
    }

    /// Whether a row that an earlier transaction read is still there.
    private func isThere(
        _ row: LoggedRow, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        row.isDirect
            ? try raw.get(.inbox, .inbox(ordinal, row.entry.sequence, in: project)) != nil
            : try raw.get(.recipients, .log(row.row, in: project)) != nil
    }
}
