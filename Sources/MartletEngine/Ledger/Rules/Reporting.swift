// SPDX-License-Identifier: Apache-2.0
//
// Answers questions about what became of messages (REP-1, REP-2). A mailbox's contents are worked out when it is read, so
// a report reads the mailboxes of all instances whose outcome is open. Rests on Outcomes and ReportLedger.

package import MartletBase
import MartletBits
package import MartletRows

/// Answers questions about what became of messages.
package struct Reporting: Ledger {
    package let context: LedgerContext
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }
    private var recipients: RecipientLedger { RecipientLedger(context) }
    private var reports: ReportLedger { ReportLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Most mailboxes that a report reads.
    private static let mailboxesPerReport = 100_000

    /// Most log entries that a report reads.
    private static let entriesPerReport = 2_000_000

    /// The sequence of a message that has a report; nil if it has none (REP-1).
    package func reportSequence(
        ofNumber number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        if let found = try raw.get(.reportNumbers, .number(number, in: project)) {
            var reader = RecordReader(found, of: .reportNumbers)
            return MessageSequence(try reader.read(UInt64.self))
        }
        let sequence = MessageSequence(number)
        let row = try reports.row(of: sequence, in: project)
        return row?.number == number ? sequence : nil
    }

    /// A message's report. Reads every pending instance's mailbox, up to the bounds.
    package func report(
        of sequence: MessageSequence, in project: ProjectNumber, limits: BrokerLimits, now: Instant
    ) throws(StorageError) -> MessageReport? {
        guard let row = try reports.row(of: sequence, in: project) else { return nil }
        var report = MessageReport(
            messageNumber: row.number, accepted: row.accepted, counts: row.counts,
            unsettledCount: 0)
        // A fanout in progress hasn't reported its deliveries yet.
        report.counts[.sent] = max(
            row.counts[.sent],
            row.counts[.acknowledged] + row.counts[.handedOver] + row.counts[.refused])
        report.refusals = try reports.refusals(of: sequence, in: project)
        guard row.counts.pending > 0 else { return report }
        var mailboxes = Self.mailboxesPerReport
        var entries = Self.entriesPerReport
        try forEachWaiting(for: sequence, from: Ordinal(0), in: project) {
            (ordinals, record) throws(StorageError) in
            for ordinal in ordinals {
                guard mailboxes > 0, entries > 0 else {
                    report.unsettledCount += 1
                    continue
                }
                mailboxes -= 1
                let event = try dueOutcome(
                    of: sequence, for: ordinal, in: project, limits: limits, now: now,
                    entries: &entries)
                if let event { report.counts[event] += 1 }
            }
            return true
        }
        return report
    }

    /// A message's uncounted outcome in an instance's log; nil if it waits there.
    private func dueOutcome(
        of sequence: MessageSequence, for ordinal: Ordinal, in project: ProjectNumber,
        limits: BrokerLimits, now: Instant, entries: inout Int
    ) throws(StorageError) -> ReportEvent? {
        guard let instance = try instances.instance(ordinal, in: project),
            let owner = try log.owner(instance, in: project)
        else { return nil }
        let state = try mailboxes.state(of: ordinal, in: project)
        var replay = MailboxReplay(
            limits: limits, state: state, keepsUncounted: false, keepsReplaced: true)
        var logged: LoggedRow?
        var count = 0
        _ = try log.forEachLoggedRow(for: owner, after: state.logStart, rowsMax: .max) { row in
            count += 1
            replay.add(row.entry)
            if row.entry.sequence == sequence, !row.row.isDiscarded { logged = row }
        }
        entries -= count
        guard let logged, !replay.isStored(logged.entry, at: now) else { return nil }
        return try outcomes.outcome(of: logged, replay, for: ordinal, in: project, now: now)
    }

    /// The counts of a range of days, ordered by day and then by app.
    package func reportDays(
        _ days: ClosedRange<UInt32>, in project: ProjectNumber
    ) throws(StorageError) -> [DayReport] {
        var reports: [DayReport] = []
        let cursor = try Cursor(raw, .projects)
        // The newest day has the lowest key.
        var found = try cursor.seek(
            .reportDay(days.upperBound, AppNumber(0), in: project))
        while let entry = found, Key(project).isPrefix(of: entry.key) {
            let day = entry.key.day
            guard day >= days.lowerBound else { break }
            let number = entry.key.dayApp
            if let app = try projects.app(number, in: project) {
                var reader = RecordReader(entry.value, of: .projects)
                reports.append(DayReport(day: day, app: app, counts: try reader.counts()))
            }
            found = try cursor.next()
        }
        reports.sort { ($0.day, $0.app.number.rawValue) < ($1.day, $1.app.number.rawValue) }
        return reports
    }

    /// Uncounted outcomes of messages accepted on a day or later: since a mailbox was last read, the rules may have
    /// dropped pending messages.
    package func dueOutcomes(
        since day: UInt32, in project: ProjectNumber, limits: BrokerLimits, now: Instant
    ) throws(StorageError) -> DueOutcomes {
        var due = DueOutcomes()
        var looks = Self.entriesPerReport
        let open = try openMessages(since: day, in: project, looks: &looks)
        var entries = Self.entriesPerReport
        for (ordinal, sequences) in open {
            guard entries > 0 else { break }
            guard let instance = try instances.instance(ordinal, in: project),
                let owner = try log.owner(instance, in: project)
            else { continue }
            let (rows, replay) = try outcomes.read(
                owner, try mailboxes.state(of: ordinal, in: project), limits: limits,
                scanned: &entries)
            for row in rows
            where !row.row.isDiscarded && sequences.contains(row.entry.sequence)
                && !replay.isStored(row.entry, at: now)
            {
                let event = try outcomes.outcome(
                    of: row, replay, for: ordinal, in: project, now: now)
                if let event { due.add(event, of: row.entry.accepted.day, by: instance.app) }
            }
        }
        return due
    }

    /// Messages accepted on a day or later whose outcome is open, by instance.
    private func openMessages(
        since day: UInt32, in project: ProjectNumber, looks: inout Int
    ) throws(StorageError) -> [Ordinal: [MessageSequence]] {
        var open: [Ordinal: [MessageSequence]] = [:]
        let prefix = Key(project)
        let messages = try Cursor(raw, .messages)
        var found = try messages.seek(prefix)
        while let entry = found, prefix.isPrefix(of: entry.key), looks > 0 {
            let row = LogRow(entry.key)
            let accepted = try MessageRecord(entry.value).accepted
            found = try messages.next()
            looks -= 1
            guard !row.isDiscarded, accepted.day >= day,
                try reports.isPending(row.sequence, in: project)
            else { continue }
            try forEachWaiting(for: row.sequence, from: Ordinal(0), in: project) { ordinals, _ in
                for ordinal in ordinals
                where open.count < Self.mailboxesPerReport || open[ordinal] != nil {
                    open[ordinal, default: []].append(row.sequence)
                }
                looks -= ordinals.count
                return looks > 0
            }
        }
        return open
    }

    /// Calls `body` with each registered recipient that hasn't received a message, in the order of ordinals, until it
    /// returns false (REP-2).
    package func forEachNotReceived(
        _ sequence: MessageSequence, in project: ProjectNumber, from start: Ordinal,
        _ body: (Ordinal) -> Bool
    ) throws(StorageError) {
        guard try reports.row(of: sequence, in: project) != nil else { return }
        var missed = try missedBlocks(of: sequence, from: start.blockIndex, in: project)[...]
        var isEnough = false
        assert(missed.isAscending, "The blocks of a set are read in their order.")
        /// - Returns: whether the caller wants more.
        func tell(_ ordinals: [Ordinal]) throws(StorageError) -> Bool {
            for ordinal in ordinals where ordinal >= start && !isEnough {
                // Skip whoever registered after the message: a new instance can have a former recipient's ordinal.
                guard let instance = try instances.instance(ordinal, in: project),
                    instance.registeredBehind < sequence
                else { continue }
                isEnough = !body(ordinal)
            }
            return !isEnough
        }
        try forEachWaiting(for: sequence, from: start, in: project) {
            (waiting, _) throws(StorageError) in
            guard let block = waiting.first?.blockIndex else { return true }
            while let next = missed.first, next < block {
                missed.removeFirst()
                guard try tell(try missedMembers(next, of: sequence, in: project)) else {
                    return false
                }
            }
            var all = waiting
            if missed.first == block {
                missed.removeFirst()
                all += try missedMembers(block, of: sequence, in: project)
                all = Set(all).sorted()
            }
            return try tell(all)
        }
        while !isEnough, let next = missed.popFirst() {
            _ = try tell(try missedMembers(next, of: sequence, in: project))
        }
    }

    private func missedBlocks(
        of sequence: MessageSequence, from block: UInt32, in project: ProjectNumber
    ) throws(StorageError) -> [UInt32] {
        let prefix = Key.sequence(sequence, in: project)
        let cursor = try Cursor(raw, .missed)
        var found = try cursor.seek(.missed(block, of: sequence, in: project))
        var blocks: [UInt32] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            blocks.append(entry.key.missedBlock)
            found = try cursor.next()
        }
        return blocks
    }

    private func missedMembers(
        _ block: UInt32, of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> [Ordinal] {
        guard let found = try raw.get(.missed, .missed(block, of: sequence, in: project)) else {
            return []
        }
        var members: [Ordinal] = []
        BlockView.stored(found).forEachBit { members.append(Ordinal(block: block, bit: $0)) }
        return members
    }

    /// For how many instances a message's outcome is open.
    func waitingCount(
        for sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        var count: UInt64 = 0
        try forEachWaiting(for: sequence, from: Ordinal(0), in: project) { (waiting, _) in
            count += UInt64(waiting.count)
            return true
        }
        return count
    }

    /// Calls `body` with the instances for which a message's outcome is open, block by block in the order of ordinals,
    /// until it returns false.
    private func forEachWaiting(
        for sequence: MessageSequence, from start: Ordinal, in project: ProjectNumber,
        _ body: (_ ofOneBlock: [Ordinal], MessageRecord) throws(StorageError) -> Bool
    ) throws(StorageError) {
        let key = Key.log(LogRow(sequence), in: project)
        guard let found = try raw.get(.messages, key) else { return }
        let record = try MessageRecord(found)
        guard !record.flags.contains(.isExpired) else { return }
        guard record.flags.contains(.hasBlob) else {
            var rest = try recipients.waiting(
                for: sequence, record, among: try record.owners(), in: project)[...]
            while let block = rest.first?.blockIndex {
                let part = rest.prefix { $0.blockIndex == block }
                rest = rest.dropFirst(part.count)
                guard try body(Array(part), record) else { return }
            }
            return
        }
        // Skip the blocks that the expired message's closing has looked at: they are counted.
        let closed = try reports.closedBlockCount(of: sequence, in: project)
        try messages.withRecipients(of: LogRow(sequence), in: project) {
            (view) throws(StorageError) in
            let first = view.index(ofBlockFrom: max(start.blockIndex, closed))
            for index in first..<view.blockCount {
                let waiting = try recipients.waiting(
                    for: sequence, record, among: view.ordinals(ofBlockAt: index), in: project)
                guard try body(waiting, record) else { return }
            }
        }
    }
}
