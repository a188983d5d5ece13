// SPDX-License-Identifier: Apache-2.0
//
// Settling an instance: what the rules say of its log now is made so. What was discarded is written
// into its state, so that the log begins behind; what was replaced, pushed out or has expired is no
// entry any more. After that no entry of its log matters but those that are stored, so that no row
// has to be kept for the sake of another's fate. Any part of it may be done without the rest: an entry
// that is still there changes nothing for those that are stored.
// Rests on the replay, and on Schema.

import MartletBase
import MartletRows

extension Transaction {
    /// All of it at once.
    /// - Returns: how many entries its log had.
    borrowing func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, now: Instant, limits: MailboxLimits
    ) throws(StorageError) -> Int {
        var rows = Int.max
        _ = try settle(ordinal, in: project, now: now, limits: limits, rows: &rows)
        return Int.max - rows
    }

    /// What a connection passed over when it read the mailbox, which was then as `skipped` says.
    borrowing func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, _ skipped: Acknowledgement.Skipped,
        limits: MailboxLimits
    ) throws(StorageError) {
        var rows = Int.max
        _ = try settle(
            ordinal, in: project, now: skipped.at, limits: limits, through: skipped.through,
            rows: &rows)
    }

    /// Goes on where an earlier transaction had to stop.
    /// - Parameters:
    ///   - through: what comes behind in the log is not there.
    ///   - rows: entries that may be looked at; what was is taken off.
    ///   - needed: called with the fanouts that are stored for the instance, over all calls.
    /// - Returns: whether nothing is left of it.
    borrowing func settle(
        _ ordinal: Ordinal, in project: ProjectNumber, now: Instant, limits: MailboxLimits,
        through last: MessageSequence = MessageSequence(.max), rows: inout Int,
        needed: ((LogRow) -> Void)? = nil
    ) throws(StorageError) -> Bool {
        let earlier = settlings?.take(ordinal, in: project, isCollecting: needed != nil)
        guard let instance = try instance(ordinal, in: project),
            let owner = try owner(instance, in: project),
            try raw.get(.mailboxes, .ordinal(ordinal, in: project)) != nil
        else { return true }
        try endLostConnection(of: ordinal, in: project, now: now)
        var state = try mailboxState(of: ordinal, in: project)
        var settling = Settling(
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
                    // What was discarded, and told, may be something else by now.
                    settling = Settling(
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
        try removeIdleMarks(of: ordinal, in: project, through: state.logStart)
        return true
    }

    /// - Returns: whether the log's end was reached.
    private borrowing func read(
        _ settling: Settling, of owner: MailboxOwner, through last: MessageSequence,
        rows: inout Int
    ) throws(StorageError) -> Bool {
        var read: [LoggedRow] = []
        let scan = try forEachLoggedRow(
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
            settling.readThrough = through
            return false
        }
    }

    private borrowing func writeOverflow(
        of settling: Settling, to state: inout MailboxState, now: Instant
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
            try countDropped(row, settling.replay, for: settling.taker, now: now)
        }
        state.discardedThrough = overflow.through
        state.discardedCount = overflow.count
        try raw.put(
            .mailboxes, .ordinal(settling.ordinal, in: settling.project), MailboxRow.bytes(state))
        try removeIdleMarks(
            of: settling.ordinal, in: settling.project, through: state.logStart)
    }

    /// Deals with the rows of a log that has been read.
    /// - Returns: whether with all.
    private borrowing func finish(
        _ settling: Settling, _ state: MailboxState, now: Instant, rows: inout Int,
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
            // Everybody's outcome was told when its time was over for all.
            if !row.isDirect, entry.expires <= now, try isOver(row.row, in: project) { continue }
            if !isBehind, !isMarked, entry.sequence > state.acknowledged[entry.lane] {
                try countDropped(row, settling.replay, for: settling.taker, now: now)
            }
            if row.isDirect {
                try removeInboxRow(ordinal, row.row, in: project)
            } else if !isBehind, !isMarked {
                try raw.put(.acknowledged, key, [1])
            }
        }
        return false
    }

    /// Whether a message's expiry was seen to.
    private borrowing func isOver(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let bytes = try raw.get(.messages, .log(row, in: project)) else { return true }
        return try MessageRecord(bytes).flags.contains(.isExpired)
    }

    /// Whether a row is still there that an earlier transaction read.
    private borrowing func isThere(
        _ row: LoggedRow, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        row.isDirect
            ? try raw.get(.inbox, .inbox(ordinal, row.entry.sequence, in: project)) != nil
            : try raw.get(.recipients, .log(row.row, in: project)) != nil
    }

    // MARK: An absence

    /// What an instance's absence discarded is written down (STO-1), before an acknowledgement can change
    /// what it found stored.
    borrowing func endAbsence(
        of ordinal: Ordinal, in project: ProjectNumber, through last: MessageSequence,
        now: Instant, limits: MailboxLimits
    ) throws(StorageError) {
        var state = try mailboxState(of: ordinal, in: project)
        state.awayThrough = min(state.awayThrough, last)
        guard let instance = try instance(ordinal, in: project),
            let owner = try owner(instance, in: project)
        else { return }
        try discard(by: state.absence, owner, instance, &state, now: now, limits: limits)
    }

    /// Writes down what a stretch of an instance's log discarded (STO-1), if it did.
    borrowing func discard(
        by absence: Absence, _ owner: MailboxOwner, _ instance: Instance,
        _ state: inout MailboxState, now: Instant, limits: MailboxLimits
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
        _ = try forEachLoggedRow(
            for: owner, after: start,
            rowsMax: Int(clamping: absence.through.rawValue - start.rawValue)
        ) { row in
            guard row.entry.sequence <= absence.through else { return }
            replay.add(row.entry)
            rows.append(row)
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
            try countDropped(row, replay, for: taker, now: now)
        }
        state.discardedThrough = overflow.through
        state.discardedCount = overflow.count
        try raw.put(.mailboxes, .ordinal(ordinal, in: project), MailboxRow.bytes(state))
        try removeInbox(of: ordinal, in: project, through: overflow.through, isTaken: false)
        try removeIdleMarks(of: ordinal, in: project, through: state.logStart)
    }

    /// STO-1: whether the bound of the log is above the limit, or no bound is known. Brings the bound up to
    /// date.
    private borrowing func mayBeTooMuch(
        _ absence: Absence, _ owner: MailboxOwner, _ instance: Instance, _ limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        let taker = Taker(instance)
        guard let settlings,
            var count = settlings.carried.count(taker, instance.holder, before: absence)
        else { return true }
        let rowsMax = Int(clamping: absence.through.rawValue - count.through.rawValue)
        if rowsMax > 0 {
            _ = try forEachLoggedRow(for: owner, after: count.through, rowsMax: rowsMax) {
                if $0.entry.sequence <= absence.through, $0.entry.isPlain { count.countMax += 1 }
            }
        }
        count.through = absence.through
        settlings.carried.keep(count, of: taker)
        return count.countMax > limits.storedPerInstanceMax
    }

    /// Whether an instance's log has a message there that is not collapsible: mostly there is none, and its
    /// log, which may be long, need not be read from its start.
    private borrowing func hasPlainEntry(
        for owner: MailboxOwner, behind start: MessageSequence, _ last: MessageSequence
    ) throws(StorageError) -> Bool {
        var (isFound, after) = (false, start)
        while after < last, !isFound {
            let scan = try forEachLoggedRow(for: owner, after: after, rowsMax: Self.rowsPerLook) {
                if $0.entry.sequence <= last, $0.entry.isPlain { isFound = true }
            }
            guard case .paused(let through) = scan else { break }
            after = through
        }
        return isFound
    }

    private static var rowsPerLook: Int { 64 }

    /// Deletes what says something of single entries that are in the log no more.
    borrowing func removeIdleMarks(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) {
        for key in try idleMarks(of: ordinal, in: project, through: through) {
            try raw.delete(.acknowledged, key)
        }
    }

    private borrowing func idleMarks(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) -> [Key] {
        let prefix = Key.ordinal(ordinal, in: project)
        let marks = try Cursor(raw, .acknowledged)
        let messages = try Cursor(raw, .messages)
        /// Where the messages' cursor stands; past the project's last is at the end.
        var message: UInt64 = 0
        func settle(at entry: Cursor.Entry?) {
            message = .max
            if let entry, Key(project).isPrefix(of: entry.key) {
                message = LogRow(entry.key).sequence.rawValue
            }
        }
        var idle: [Key] = []
        var mark = try marks.seek(prefix)
        while let entry = mark, prefix.isPrefix(of: entry.key) {
            let sequence = entry.key.instanceSequence.rawValue
            if sequence > through.rawValue {
                // Where there are many marks, the next message mostly is the next one's.
                if message != 0, message < sequence { settle(at: try messages.next()) }
                if message < sequence {
                    settle(at: try messages.seek(.sequence(MessageSequence(sequence), in: project)))
                }
            }
            if sequence <= through.rawValue || message != sequence {
                idle.append(.inbox(ordinal, MessageSequence(sequence), in: project))
            }
            mark = try marks.next()
        }
        return idle
    }

    borrowing func owner(
        _ instance: Instance, in project: ProjectNumber
    ) throws(StorageError) -> MailboxOwner? {
        guard let app = try app(instance.app, in: project) else { return nil }
        return MailboxOwner(
            project: project, ordinal: instance.ordinal, platform: instance.platform,
            appKey: CollapseDigest(of: app.name))
    }

    // MARK: What a direct message replaces

    /// How many of the latest rows are looked through for what is replaced.
    private static let replacedLookback = 32
    /// How many of them were replaced when the instance is settled.
    private static let replacedMax = 16

    /// COL-1: of what a message for one instance replaces there, the body goes at once.
    borrowing func dropReplaced(
        by message: StoredMessage, for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        let digest: UInt64 =
            if case .named(let key) = message.variants[0].collapse {
                CollapseDigest(of: key).rawValue
            } else { 0 }
        let (found, replacedCount) = try lookBack(
            from: message.sequence, for: digest, of: ordinal, in: project)
        if replacedCount == Self.replacedMax {
            // Only ever one: the count goes down again when it is done.
            try raw.put(
                .due,
                .due(
                    .settlement, Instant(millisecondsSince1970: 0), project,
                    UInt64(ordinal.rawValue)), [])
        }
        guard let found else { return }
        let key = Key.log(LogRow(found), in: project)
        guard let bytes = try raw.get(.messages, key) else { return }
        try raw.put(.messages, key, try MessageRecord(bytes).dropped(expiring: nil))
        try raw.put(
            .inbox, .inbox(ordinal, found, in: project), InboxRow.collapsible(digest) + [1])
    }

    private borrowing func lookBack(
        from sequence: MessageSequence, for digest: UInt64, of ordinal: Ordinal,
        in project: ProjectNumber
    ) throws(StorageError) -> (found: MessageSequence?, replacedCount: Int) {
        let prefix = Key.ordinal(ordinal, in: project)
        let cursor = try Cursor(raw, .inbox)
        var row = try cursor.seekLast(below: .inbox(ordinal, sequence, in: project))
        var found: MessageSequence?
        var replacedCount = 0
        var looked = 0
        while let entry = row, prefix.isPrefix(of: entry.key), looked < Self.replacedLookback {
            looked += 1
            if entry.value.count == 9 { replacedCount += 1 }
            if found == nil, entry.value.count == 8,
                entry.value.loadLittleEndian(UInt64.self, at: 0) == digest
            {
                found = entry.key.instanceSequence
            }
            row = try cursor.previous()
        }
        return (found, replacedCount)
    }

    borrowing func removeSettlement(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.delete(
            .due,
            .due(
                .settlement, Instant(millisecondsSince1970: 0), project, UInt64(ordinal.rawValue)))
    }
}
