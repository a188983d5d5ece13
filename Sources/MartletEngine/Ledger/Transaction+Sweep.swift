// SPDX-License-Identifier: Apache-2.0
//
// What happens by itself at a time, in steps of bounded size: instances become inactive, messages
// expire, also those of devices, answers and receipts are forgotten. An expired message loses its
// bodies at once. Its other rows go as soon as they cannot matter for what is left: where
// recipients are few by settling them, where they are many by the project's collection of fanouts.
// Rests on Schema.

public import MartletBase
public import MartletRows

extension Transaction {
    /// Sees to what happens by itself, and gives back the storage of what cannot matter any more, a
    /// bounded step at a time: instances become inactive, messages expire, answers and questions for
    /// receipts are forgotten. Not scheduled messages.
    /// - Returns: whether there is more to do at `now`.
    public borrowing func sweep(
        now: Instant, limits: MailboxLimits, rowsMax: Int
    ) throws(StorageError) -> Bool {
        var rows = rowsMax
        try sweepSeen(now: now, limits: limits, rows: &rows)
        while rows > 0, let due = try nextDue(.answer, through: now) {
            try removeAnswer(AnswerDigest(bytes: due.id), in: due.project)
            try remove(due, .answer)
            rows -= 1
        }
        while rows > 0, let due = try nextDue(.receiptsWanted, through: now) {
            try raw.delete(.receiptsWanted, .number(due.number, in: due.project))
            try remove(due, .receiptsWanted)
            rows -= 1
        }
        while rows > 0, let due = try nextDue(.receiptsTold, through: now) {
            var key = Key(due.project)
            key.append(name: due.id)
            try raw.delete(.receiptsTold, key)
            try remove(due, .receiptsTold)
            rows -= 1
        }
        while rows > 0, let due = try nextDue(.receiptsTaken, through: now) {
            rows -= try 1 + deleteTaken(in: due.project, rowsMax: rows)
        }
        while rows > 0, let due = try nextDue(.upstream, through: now) {
            _ = try removeUpstream(due.number, in: due.project)
            try remove(due, .upstream)
            rows -= 1
        }
        while rows > 0, let due = try nextDue(.upstreamIDs, through: now) {
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            try remove(due, .upstreamIDs)
            try forgetUpstreamIDs(of: ordinal, in: due.project, now: now)
            rows -= 1
        }
        while rows > 0, let due = try nextDue(.discarded, through: now) {
            let row = LogRow(MessageSequence(due.number), isDiscarded: true)
            rows -= try 1 + forget(row, in: due.project)
            try remove(due, .discarded)
        }
        try sweepLines(now: now, rows: &rows) { (row, project, rows) throws(StorageError) in
            try expire(row, in: project, now: now, limits: limits, rows: &rows)
        }
        while rows > 0, let due = try nextDue(.expiry, through: now) {
            rows -= 1
            let row = LogRow(MessageSequence(due.number))
            if try expire(row, in: due.project, now: now, limits: limits, rows: &rows) {
                try remove(due, .expiry)
            }
        }
        while rows > 0, let due = try nextDue(.settlement, through: now) {
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            rows -= 1
            let isDone = try settle(
                ordinal, in: due.project, now: now, limits: limits, rows: &rows)
            if isDone { try remove(due, .settlement) }
        }
        while rows > 0, let due = try nextDue(.collection, through: now) {
            try collect(due.project, now: now, limits: limits, rows: &rows)
        }
        try sweepReports(now: now, limits: limits, rows: &rows)
        return rows <= 0
    }

    /// STO-2: who has not connected for too long becomes inactive.
    public borrowing func isInactivityDue(
        now: Instant, limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        guard let last = Self.lastSeen(now: now, limits: limits) else { return false }
        return try nextDue(.seen, through: last) != nil
    }

    /// Who was seen then, or earlier, is inactive at `now`.
    private static func lastSeen(now: Instant, limits: MailboxLimits) -> Instant? {
        guard limits.inactiveSeconds > 0 else { return nil }
        let last = Instant(
            millisecondsSince1970: now.millisecondsSince1970 - 1
                - Int64(limits.inactiveSeconds) * 1000)
        return last.millisecondsSince1970 >= 0 ? last : nil
    }

