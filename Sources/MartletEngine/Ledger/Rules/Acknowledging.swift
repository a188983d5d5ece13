// SPDX-License-Identifier: Apache-2.0
//
// Applies acknowledgements, which move an instance's marks. Once the marks of all lanes have passed a message, its inbox row
// goes, and with the last inbox row the message itself. Rests on Settling, Absences and Passes.

package import MartletBase
import MartletBits
package import MartletRows

/// Applies acknowledgements, in bounded steps.
package struct Acknowledging: Ledger {
    package let context: LedgerContext
    private var absences: Absences { Absences(context) }
    private var connections: ConnectionLedger { ConnectionLedger(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var passes: Passes { Passes(context) }
    private var reports: ReportLedger { ReportLedger(context) }
    private var settling: Settling { Settling(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Applies acknowledgements as far as the budget allows, each instance's in order.
    /// - Returns: for each array of `all`, what is left for later transactions.
    package func acknowledge(
        _ all: [[Acknowledgement]], now: Instant, limits: BrokerLimits,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> [[Acknowledgement]] {
        var waiting = all.indices.flatMap { from in all[from].map { (from: from, one: $0) } }
        var later = [[Acknowledgement]](repeating: [], count: all.count)
        for index in waiting.indices where budget.takesSingles(of: waiting[index].one) {
            let singles = waiting[index].one.takeSingles()
            let rest = try acknowledge(singles, isWhole: true, now: now, limits: limits, &budget)
            invariant(rest == nil, "An acknowledgement that is applied whole has no rest.")
        }
        while !waiting.isEmpty {
            budget.beginStep()
            var next: [(from: Int, one: Acknowledgement)] = []
            for (from, one) in waiting {
                let isWhole = budget.isWhole(one)
                guard isWhole || budget.hasRoom(one.project) else {
                    // The absence ends with the list in HELLO, not with the news of the connection, which comes before
                    // the rest.
                    if one.arrival != nil, try instanceRow(one) != nil {
                        try endAbsence(one, now: now, limits: limits)
                    }
                    later[from].append(one)
                    continue
                }
                let rest = try acknowledge(
                    one, isWhole: isWhole, now: now, limits: limits, &budget)
                invariant(
                    !isWhole || rest == nil, "An acknowledgement that is applied whole has no rest."
                )
                if let rest { next.append((from, rest)) }
            }
            try passes.countPasses(now: now, &budget)
            waiting = next
        }
        invariant(later.count == all.count, "Each batch of acknowledgements has a rest.")
        return later
    }

    /// - Parameter isWhole: whether all of it is applied in one step.
    /// - Returns: what is left for another step; nil if nothing is.
    private func acknowledge(
        _ acknowledgement: Acknowledgement, isWhole: Bool, now: Instant, limits: BrokerLimits,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> Acknowledgement? {
        let (ordinal, project) = (acknowledgement.ordinal, acknowledgement.project)
        let key = Key.ordinal(ordinal, in: project)
        guard let instance = try instanceRow(acknowledgement) else { return nil }
        let taker = try Taker(instance, ordinal, in: project)
        var acknowledgement = acknowledgement
        try endAbsence(acknowledgement, now: now, limits: limits)
        // Mostly only marks move. The connection's state matters only in the other cases.
        let isPlain =
            acknowledgement.departure == nil && acknowledgement.skipped == nil
            && acknowledgement.single.isEmpty
        // Settle skipped entries before marks move past them, now or later.
        if let skipped = acknowledgement.skipped {
            acknowledgement.skipped = nil
            budget.charge(1, project)
            try settling.settle(ordinal, in: project, skipped, limits: limits)
        }
        let row = try raw.get(.mailboxes, key)
        let isFirst = row == nil
        var through = acknowledgement.through
        var single = acknowledgement.single
        if !isWhole, let row {
            guard let end = try admit(through, by: taker, MailboxRow.state(row), &budget) else {
                budget.chargePostponed(project)
                return acknowledgement
            }
            through = through.limited(to: end)
            single = Array(single.prefix(budget.bounds.singlesPerStep))
        }
        budget.charge(1 + single.count, project)
        var notice = try notice(among: single, of: ordinal, in: project)
        if notice != nil {
            // Settling may discard more, with a new notice. Look again: that one may be among the stream IDs too.
            _ = try settling.settle(ordinal, in: project, now: now, limits: limits)
            notice = try self.notice(among: single, of: ordinal, in: project)
        }
        let before: MailboxState
        if isPlain {
            before =
                try row.map { (row) throws(StorageError) in try MailboxRow.state(row) }
                ?? MailboxRow.nowhere
        } else {
            before = try mailboxes.state(of: ordinal, in: project)
        }
        var state = before
        state.acknowledged.formMaximum(through)
        if let notice, notice >= state.discardedThrough {
            state.discardedCount = 0
            state.noticeStreamID = .none
        }
        if let departure = acknowledgement.departure {
            state.throttleFull = max(state.throttleFull, departure.throttleFull)
            state.seen = max(state.seen, departure.seen)
        }
        let hasInbox =
            try firstRow(.inbox, of: ordinal, in: project).map {
                $0 <= state.acknowledged.highest
            } ?? false
        let hasSingles = try firstRow(.acknowledged, of: ordinal, in: project) != nil
        // Don't count for a new instance: its first marks pass messages of the ordinal's former holder.
        if !isFirst {
            try passes.countPassed(
                by: taker, from: before, to: state.acknowledged, as: acknowledgement.event,
                now: now, inbox: hasInbox, singles: hasSingles)
        }
        if state != before || isFirst {
            try mailboxes.put(state, after: before, of: ordinal, in: project)
        }
        if acknowledgement.departure != nil {
            try mailboxes.setSeen(state.seen, before: before.seen, ordinal, in: project)
        }
        let lowest = state.acknowledged.lowest
        if hasInbox, lowest > before.acknowledged.lowest {
            let rowCount = try messages.removeInbox(
                of: ordinal, in: project, through: lowest, isTaken: true)
            budget.charge(rowCount * AcknowledgingBudget.costPerInboxRow, project)
        }
        if hasSingles, state.logStart > before.logStart {
            try removeSingles(of: taker, through: state.logStart)
        }
        if !single.isEmpty {
            try putSingles(single, by: taker, state, as: acknowledgement.event, now: now)
        }
        if let departure = acknowledgement.departure {
            let connection = try mailboxes.connection(key)?.start
            if connection.map({ $0.number <= departure.connectionNumber }) ?? true {
                try mailboxes.leave(ordinal, in: project, position: departure.position)
            }
        }
        let isDone =
            through == acknowledgement.through && single.count == acknowledgement.single.count
        return isDone ? nil : acknowledgement.rest(behind: single.count)
    }

    /// The acknowledging instance's row; nil if it left before this transaction, or the ordinal has another holder.
    private func instanceRow(
        _ acknowledgement: Acknowledgement
    ) throws(StorageError) -> UnsafeRawBufferPointer? {
        let key = Key.ordinal(acknowledgement.ordinal, in: acknowledgement.project)
        guard let instance = try raw.get(.instances, key) else { return nil }
        if let holder = acknowledgement.holder, try InstanceRow.holder(instance) != holder {
            return nil
        }
        return instance
    }

    /// Ends the lost connection of an instance that arrives or departs, and the absence of one that arrives.
    private func endAbsence(
        _ acknowledgement: Acknowledgement, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        let (ordinal, project) = (acknowledgement.ordinal, acknowledgement.project)
        guard acknowledgement.departure != nil || acknowledgement.arrival != nil else { return }
        try connections.endLost(of: ordinal, in: project, now: now)
        // The list in HELLO acknowledges after the absence, not during it. So end the absence first.
        guard let arrival = acknowledgement.arrival,
            try mailboxes.connection(.ordinal(ordinal, in: project)) == nil
        else { return }
        try absences.endAbsence(
            of: ordinal, in: project, through: arrival,
            taken: MessageSequence(acknowledgement.single.max() ?? 0), now: now, limits: limits)
        let before = try mailboxes.state(of: ordinal, in: project)
        var state = before
        state.awayFrom = max(state.awayFrom, arrival)
        try mailboxes.put(state, after: before, of: ordinal, in: project)
    }

    /// Removes single acknowledgements that the log's start has passed.
    private func removeSingles(
        of taker: Taker, through start: MessageSequence
    ) throws(StorageError) {
        for key in try keys(.acknowledged, under: .ordinal(taker.ordinal, in: taker.project)) {
            guard key.withBytes({ RowKey($0).instanceSequence }) <= start else { break }
            try raw.deleteFound(.acknowledged, key)
        }
    }

    /// Writes and counts single acknowledgements of log entries. Repeating one changes nothing.
    private func putSingles(
        _ single: [UInt64], by taker: Taker, _ state: MailboxState, as event: ReportEvent,
        now: Instant
    ) throws(StorageError) {
        for sequence in single where sequence > state.logStart.rawValue {
            let key = Key.inbox(taker.ordinal, MessageSequence(sequence), in: taker.project)
            guard try raw.get(.acknowledged, key) == nil,
                try isLogged(MessageSequence(sequence), for: taker.ordinal, in: taker.project)
            else { continue }
            _ = try countSingle(
                MessageSequence(sequence), by: taker, state, as: event, now: now)
            try raw.put(.acknowledged, key, [])
        }
    }

    /// Ends a message for an instance, because a push service has refused it for good (GW-11).
    /// - Returns: whether it waited for the instance, so the refusal is its outcome.
    package func refuse(
        _ sequence: MessageSequence, for instance: Instance, now: Instant
    ) throws(StorageError) -> Bool {
        let (ordinal, project) = (instance.ordinal, instance.project)
        let state = try mailboxes.state(of: ordinal, in: project)
        let key = Key.inbox(ordinal, sequence, in: project)
        guard sequence > state.logStart, try raw.get(.acknowledged, key) == nil,
            try isLogged(sequence, for: ordinal, in: project)
        else { return false }
        let wasWaiting = try countSingle(
            sequence, by: Taker(instance), state, as: .refused, now: now)
        // With a byte in it, the row means a dropped entry, not an acknowledgement.
        try raw.put(.acknowledged, key, [1])
        return wasWaiting
    }

    /// The sequence of an instance's first row in `inbox` or `acknowledged`.
    private func firstRow(
        _ table: Table, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        let prefix = Key.ordinal(ordinal, in: project)
        guard let entry = try seek(table, prefix), prefix.isPrefix(of: entry.key) else {
            return nil
        }
        return entry.key.instanceSequence
    }

    /// How far an instance's marks may move in this step; nil if not at all.
    private func admit(
        _ marks: LaneMarks, by taker: Taker, _ state: MailboxState,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> MessageSequence? {
        let everything = MessageSequence(.max)
        guard let (start, end) = state.passed(by: marks) else { return everything }
        var (first, last) = (MessageSequence(start.rawValue + 1), end)
        if end.rawValue - start.rawValue > budget.bounds.messagesPerPiece {
            last = try inboxEnd(
                of: taker, behind: start, through: end,
                rowsMax: budget.bounds.inboxRowsPerStep)
            let recipients = try Cursor(raw, .recipients)
            let fanout = try recipients.seek(.sequence(first, in: taker.project))
            let isOwn = fanout.map { Key(taker.project).isPrefix(of: $0.key) } ?? false
            first = isOwn ? LogRow(fanout!.key).sequence : everything
        }
        if first <= last {
            guard let admitted = budget.admit(from: first, through: last, in: taker.project) else {
                return nil
            }
            last = admitted
        }
        invariant(last <= end, "A step admits no more than was acknowledged.")
        return last < end ? last : everything
    }

    /// How far a step may delete inbox rows: at most `rowsMax` of them.
    private func inboxEnd(
        of taker: Taker, behind start: MessageSequence, through end: MessageSequence,
        rowsMax: Int
    ) throws(StorageError) -> MessageSequence {
        let prefix = Key.ordinal(taker.ordinal, in: taker.project)
        let inbox = try Cursor(raw, .inbox)
        var found = try inbox.seek(
            .inbox(taker.ordinal, MessageSequence(start.rawValue + 1), in: taker.project))
        var count = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let sequence = entry.key.instanceSequence
            guard sequence <= end else { break }
            count += 1
            if count == rowsMax { return sequence }
            found = try inbox.next()
        }
        return end
    }

    /// The last stream ID that is a notice of discards; nil if none is.
    private func notice(
        among single: [UInt64], of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        guard !single.isEmpty else { return nil }
        let state = try mailboxes.state(of: ordinal, in: project)
        var last: MessageSequence?
        for raw in single where raw > last?.rawValue ?? 0 {
            let sequence = MessageSequence(raw)
            var isNotice = sequence == state.notice && state.discardedCount > 0
            if !isNotice, sequence >= state.logStart {
                isNotice = try isDiscarded(sequence, for: ordinal, in: project)
            }
            if isNotice { last = sequence }
        }
        return last
    }

    /// Whether a message was discarded because the instance was inactive (STO-2).
    private func isDiscarded(
        _ sequence: MessageSequence, for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        if let row = try raw.get(.inbox, .inbox(ordinal, sequence, in: project)) {
            return InboxRow.row(sequence, row).isDiscarded
        }
        let key = Key.log(LogRow(sequence, isDiscarded: true), in: project)
        guard let blob = try raw.get(.recipients, key) else { return false }
        return RecipientSetView.contains(ordinal, in: blob) ?? false
    }

    /// Whether an instance's log has a message or notice of this sequence. A device can send any number.
    private func isLogged(
        _ sequence: MessageSequence, for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        if try raw.get(.inbox, .inbox(ordinal, sequence, in: project)) != nil { return true }
        for row in [LogRow(sequence), LogRow(sequence, isDiscarded: true)] {
            if let blob = try raw.get(.recipients, .log(row, in: project)),
                RecipientSetView.contains(ordinal, in: blob) ?? false
            {
                return true
            }
        }
        return false
    }

    /// Counts a single acknowledgement of an entry in the instance's log.
    /// - Parameter wanted: what becomes of a message whose time isn't over.
    /// - Returns: whether it was counted as `wanted`.
    private func countSingle(
        _ sequence: MessageSequence, by taker: Taker, _ state: MailboxState,
        as wanted: ReportEvent, now: Instant
    ) throws(StorageError) -> Bool {
        guard tally != nil,
            let bytes = try raw.get(.messages, .log(LogRow(sequence), in: taker.project))
        else { return false }
        let record = try MessageRecord(bytes)
        guard !record.flags.contains(.isExpired),
            let variant = try record.variant(on: taker.platform),
            sequence > state.acknowledged[variant.lane], try isGiven(sequence, to: taker)
        else { return false }
        var event = wanted
        if variant.expires <= now {
            if try outcomes.isClosed(sequence, for: taker.ordinal, in: taker.project) {
                return false
            }
            event = try outcomes.ending(
                of: record, sequence, expires: variant.expires, in: taker.project)
        }
        reports.count(
            event, of: sequence, accepted: record.accepted, for: taker.ordinal, of: taker.app,
            in: taker.project)
        return event == wanted
    }

    /// Whether a message was given to an instance, or will be. A notice of discards doesn't count.
    private func isGiven(
        _ sequence: MessageSequence, to taker: Taker
    ) throws(StorageError) -> Bool {
        let key = Key.inbox(taker.ordinal, sequence, in: taker.project)
        if let row = try raw.get(.inbox, key) {
            return !InboxRow.row(sequence, row).isDiscarded
        }
        guard let blob = try raw.get(.recipients, .log(LogRow(sequence), in: taker.project)) else {
            return false
        }
        return RecipientSetView.contains(taker.ordinal, in: blob) ?? false
    }
}
