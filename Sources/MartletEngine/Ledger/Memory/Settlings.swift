// SPDX-License-Identifier: Apache-2.0
//
// Logs that are being settled over several transactions. An instance that has been connected for long
// and acknowledged nothing has a log of as many entries as its project had messages: at once it would hold
// up everybody's commits for a tenth of a second. What has been read of it stays here between
// transactions; when one of them fails, or the process ends, it is read again. Rests on the replay.

import MartletBase
import MartletRows

/// What is known of one log so far. Its arrays are long: it is never copied.
final class SettlingProgress {
    let project: ProjectNumber
    let ordinal: Ordinal
    let holder: Holder
    let taker: Taker
    /// Whoever began it is told of everything that is stored.
    let isCollecting: Bool
    /// What the instance's state was when its log was begun.
    let state: MailboxState
    var replay: MailboxReplay
    var readThrough: MessageSequence
    /// Whether everything has been read.
    var isRead = false
    /// As they were read, a transaction's behind those of the one before it.
    private var parts: [[LoggedRow]] = []
    /// What has been dealt with: parts, and rows of the next one.
    private var donePartCount = 0
    private var doneRowCount = 0
    /// Part of it was done in an earlier transaction.
    var isResumed = false

    init(
        _ instance: Instance, in project: ProjectNumber, _ state: MailboxState,
        limits: MailboxLimits, isCollecting: Bool
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

    func add(_ rows: [LoggedRow]) { parts.append(rows) }

    /// Those up to a sequence.
    func forEachRow(
        through last: MessageSequence, _ body: (LoggedRow) throws(StorageError) -> Void
    ) throws(StorageError) {
        for part in parts {
            for row in part where row.entry.sequence <= last { try body(row) }
        }
    }

    /// Takes the first row that has not been dealt with.
    func next() -> LoggedRow? {
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

/// One per store, for its writing transactions.
final class Settlings: @unchecked Sendable {
    // Touched by the one writing transaction alone.
    private var paused: [SettlingProgress] = []
    var carried = CarriedCounts()
    /// Past so many the oldest is read again.
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
        settling.isResumed = true
        paused.append(settling)
    }

    /// A transaction failed: what it did is not so.
    func forget() {
        paused.removeAll()
        carried.forget()
    }
}