    private borrowing func sweepSeen(
        now: Instant, limits: MailboxLimits, rows: inout Int
    ) throws(StorageError) {
        guard let last = Self.lastSeen(now: now, limits: limits) else { return }
        var ordinals: [ProjectNumber: [UInt32]] = [:]
        while rows > 0, let due = try nextDue(.seen, through: last) {
            rows -= 1
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: due.number))
            if try endLostConnection(of: ordinal, in: due.project, now: now) { continue }
            // It is still there, however long ago that was told.
            if try isConnected(ordinal, in: due.project) {
                try see(ordinal, in: due.project, at: now)
                continue
            }
            ordinals[due.project, default: []].append(ordinal.rawValue)
            try remove(due, .seen)
        }
        for (project, found) in ordinals {
            _ = try add(found.sorted(), to: .inactive, in: project)
        }
    }

    /// Deletes a row of the log for everybody.
    /// - Returns: how many inbox rows it had.
    private borrowing func forget(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> Int {
        guard let found = try raw.get(.messages, .log(row, in: project)) else { return 0 }
        let owners = try MessageRecord(found).owners()
        for owner in owners {
            try raw.delete(.inbox, .inbox(owner, row.sequence, in: project))
        }
        if let found = try raw.get(.messages, .log(row, in: project)) {
            try removeMessage(row, try MessageRecord(found), in: project)
        }
        return owners.count
    }

    /// TTL-3: a message has expired for everybody.
    /// - Returns: whether all of its recipients were looked at.
    private borrowing func expire(
        _ row: LogRow, in project: ProjectNumber, now: Instant, limits: MailboxLimits,
        rows: inout Int
    ) throws(StorageError) -> Bool {
        let key = Key.log(row, in: project)
        guard let found = try raw.get(.messages, key) else { return true }
        let record = try MessageRecord(found)
        if !record.flags.contains(.hasBlob) {
            rows -= try expireFew(row, record, in: project, now: now, limits: limits)
            return true
        }
        guard try close(row, record, in: project, now: now, limits: limits, rows: &rows)
        else { return false }
        if try isHarmless(
            row, try self.record(row, in: project), in: project, now: now, limits: limits)
        {
            rows -= try forget(row, in: project)
            return true
        }
        let closed = try self.record(row, in: project).dropped(expiring: nil, .isExpired)
        try raw.put(.messages, key, closed)
        let blob = try raw.get(.recipients, key)?.count ?? 0
        noteBlob(of: blob, in: project, now: now)
        return true
    }

    /// - Returns: how many rows were looked at.
    private borrowing func expireFew(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError) -> Int {
        let owners = try record.owners()
        if record.flags.contains(.isDropped) {
            // Replaced, if it was for one; that is what its row in the inbox says then.
            tally?.cancelled.insert(
                ReportTally.Message(project: project, sequence: row.sequence))
        }
        let bytes = try record.dropped(expiring: nil, .isExpired)
        try raw.put(.messages, .log(row, in: project), bytes)
        var rows = 0
        for owner in owners {
            rows += try settle(owner, in: project, now: now, limits: limits)
        }
        // Who is on no platform of it has no entry of it.
        return try rows + forget(row, in: project)
    }

    private borrowing func record(
        _ row: LogRow, in project: ProjectNumber
    ) throws(StorageError) -> MessageRecord {
        guard let found = try raw.get(.messages, .log(row, in: project)) else {
            throw StorageError(
                operation: "read messages", code: 0,
                text: "a message is missing; run 'martlet check'", isFull: false)
        }
        return try MessageRecord(found)
    }

    /// How many messages are looked through to find that an expired one cannot matter.
    private static let harmlessLookup = 1024

    /// Whether an expired message can go without anybody's log being looked at: the project has so few
    /// messages that are not collapsible that nobody's can have been discarded (STO-1), and, if it
    /// is collapsible itself, nothing is left that it could have replaced or pushed out (COL-1, COL-3).
    private borrowing func isHarmless(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        let isCollapsible = try record.variants().contains { $0.collapse != .none }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(prefix)
        var looked = 0
        var plainCount = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            looked += 1
            guard looked <= Self.harmlessLookup else { return false }
            let other = LogRow(entry.key)
            if !other.isDiscarded {
                let record = try MessageRecord(entry.value)
                let (flags, variants) = (record.flags, try record.variants())
                if variants.contains(where: { $0.collapse == .none }) { plainCount += 1 }
                // One whose time is over is seen to after this: what became of it is asked then.
                if isCollapsible, other.sequence < row.sequence,
                    !flags.contains(.isExpired),
                    variants.contains(where: { $0.collapse != .none })
                {
                    return false
                }
            }
            if limits.storedPerInstanceMax > 0, plainCount > limits.storedPerInstanceMax {
                return false
            }
            found = try cursor.next()
        }
        return true
    }
}
