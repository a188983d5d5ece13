// SPDX-License-Identifier: Apache-2.0
//
// Counts what became of messages (REP-1): where a report begins, where its rows are written, and where they are
// removed. Rests on ReportTally, DueLedger, ProjectLedger and SetLedger.

package import MartletBase
import MartletBits
package import MartletRows

/// The counts of reports, per message and per day.
package struct ReportLedger: Ledger {
    package let context: LedgerContext
    private var dueRows: DueLedger { DueLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }
    private var sets: SetLedger { SetLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Counts what happened to a message for one instance. An outcome is counted once, when the entry leaves the
    /// instance's log.
    func count(
        _ event: ReportEvent, of sequence: MessageSequence, accepted: Instant,
        for ordinal: Ordinal, of app: AppNumber, in project: ProjectNumber
    ) {
        count(event, 1, of: sequence, accepted: accepted, by: app, in: project)
        if event.isOutcome, event != .acknowledged, event != .handedOver, event != .unregistered {
            let message = ReportTally.Message(project: project, sequence: sequence)
            tally?.miss(ordinal, message)
        }
    }

    /// Counts what happened for several instances of an app. They aren't noted as missing the message.
    func count(
        _ event: ReportEvent, _ number: UInt64, of sequence: MessageSequence, accepted: Instant,
        by app: AppNumber, in project: ProjectNumber
    ) {
        guard let tally else { return }
        let day = ReportTally.Day(project: project, day: accepted.day, app: app)
        tally.count(event, number, on: day)
        tally.count(
            event, number, of: ReportTally.Message(project: project, sequence: sequence))
    }

    /// Begins an accepted message's report (REP-1). Whatever happens later is counted where it happens.
    /// - Parameter keptMax: how many reports of single messages to keep for a project; 0: no limit. Older ones are
    ///   removed at the end of the transaction.
    package func begin(
        _ report: NewReport, in project: ProjectNumber, keptMax: Int
    ) throws(StorageError) {
        guard let tally else { return }
        tally.reportsMax = keptMax
        var all = ReportCounts()
        for share in report.shares {
            let day = ReportTally.Day(
                project: project, day: report.accepted.day, app: share.app)
            tally.count(share.counts, on: day)
            all += share.counts
        }
        assert(all.isConsistent, "A recipient has one outcome of a message.")
        guard let sequence = report.sequence else { return }
        let row = ReportRow(accepted: report.accepted, number: report.number, counts: all)
        let message = ReportTally.Message(project: project, sequence: sequence)
        try putOpenReport()
        invariant(tally.open == nil, "A transaction has one report without a row.")
        tally.begin(message)
        if report.number == sequence.rawValue, report.missed.isEmpty, all == ReportRow.oneTargeted {
            tally.open = (message, row)
            return
        }
        try putRow(row, of: message)
        for set in report.missed { try putMissed(set, of: sequence, in: project) }
        if report.number != sequence.rawValue {
            var writer = RecordWriter()
            writer.append(sequence.rawValue)
            try raw.put(.reportNumbers, .number(report.number, in: project), writer.bytes)
        }
    }

    /// Takes the open report, if it is this message's.
    /// - Returns: whether the message's record is to serve as the report.
    func takeOpen(
        of sequence: MessageSequence, in project: ProjectNumber
    ) -> Bool {
        guard let tally, let open = tally.open, open.message.sequence == sequence,
            open.message.project == project
        else { return false }
        tally.open = nil
        return true
    }

    private func putOpenReport() throws(StorageError) {
        guard let tally, let open = tally.open else { return }
        tally.open = nil
        try putRow(open.row, of: open.message)
    }

    private func putRow(
        _ row: ReportRow, of message: ReportTally.Message
    ) throws(StorageError) {
        try putLast(.reports, .sequence(message.sequence, in: message.project), row.bytes)
    }

    /// A message's report, without this transaction's unwritten counts; nil if it has none.
    func row(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> ReportRow? {
        if let found = try raw.get(.reports, .sequence(sequence, in: project)) {
            return try ReportRow(found)
        }
        return try unwrittenRow(ReportTally.Message(project: project, sequence: sequence))
    }

    /// The report of a message that has no row in `reports`.
    private func unwrittenRow(
        _ message: ReportTally.Message
    ) throws(StorageError) -> ReportRow? {
        guard try projects.project(message.project)?.reportsFrom ?? .none <= message.sequence else {
            return nil
        }
        if let row = tally?.left[message] { return row }
        let key = Key.log(LogRow(message.sequence), in: message.project)
        guard let found = try raw.get(.messages, key) else { return nil }
        let record = try MessageRecord(found)
        return record.hasReport ? ReportRow(of: record, message.sequence) : nil
    }

    /// Adds counts to days (REP-1).
    package func count(_ days: [DayCount]) throws(StorageError) {
        guard let tally else { return }
        for one in days {
            let day = ReportTally.Day(project: one.project, day: one.day, app: one.app)
            tally.count(one.counts, on: day)
        }
    }

    private func putMissed(
        _ recipients: Recipients, of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) {
        switch recipients {
        case .one(let ordinal): try addMissed([ordinal.rawValue], of: sequence, in: project)
        case .many(let set):
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                var ordinals: [UInt32] = []
                ordinals.reserveCapacity(block.count)
                block.view.forEachBit {
                    ordinals.append(block.block << BlockGeometry.strideShift | UInt32($0))
                }
                try addMissed(ordinals, of: sequence, in: project)
            }
        }
    }

    /// - Parameter ordinals: sorted and distinct.
    func addMissed(
        _ ordinals: [UInt32], of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) {
        assert(ordinals.isAscending, "The instances that miss a message are sorted and distinct.")
        _ = try sets.changeBlocks(ordinals, in: .missed, adding: true) { block in
            .missed(block, of: sequence, in: project)
        }
    }

    func writeTally() throws(StorageError) {
        guard let tally else { return }
        let reportsMax = tally.reportsMax
        try writeMessages()
        // In the order of the keys, so equal commands produce equal files.
        let days = tally.takeDays()
        for day in days.keys.sorted() { try add(days[day]!, to: day) }
        for (number, begun) in tally.begun.sorted {
            guard var project = try projects.project(number) else { continue }
            let isFirst = project.reportCount == 0
            if isFirst { project.reportsFrom = begun.first }
            project.reportCount += begun.count
            try projects.put(project, isNew: false)
            if isFirst { try putOldestReportDue(of: number) }
            guard reportsMax > 0 else { continue }
            while try projects.project(number)?.reportCount ?? 0 > UInt64(reportsMax),
                let oldest = try oldestReport(of: number)
            {
                try removeReport(of: oldest, in: number)
            }
        }
    }

    /// Writes the counts of single messages so far.
    private func writeMessages() throws(StorageError) {
        guard let tally else { return }
        try putOpenReport()
        for (message, part) in tally.takeMessages() {
            let key = Key.sequence(message.sequence, in: message.project)
            if let found = try raw.get(.reports, key) {
                var row = try ReportRow(found)
                row.counts += part.counts
                assert(row.counts.isConsistent, "A recipient has one outcome of a message.")
                try raw.put(.reports, key, row.bytes)
            } else if var row = try unwrittenRow(message) {
                row.counts += part.counts
                assert(row.counts.isConsistent, "A recipient has one outcome of a message.")
                try putRow(row, of: message)
            } else {
                continue
            }
            guard !part.missed.isEmpty else { continue }
            try addMissed(part.missed.sorted(), of: message.sequence, in: message.project)
        }
        tally.left.removeAll(keepingCapacity: true)
    }

    private func add(
        _ counts: ReportCounts, to day: ReportTally.Day
    ) throws(StorageError) {
        guard !counts.isZero else { return }
        let key = Key.reportDay(day.day, day.app, in: day.project)
        var all = counts
        if let found = try raw.get(.projects, key) {
            var reader = RecordReader(found, of: .projects)
            all += try reader.counts()
        } else {
            try raw.put(
                .due,
                .due(
                    .reportDay, Instant(startOfDay: day.day), day.project, UInt64(day.day)), [])
        }
        var writer = RecordWriter()
        writer.append(all)
        try raw.put(.projects, key, writer.bytes)
    }

    /// The first message whose report is kept: the first row's, or an earlier one whose record is the report.
    private func oldestReport(
        of number: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        guard let from = try projects.project(number)?.reportsFrom else { return nil }
        let prefix = Key(number)
        let rows = try Cursor(raw, .reports)
        var first: MessageSequence?
        if let entry = try rows.seek(.sequence(from, in: number)), prefix.isPrefix(of: entry.key) {
            first = entry.key.sequence
        }
        let messages = try Cursor(raw, .messages)
        var found = try messages.seek(.log(LogRow(from), in: number))
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let row = LogRow(entry.key)
            if let first, row.sequence >= first { break }
            if !row.isDiscarded, try MessageRecord(entry.value).hasReport { return row.sequence }
            found = try messages.next()
        }
        return first
    }

    private func removeReport(
        of sequence: MessageSequence, in number: ProjectNumber
    ) throws(StorageError) {
        guard let row = try row(of: sequence, in: number),
            var project = try projects.project(number)
        else { return }
        let key = Key.sequence(sequence, in: number)
        try raw.delete(.reports, key)
        try raw.delete(.due, .due(.report, row.accepted, number, sequence.rawValue))
        if row.number != sequence.rawValue {
            try raw.delete(.reportNumbers, .number(row.number, in: number))
        }
        try deleteAll(.missed, under: key)
        try deleteAll(.refusals, under: key)
        guard sequence >= project.reportsFrom else {
            throw .contradiction(.reports, "a report is older than the oldest")
        }
        project.reportCount = try project.reportCount.less(in: .reports)
        project.reportsFrom = MessageSequence(sequence.rawValue + 1)
        try projects.put(project, isNew: false)
        try putOldestReportDue(of: number)
    }

    /// Makes the oldest report due. A project's reports are removed in the order of their sequences, so only the oldest
    /// has a row in `due`.
    private func putOldestReportDue(of project: ProjectNumber) throws(StorageError) {
        guard let oldest = try oldestReport(of: project),
            let accepted = try row(of: oldest, in: project)?.accepted
        else { return }
        try raw.put(.due, .due(.report, accepted, project, oldest.rawValue), [])
    }

    /// Removes reports and days that are too old.
    func sweep(
        now: Instant, limits: BrokerLimits, rows: inout Int
    ) throws(StorageError) {
        let last = now.advanced(bySeconds: -Int64(limits.reportSeconds))
        while rows > 0, let due = try dueRows.next(.report, through: last) {
            // This transaction's counts first: the removed report may have some.
            try writeMessages()
            try removeReport(of: MessageSequence(due.number), in: due.project)
            rows -= 1
        }
        guard limits.reportDaysMax > 0 else { return }
        let lastDay = now.advanced(bySeconds: -Int64(limits.reportDaysMax) * 86_400)
        while rows > 0, let due = try dueRows.next(.reportDay, through: lastDay) {
            try deleteAll(.projects, under: .reportDay(due.time.day, in: due.project))
            try dueRows.remove(due, .reportDay)
            rows -= 1
        }
    }

    // MARK: Refusals

    /// Counts why a push service refused a message that has a report (GW-11).
    func countRefusal(
        by kind: BridgeKind, _ reason: String, of sequence: MessageSequence,
        in project: ProjectNumber
    ) throws(StorageError) {
        guard try row(of: sequence, in: project) != nil else { return }
        let prefix = Key.sequence(sequence, in: project)
        func place(_ reason: String) -> Key {
            var key = prefix
            key.append(byte: kind.rawValue)
            key.append(name: reason.utf8.prefix(Limits.refusalReasonBytesMax))
            return key
        }
        var key = place(reason)
        if try raw.get(.refusals, key) == nil,
            try keys(.refusals, under: prefix).count >= Limits.refusalReasonsMax
        {
            key = place("other")
        }
        let count = try raw.get(.refusals, key)?.loadLittleEndian(UInt64.self, at: 0) ?? 0
        var writer = RecordWriter()
        writer.append(count + 1)
        try raw.put(.refusals, key, writer.bytes)
    }

    /// Why push services refused a message (GW-11).
    func refusals(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> [RefusalCount] {
        let prefix = Key.sequence(sequence, in: project)
        let cursor = try Cursor(raw, .refusals)
        var found = try cursor.seek(prefix)
        var all: [RefusalCount] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            var reader = RecordReader(entry.value, of: .refusals)
            guard entry.key.count > 13, let kind = BridgeKind(rawValue: entry.key[12]) else {
                throw reader.damaged()
            }
            all.append(
                RefusalCount(
                    kind: kind, reason: String(decoding: entry.key.dropFirst(13), as: UTF8.self),
                    count: try reader.read(UInt64.self)))
            found = try cursor.next()
        }
        return all
    }

    // MARK: Closings

    /// How many blocks of recipients the expiry of a fanout has counted. 0 before it begins, and after it ends.
    func closedBlockCount(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> UInt32 {
        try raw.get(.closings, .sequence(sequence, in: project))?
            .loadLittleEndian(UInt32.self, at: 0) ?? 0
    }

    func putClosing(
        of sequence: MessageSequence, below block: UInt32, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(block)
        try raw.put(.closings, .sequence(sequence, in: project), writer.bytes)
    }

    func removeClosing(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.delete(.closings, .sequence(sequence, in: project))
    }

    /// Whether any instance's outcome is open. True without a report, because nobody knows then.
    func isPending(
        _ sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard var counts = try row(of: sequence, in: project)?.counts else { return true }
        let message = ReportTally.Message(project: project, sequence: sequence)
        if let tally { counts += tally.counts(of: message) }
        return counts.pending > 0
    }

    /// Counts deliveries to connections (REP-1). An element without a sequence counts for the day of `now`.
    package func countSent(
        _ sent: [SentCount], now: Instant
    ) throws(StorageError) {
        guard let tally else { return }
        for one in sent {
            if let sequence = one.sequence {
                let message = ReportTally.Message(project: one.project, sequence: sequence)
                tally.count(.sent, one.count, of: message)
            } else {
                let day = ReportTally.Day(project: one.project, day: now.day, app: one.app)
                tally.count(.sent, one.count, on: day)
            }
        }
    }
}

extension Instant {
    /// - Parameter day: days since 1970-01-01, UTC.
    init(startOfDay day: UInt32) {
        self.init(millisecondsSince1970: Int64(day) * 86_400_000)
    }
}
