// SPDX-License-Identifier: Apache-2.0
//
// Writes down what an absence discards (STO-1), before an acknowledgement changes what was stored when it began. Rests on
// Outcomes and the replay.

import MartletBase
import MartletRows

/// Ends the absences of instances.
package struct Absences: Ledger {
    package let context: LedgerContext
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var notices: Notices { Notices(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Ends an absence and writes down what it discards (STO-1). Must come before any acknowledgement that could change the
    /// stored messages.
    ///
    /// The store may not know of the connection before: the news of it went down with a follower, or with a failed commit. But
    /// a message that the device has must have come over some connection, so the absence began after it. Otherwise it might be
    /// the last discarded one, and its stream ID would count as acknowledging the notice.
    /// - Parameter taken: the last message that the device has taken, according to HELLO.
    func endAbsence(
        of ordinal: Ordinal, in project: ProjectNumber, through last: MessageSequence,
        taken: MessageSequence = .none, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        guard let instance = try instances.instance(ordinal, in: project),
            let owner = try log.owner(instance, in: project)
        else { return }
        let before = try mailboxes.state(of: ordinal, in: project)
        let has = max(taken, before.acknowledged.highest)
        var state = before
        state.awayThrough = min(state.awayThrough, last)
        state.awayFrom = max(state.awayFrom, min(has, last))
        try discard(by: state.absence, owner, instance, &state, now: now, limits: limits)
        guard mayHaveLastDiscarded(state, left: before.awayFrom, began: last, has: has) else {
            return
        }
        let numbered = state
        state.noticeStreamID = try notices.ownStreamID(in: project)
        try mailboxes.put(state, after: numbered, of: ordinal, in: project)
    }

    /// Whether a device may have the last discarded message, whose stream ID the notice has: the store discarded it before it
    /// heard of a connection, or never heard of that connection. False if the notice has its own stream ID, as it always has
    /// with several nodes.
    /// - Parameters:
    ///   - end: the end of the last known connection.
    ///   - last: the project's last message when the connection began.
    ///   - has: the last message that the device is known to have.
    private func mayHaveLastDiscarded(
        _ state: MailboxState, left end: MessageSequence, began last: MessageSequence,
        has: MessageSequence
    ) -> Bool {
        let (through, lowest) = (state.discardedThrough, state.acknowledged.lowest)
        // If all marks are past the discards, the device has the notice, or all messages up to the last discarded one.
        guard state.discardedCount > 0, state.noticeStreamID == .none, through > lowest else {
            return false
        }
        // A message from after the last known connection came over one that we don't know, and that one has told no notice.
        let hadUnknown = has > max(end, lowest)
        return last < through || hadUnknown && through > end
    }

    /// Writes down the discards of an absence (STO-1), if the absence has any.
    func discard(
        by absence: Absence, _ owner: MailboxOwner, _ instance: Instance,
        _ state: inout MailboxState, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        let (ordinal, project) = (instance.ordinal, instance.project)
        let start = state.logStart
        guard limits.storedPerInstanceMax > 0, !absence.isEmpty,
            absence.through.rawValue - min(start, absence.through).rawValue
                > UInt64(limits.storedPerInstanceMax),
            try hasPlainEntry(for: owner, behind: max(start, absence.from), absence.through),
            try mayBeTooMuch(absence, owner, instance, limits)
        else { return }
        let taker = Taker(instance)
        var replay = MailboxReplay(
            limits: limits, after: start, absence: absence,
            discarded: state.discardedCount > 0
                ? (state.discardedCount, state.discardedThrough) : nil,
            keepsUncounted: false, keepsReplaced: true)
        var rows: [LoggedRow] = []
        _ = try log.forEachLoggedRow(
            for: owner, after: start,
            rowsMax: Int(clamping: absence.through.rawValue - start.rawValue)
        ) { row in
            guard row.entry.sequence <= absence.through else { return }
            replay.add(row.entry)
            rows.append(row)
        }
        // Opaque messages silently push out the oldest (MSG-11). A later acknowledgement must not bring one back.
        for row in rows
        where row.isDirect && replay.pushedOut.contains(row.entry.sequence)
            && row.entry.sequence > replay.overflow?.through ?? .none
        {
            try outcomes.countDropped(row, replay, for: taker, now: now)
            try messages.removeInboxRow(ordinal, row.row, in: project)
        }
        guard let overflow = replay.overflow, overflow.through > state.discardedThrough else {
            let countMax = rows.count {
                $0.entry.isPlain && ($0.entry.sequence > absence.from || !$0.entry.isAcknowledged)
            }
            settlings?.carried.keep(
                CarriedCounts.Count(
                    holder: instance.holder, from: absence.from, through: absence.through,
                    countMax: countMax), of: taker)
            return
        }
        for row in rows where row.entry.sequence <= overflow.through {
            try outcomes.countDropped(row, replay, for: taker, now: now)
        }
        invariant(
            overflow.through <= absence.through, "An absence discards messages up to its end.")
        let before = state
        state.discardedThrough = overflow.through
        state.discardedCount = overflow.count
        state.noticeStreamID = try notices.streamIDOfDiscards(in: project)
        try mailboxes.put(state, after: before, of: ordinal, in: project)
        try messages.removeInbox(
            of: ordinal, in: project, through: overflow.through, isTaken: false)
        try mailboxes.removeIdleMarks(of: ordinal, in: project, through: state.logStart)
    }

    /// Brings the log's bound up to date. Returns whether it is above the limit, or unknown (STO-1).
    private func mayBeTooMuch(
        _ absence: Absence, _ owner: MailboxOwner, _ instance: Instance, _ limits: BrokerLimits
    ) throws(StorageError) -> Bool {
        let taker = Taker(instance)
        guard let settlings,
            var count = settlings.carried.count(taker, instance.holder, before: absence)
        else { return true }
        let rowsMax = Int(clamping: absence.through.rawValue - count.through.rawValue)
        if rowsMax > 0 {
            _ = try log.forEachLoggedRow(for: owner, after: count.through, rowsMax: rowsMax) {
                if $0.entry.sequence <= absence.through, $0.entry.isPlain { count.countMax += 1 }
            }
        }
        count.through = absence.through
        settlings.carried.keep(count, of: taker)
        return count.countMax > limits.storedPerInstanceMax
    }

    /// Whether a log has a message without a collapse key in a range. Mostly it has none, and then the log, which may be long,
    /// needn't be read from its start.
    private func hasPlainEntry(
        for owner: MailboxOwner, behind start: MessageSequence, _ last: MessageSequence
    ) throws(StorageError) -> Bool {
        var (isFound, after) = (false, start)
        while after < last, !isFound {
            let scan = try log.forEachLoggedRow(for: owner, after: after, rowsMax: Self.rowsPerLook)
            {
                if $0.entry.sequence <= last, $0.entry.isPlain { isFound = true }
            }
            guard case .paused(let through) = scan else { break }
            invariant(through > after, "A log is read forward.")
            after = through
        }
        return isFound
    }

    private static var rowsPerLook: Int { 64 }
}
