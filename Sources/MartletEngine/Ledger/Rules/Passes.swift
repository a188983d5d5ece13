// SPDX-License-Identifier: Apache-2.0
//
// When an acknowledgement moves an instance's marks, every message between the old and the new mark counts as delivered
// (REP-1), except those that have expired, which aren't entries any more. Messages in the inbox are counted as the marks
// move, before their rows go; fanouts once all acknowledgements of a command are known. Rests on Outcomes and PassTable.

import MartletBase
import MartletBits
import MartletRows

/// Counts the messages that marks pass.
package struct Passes: Ledger {
    package let context: LedgerContext
    private var outcomes: Outcomes { Outcomes(context) }
    private var reports: ReportLedger { ReportLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Counts the inbox messages that a movement of marks passes, and keeps the movement for `countPasses`.
    /// - Parameters:
    ///   - event: `acknowledged`, or `handedOver`.
    ///   - inbox: whether the instance has inbox rows up to the new marks.
    func countPassed(
        by taker: Taker, from before: MailboxState, to marks: LaneMarks, as event: ReportEvent,
        now: Instant, inbox: Bool, singles hasSingles: Bool
    ) throws(StorageError) {
        guard let tally, let (start, end) = before.passed(by: marks) else { return }
        invariant(start < end, "A movement of marks passes a sequence.")
        let pass = Pass(
            taker: taker,
            marks: PassedMarks(
                before: before.acknowledged, after: marks, start: start, end: end,
                singles: hasSingles ? try singles(of: taker, behind: start, through: end) : [],
                event: event))
        if inbox { try countInbox(pass, now: now) }
        tally.passes[taker.project, default: []].append(pass)
    }

    /// Sequences between `start` and `end` that the instance acknowledged singly.
    private func singles(
        of taker: Taker, behind start: MessageSequence, through end: MessageSequence
    ) throws(StorageError) -> Set<MessageSequence> {
        let prefix = Key.ordinal(taker.ordinal, in: taker.project)
        let cursor = try Cursor(raw, .acknowledged)
        var found = try cursor.seek(
            .inbox(taker.ordinal, MessageSequence(start.rawValue + 1), in: taker.project))
        var singles: Set<MessageSequence> = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let sequence = entry.key.instanceSequence
            guard sequence <= end else { break }
            singles.insert(sequence)
            found = try cursor.next()
        }
        return singles
    }

    private func countInbox(_ pass: Pass, now: Instant) throws(StorageError) {
        let (taker, project) = (pass.taker, pass.taker.project)
        let inbox = try Cursor(raw, .inbox)
        let prefix = Key.ordinal(taker.ordinal, in: project)
        var found = try inbox.seek(
            .inbox(taker.ordinal, MessageSequence(pass.marks.start.rawValue + 1), in: project))
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let sequence = entry.key.instanceSequence
            guard sequence <= pass.marks.end else { break }
            let row = InboxRow.row(sequence, entry.value)
            let isReplaced = InboxRow.isReplaced(entry.value)
            found = try inbox.next()
            guard !row.isDiscarded,
                let bytes = try raw.get(.messages, .log(row, in: project))
            else { continue }
            let record = try MessageRecord(bytes)
            guard let variant = try record.variant(on: taker.platform),
                pass.marks.takes(sequence, variant)
            else { continue }
            var event = pass.marks.event
            if variant.expires <= now {
                event =
                    isReplaced
                    ? .expired
                    : try outcomes.ending(
                        of: record, sequence, expires: variant.expires, in: project)
            }
            reports.count(
                event, of: sequence, accepted: record.accepted, for: taker.ordinal, of: taker.app,
                in: project)
        }
    }

    /// Counts the fanouts passed since the last call.
    func countPasses(
        now: Instant, _ budget: inout AcknowledgingBudget
    ) throws(StorageError) {
        guard let tally, !tally.passes.isEmpty else { return }
        var all: [ProjectNumber: [Pass]] = [:]
        swap(&all, &tally.passes)
        for (project, passes) in all {
            let cost = try countFanouts(passedBy: PassTable(passes), in: project, now: now)
            budget.charge(counted: cost.counted, looked: cost.looked, project)
        }
    }

    /// - Returns: how many fanouts were looked at, and how many counted.
    private func countFanouts(
        passedBy table: PassTable, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> (looked: Int, counted: Int) {
        let prefix = Key(project)
        let recipients = try Cursor(raw, .recipients)
        let messages = try Cursor(raw, .messages)
        var (looked, counted) = (0, 0)
        for range in table.ranges() {
            var next = try recipients.seek(
                .sequence(MessageSequence(range.start.rawValue + 1), in: project))
            while let entry = next, prefix.isPrefix(of: entry.key) {
                let row = LogRow(entry.key)
                guard row.sequence <= range.end else { break }
                if !row.isDiscarded, let set = CheckedRecipientSet(entry.value),
                    try count(row, messages, for: set, passedBy: table, in: project, now: now)
                {
                    counted += 1
                }
                looked += 1
                next = try recipients.next()
            }
        }
        return (looked, counted)
    }

    /// - Returns: whether a recipient has passed the fanout.
    private func count(
        _ row: LogRow, _ messages: borrowing Cursor, for set: CheckedRecipientSet,
        passedBy table: PassTable, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> Bool {
        let sequence = row.sequence
        var record: MessageRecord?
        var wasFound = false
        for at in table.cohorts.indices {
            let marks = table.cohorts[at].marks
            guard sequence > marks.start, sequence <= marks.end else { continue }
            let number = table.count(of: at, in: set)
            guard number > 0 else { continue }
            wasFound = true
            if record == nil {
                guard let bytes = try messages.value(of: .log(row, in: project)) else {
                    return true
                }
                record = try MessageRecord(bytes)
            }
            // The fanout's expiry has counted all recipients that had not acknowledged it.
            guard let record, !record.flags.contains(.isExpired) else { return true }
            guard let variant = try record.variant(on: table.cohorts[at].platform),
                marks.takes(sequence, variant)
            else { continue }
            if variant.expires > now {
                reports.count(
                    marks.event, UInt64(number), of: sequence, accepted: record.accepted,
                    by: table.cohorts[at].app, in: project)
            } else {
                try countExpired(
                    table.members(of: at, in: set), sequence, record, variant,
                    table.cohorts[at].app, in: project)
            }
        }
        return wasFound
    }

    /// Counts instances that passed a fanout after its time was over for them.
    private func countExpired(
        _ ordinals: [Ordinal], _ sequence: MessageSequence, _ record: MessageRecord,
        _ variant: MessageRecord.Variant, _ app: AppNumber, in project: ProjectNumber
    ) throws(StorageError) {
        for ordinal in ordinals {
            if try outcomes.isClosed(sequence, for: ordinal, in: project) { continue }
            reports.count(
                try outcomes.ending(of: record, sequence, expires: variant.expires, in: project),
                of: sequence, accepted: record.accepted, for: ordinal, of: app, in: project)
        }
    }
}

extension MailboxState {
    /// The range of sequences between the mailbox's marks and `marks`; nil if no mark is higher.
    func passed(
        by marks: LaneMarks
    ) -> (start: MessageSequence, end: MessageSequence)? {
        var passed: (start: MessageSequence, end: MessageSequence)?
        for lane in Lane.all where marks[lane] > acknowledged[lane] {
            passed = (
                start: min(passed?.start ?? acknowledged[lane], acknowledged[lane]),
                end: max(passed?.end ?? marks[lane], marks[lane])
            )
        }
        guard let passed, case let start = max(passed.start, discardedThrough), start < passed.end
        else { return nil }
        return (start, passed.end)
    }
}
