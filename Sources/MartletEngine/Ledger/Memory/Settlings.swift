// SPDX-License-Identifier: Apache-2.0
//
// Logs that take several transactions to settle. An instance that was connected for long and acknowledged nothing has a log as
// long as its project's history; settling it all at once would delay every commit by a tenth of a second. Progress is kept
// in memory between transactions. After a failed one, or a restart, the log is read again. Rests on the replay.

import MartletBase
import MartletRows

/// The progress of settling one log. A class, because its arrays are long and must not be copied.
final class SettlingProgress {
    let project: ProjectNumber
    let ordinal: Ordinal
    let holder: Holder
    let taker: Taker
    /// Whether a collection asked for this. It has to hear of every fanout stored for the instance.
    let isCollecting: Bool
    /// The mailbox's state when settling began.
    let state: MailboxState
    var replay: MailboxReplay
    var readThrough: MessageSequence
    /// Whether the log was read to its end.
    var isRead = false
    /// The rows in the order of the log, one array per transaction.
    private var parts: [[LoggedRow]] = []
    /// Finished arrays in `parts`, and finished rows in the next one.
    private var donePartCount = 0
    private var doneRowCount = 0
    /// Whether an earlier transaction did part of the work.
    var isResumed = false

    init(
        _ instance: Instance, in project: ProjectNumber, _ state: MailboxState,
        limits: BrokerLimits, isCollecting: Bool
    ) {
        self.project = project
        self.ordinal = instance.ordinal
        self.holder = instance.holder
        taker = Taker(instance)
        self.isCollecting = isCollecting
        self.state = state
        replay = MailboxReplay(
            limits: limits, state: state, keepsUncounted: false, keepsReplaced: true)
        readThrough = state.logStart
    }

    func add(_ rows: [LoggedRow]) {
        invariant(!isRead, "A log that was read to its end gets no more rows.")
        if let first = rows.first, let last = parts.last(where: { !$0.isEmpty })?.last {
            invariant(
                first.entry.sequence > last.entry.sequence,
                "The parts of a log are read in the order of the log.")
        }
        parts.append(rows)
    }

    /// Calls `body` with the rows up to the sequence `last`.
    func forEachRow(
        through last: MessageSequence, _ body: (LoggedRow) throws(StorageError) -> Void
    ) throws(StorageError) {
        for part in parts {
            for row in part where row.entry.sequence <= last { try body(row) }
        }
    }

    /// Takes the first unfinished row.
    func next() -> LoggedRow? {
        invariant(isRead, "The rows of a log are handled after the log was read to its end.")
        while donePartCount < parts.count {
            if doneRowCount < parts[donePartCount].count {
                doneRowCount += 1
                return parts[donePartCount][doneRowCount - 1]
            }
            parts[donePartCount] = []
            donePartCount += 1
            doneRowCount = 0
        }
        return nil
    }
}

/// A store's paused settlings, for its writing transactions.
final class Settlings: @unchecked Sendable {
    // Only the writing transaction touches it.
    private var paused: [SettlingProgress] = []
    var carried = CarriedCounts()
    /// Most settlings to pause. Past that, the oldest is forgotten, and its log is read again.
    private static let pausedMax = 4

    func take(
        _ ordinal: Ordinal, in project: ProjectNumber, isCollecting: Bool
    ) -> SettlingProgress? {
        let found = paused.firstIndex { $0.ordinal == ordinal && $0.project == project }
        guard let found else { return nil }
        let settling = paused.remove(at: found)
        return settling.isCollecting == isCollecting ? settling : nil
    }

    func keep(_ settling: SettlingProgress) {
        if paused.count == Self.pausedMax { paused.removeFirst() }
        invariant(paused.count < Self.pausedMax, "The paused settlings are bounded.")
        invariant(
            !paused.contains { $0.ordinal == settling.ordinal && $0.project == settling.project },
            "An instance has one settling.")
        settling.isResumed = true
        paused.append(settling)
    }

    /// Forgets the progress of a project's collection, because a new one reads each log anew. What a collection that
    /// ended early has left doesn't know of later messages.
    func forgetCollection(of project: ProjectNumber) {
        paused.removeAll { $0.project == project && $0.isCollecting }
    }

    /// Forgets all progress, because a transaction failed.
    func forget() {
        paused.removeAll()
        carried.forget()
    }
}
