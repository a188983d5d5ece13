// SPDX-License-Identifier: Apache-2.0
//
// What became of a log's entry (REP-1). An entry leaves the log because it is acknowledged, because a rule says so, because it
// expires, or with its instance. Whoever removes it asks here for the outcome. Rests on ReportLedger and the replay.

import MartletBase
import MartletBits
import MartletRows

/// Decides and counts the outcomes of log entries.
package struct Outcomes: Ledger {
    package let context: LedgerContext
    private var log: MailboxLog { MailboxLog(context) }
    private var reports: ReportLedger { ReportLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    func count(
        _ event: ReportEvent, of entry: LogEntry, for taker: Taker
    ) {
        reports.count(
            event, of: entry.sequence, accepted: entry.accepted, for: taker.ordinal,
            of: taker.app, in: taker.project)
    }

    /// The outcome of an entry that is no longer stored; nil if it was counted before, or is never counted.
    func outcome(
        of logged: LoggedRow, _ replay: borrowing MailboxReplay, for owner: Ordinal,
        in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> ReportEvent? {
        let entry = logged.entry
        guard !entry.isAcknowledged, entry.content != .discarded,
            let bytes = try raw.get(.messages, .log(logged.row, in: project))
        else { return nil }
        let record = try MessageRecord(bytes)
        // The fanout's expiry has counted all recipients that had not acknowledged it.
        if record.flags.contains(.hasBlob), record.flags.contains(.isExpired) { return nil }
        if replay.pushedOut.contains(entry.sequence) { return .discardedTooMany }
        if replay.replaced.contains(entry.sequence) { return .collapsed }
        if replay.isDiscarded(entry) { return .discardedTooMany }
        if logged.isDirect {
            let key = Key.inbox(owner, entry.sequence, in: project)
            if let row = try raw.get(.inbox, key), InboxRow.isReplaced(row) { return .collapsed }
        }
        guard entry.expires <= now else { return .collapsed }
        return try ending(of: record, entry.sequence, expires: entry.expires, in: project)
    }

    /// Why a message's time ended at `expires` for an instance. Cancelling ends it for all instances whose time wasn't
    /// over before.
    func ending(
        of record: MessageRecord, _ sequence: MessageSequence, expires: Instant,
        in project: ProjectNumber
    ) throws(StorageError) -> ReportEvent {
        let message = ReportTally.Message(project: project, sequence: sequence)
        var isCancelled = tally?.cancelled.contains(message) ?? false
        if !isCancelled {
            isCancelled =
                record.flags.contains(.isDropped)
                && !record.flags.contains(.isExpired)
        }
        guard isCancelled else { return .expired }
        return try expires == record.expires() ? .cancelled : .expired
    }

    /// Counts an entry that settling found dropped.
    func countDropped(
        _ logged: LoggedRow, _ replay: borrowing MailboxReplay, for taker: Taker, now: Instant
    ) throws(StorageError) {
        guard tally != nil,
            let event = try outcome(
                of: logged, replay, for: taker.ordinal, in: taker.project, now: now)
        else { return }
        if event == .expired || event == .cancelled,
            try isClosed(logged.entry.sequence, for: taker.ordinal, in: taker.project)
        {
            return
        }
        count(event, of: logged.entry, for: taker)
    }

    func read(
        _ owner: MailboxOwner, _ state: MailboxState, limits: BrokerLimits
    ) throws(StorageError) -> (rows: [LoggedRow], replay: MailboxReplay) {
        var left = Int.max
        return try read(owner, state, limits: limits, scanned: &left)
    }

    /// Reads a log, and applies the mailbox rules to it.
    /// - Parameter left: reduced by the rows looked at.
    func read(
        _ owner: MailboxOwner, _ state: MailboxState, limits: BrokerLimits,
        scanned left: inout Int
    ) throws(StorageError) -> (rows: [LoggedRow], replay: MailboxReplay) {
        var replay = MailboxReplay(
            limits: limits, state: state, keepsUncounted: false, keepsReplaced: true)
        var rows: [LoggedRow] = []
        let scan = try log.forEachLoggedRow(for: owner, after: state.logStart, rowsMax: .max) {
            row in
            replay.add(row.entry)
            rows.append(row)
        }
        if case .end(let count) = scan { left -= count + 1 }
        return (rows, replay)
    }

    /// Whether the closing of an expired fanout has already looked at an instance, and others remain.
    func isClosed(
        _ sequence: MessageSequence, for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        ordinal.blockIndex < (try reports.closedBlockCount(of: sequence, in: project))
    }
}

/// Whose log entries are counted.
struct Taker {
    let ordinal: Ordinal
    let app: AppNumber
    let platform: Platform
    let project: ProjectNumber

    init(_ instance: Instance) {
        ordinal = instance.ordinal
        app = instance.app
        platform = instance.platform
        project = instance.project
    }

    /// Reads a record of `instances`.
    init(
        _ record: UnsafeRawBufferPointer, _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        (app, platform) = try InstanceRow.app(record)
        self.ordinal = ordinal
        self.project = project
    }
}

extension MessageRecord.Variant {
    var lane: Lane { Lane(priority, isCollapsible: collapse.isCollapsible) }

    /// Whether a message of the variant lies between two marks of its lane.
    func isBetween(
        _ before: LaneMarks, _ after: LaneMarks, _ sequence: MessageSequence
    ) -> Bool {
        sequence > before[lane] && sequence <= after[lane]
    }
}
