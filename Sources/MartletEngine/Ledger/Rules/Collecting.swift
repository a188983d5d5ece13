// SPDX-License-Identifier: Apache-2.0
//
// Collects fanouts like garbage. A fanout with a blob doesn't count the instances that still need it. So the collection
// settles one instance after another, and marks the fanouts that each one needs. It is done when every fanout is marked, or
// every instance settled. What isn't marked is deleted, whether it was acknowledged, replaced, discarded, or has expired.
//
// A collection begins when as many bytes of blobs have come as the last one left, so its cost per fanout is bounded, and at
// the latest a day after the first blob. It goes on in small steps. Rests on Settling.

import MartletBase
import MartletRows

/// Collects fanouts that nobody needs.
package struct Collecting: Ledger {
    package let context: LedgerContext
    private var messages: MessageLedger { MessageLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }
    private var settling: Settling { Settling(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Longest time from a new blob to a collection, and between collections that leave blobs, in seconds: a day.
    private static let restSeconds: Int64 = 86_400

    /// A blob counts as at least so many bytes, because its message has other rows too.
    private static let blobBytesMin: UInt64 = 1024

    /// With fewer bytes of new blobs, no collection begins before a day is over.
    private static let freshMin: UInt64 = 256 * blobBytesMin

    /// How many bytes of new blobs per instance to wait for, because a collection looks at every instance.
    private static let freshPerInstance: UInt64 = 8

    /// Instances to read between two checks of the budget.
    private static let batchMax = 256

    /// Most blobs to count, which takes less than a millisecond.
    private static let blobsCounted = 16_384

    /// Notes that a blob came, or that its message expired.
    func noteBlob(of bytes: Int, in project: ProjectNumber, now: Instant) {
        let before = tally?.blobs[project]?.bytes ?? 0
        tally?.blobs.set((before + max(UInt64(bytes), Self.blobBytesMin), now), of: project)
    }

    /// Writes the noted bytes at the end of a transaction.
    func writeBlobs() throws(StorageError) {
        for (project, blobs) in tally?.blobs.sorted ?? [] {
            try note(blobs.bytes, in: project, now: blobs.now)
        }
    }

    private func note(
        _ bytes: UInt64, in project: ProjectNumber, now: Instant
    ) throws(StorageError) {
        var row = try collection(of: project) ?? CollectionRow(due: .never)
        row.fresh += bytes
        var due = row.due
        if row.phase == .idle {
            due = min(due, now.advanced(bySeconds: Self.restSeconds))
            if due > now, row.fresh >= max(row.live, Self.freshMin) {
                let instances = try projects.project(project)?.instanceCount ?? 0
                if row.fresh >= instances * Self.freshPerInstance { due = now }
            }
        }
        try put(row, due: due, in: project)
    }

    private func collection(
        of project: ProjectNumber
    ) throws(StorageError) -> CollectionRow? {
        guard let found = try raw.get(.collections, Key(project)) else { return nil }
        return try CollectionRow(found)
    }

    /// Writes a collection's row, and the matching one in `due`.
    private func put(
        _ row: CollectionRow, due: Instant, in project: ProjectNumber
    ) throws(StorageError) {
        if due != row.due {
            if row.due != .never { try raw.delete(.due, .due(.collection, row.due, project)) }
            if due != .never { try raw.put(.due, .due(.collection, due, project), []) }
        }
        var row = row
        row.due = due
        try raw.put(.collections, Key(project), row.bytes)
    }

    /// Does one step of a collection.
    func collect(
        _ project: ProjectNumber, now: Instant, limits: BrokerLimits, rows: inout Int
    ) throws(StorageError) {
        guard var row = try collection(of: project) else {
            throw StorageError(
                operation: "read due", code: 0,
                text: "a collection is missing; run 'martlet check'", isFull: false)
        }
        var due = row.due
        switch row.phase {
        case .idle:
            settlings?.forgetCollection(of: project)
            row.through = try projects.project(project)?.lastSequence ?? .none
            row.fresh = 0
            row.position = 0
            let count = try blobCount(through: row.through, in: project)
            row.phase = count == nil ? .marking : .markingCounted
            row.left = count ?? 0
            rows -= 1
        case .marking, .markingCounted:
            try mark(project, &row, now: now, limits: limits, rows: &rows)
        case .deleting:
            try deleteUnmarked(project, &row, rows: &rows)
            if row.phase == .idle {
                due = row.fresh + row.live == 0 ? .never : now.advanced(bySeconds: Self.restSeconds)
            }
        }
        try put(row, due: due, in: project)
    }

    private func mark(
        _ project: ProjectNumber, _ row: inout CollectionRow, now: Instant, limits: BrokerLimits,
        rows: inout Int
    ) throws(StorageError) {
        guard let last = try lastBlob(of: project) else {
            row.phase = .deleting
            row.position = 0
            row.left = 0
            return
        }
        var marked: Set<LogRow> = []
        while rows > 0 {
            let batch = try instances(
                from: row.position, lastBlob: last, in: project, rows: &rows)
            for (place, ordinal) in batch.ordinals.enumerated() {
                var needed: [LogRow] = []
                var isDone = false
                if rows > 0 || place == 0 {
                    isDone = try settling.settle(
                        ordinal, in: project, now: now, limits: limits, rows: &rows
                    ) { needed.append($0) }
                }
                for log in needed where log.sequence <= row.through {
                    let key = Key.log(log, in: project)
                    guard marked.insert(log).inserted, try raw.get(.live, key) == nil else {
                        continue
                    }
                    try raw.put(.live, key, [])
                    if row.phase == .markingCounted, row.left > 0 { row.left -= 1 }
                }
                // End early when every blob is marked. Mostly the first absent instance needs all.
                if row.phase == .markingCounted, row.left == 0 {
                    row.phase = .deleting
                    row.position = 0
                    return
                }
                // A long log is settled over many steps.
                guard isDone else {
                    row.position = UInt64(ordinal.rawValue)
                    return
                }
            }
            guard let next = batch.next else {
                row.phase = .deleting
                row.position = 0
                row.left = 0
                return
            }
            invariant(next >= row.position, "Each step of a marking goes forward.")
            row.position = next
        }
    }

    /// How many blobs there are; nil if more than `blobsCounted`.
    private func blobCount(
        through last: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> UInt64? {
        let cursor = try Cursor(raw, .recipients)
        var found = try cursor.seek(Key(project))
        var count: UInt64 = 0
        while let entry = found, Key(project).isPrefix(of: entry.key),
            LogRow(entry.key).sequence <= last
        {
            count += 1
            guard count <= Self.blobsCounted else { return nil }
            found = try cursor.next()
        }
        return count
    }

    private func lastBlob(
        of project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        let cursor = try Cursor(raw, .recipients)
        // No stored message has the highest sequence.
        let end = Key.sequence(MessageSequence(.max), in: project)
        guard let entry = try cursor.seekLast(below: end), Key(project).isPrefix(of: entry.key)
        else { return nil }
        return LogRow(entry.key).sequence
    }

    /// The next instances whose logs may have entries, and where to go on.
    private func instances(
        from position: UInt64, lastBlob: MessageSequence, in project: ProjectNumber,
        rows: inout Int
    ) throws(StorageError) -> (ordinals: [Ordinal], next: UInt64?) {
        guard position <= UInt64(UInt32.max) else { return ([], nil) }
        let prefix = Key(project)
        let mailboxes = try Cursor(raw, .mailboxes)
        var inbox = try OrdinalCursor(raw, .inbox, project)
        var single = try OrdinalCursor(raw, .acknowledged, project)
        var found = try mailboxes.seek(
            .ordinal(Ordinal(UInt32(truncatingIfNeeded: position)), in: project))
        var ordinals: [Ordinal] = []
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let ordinal = entry.key.ordinal
            guard ordinals.count < Self.batchMax, rows > 0 else {
                return (ordinals, UInt64(ordinal.rawValue))
            }
            rows -= 1
            let start = try MailboxRow.state(entry.value).logStart
            var hasEntries = lastBlob > start
            if !hasEntries { hasEntries = try inbox.has(ordinal) }
            if !hasEntries { hasEntries = try single.has(ordinal) }
            if hasEntries { ordinals.append(ordinal) }
            found = try mailboxes.next()
        }
        assert(ordinals.isAscending, "Instances are collected in the order of their ordinals.")
        return (ordinals, nil)
    }

    private func deleteUnmarked(
        _ project: ProjectNumber, _ row: inout CollectionRow, rows: inout Int
    ) throws(StorageError) {
        while rows > 0 {
            guard let (log, bytes) = try blob(from: row.position, in: project),
                log.sequence <= row.through
            else {
                row.phase = .idle
                row.live = row.left
                return
            }
            rows -= 1
            let key = Key.log(log, in: project)
            if try raw.delete(.live, key) {
                row.left += max(UInt64(bytes), Self.blobBytesMin)
            } else if let found = try raw.get(.messages, key) {
                try messages.removeMessage(
                    log, try MessageRecord(found), in: project, isUnmarked: true)
            }
            let next = (log.sequence.rawValue << 1 | (log.isDiscarded ? 1 : 0)) + 1
            invariant(next > row.position, "Each step of a deletion goes forward.")
            row.position = next
        }
    }

    /// The first blob from a position on. That is twice the sequence, plus 1 for the row of discarded recipients.
    private func blob(
        from position: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> (LogRow, bytes: Int)? {
        let prefix = Key(project)
        let start = LogRow(MessageSequence(position >> 1), isDiscarded: position & 1 != 0)
        let cursor = try Cursor(raw, .recipients)
        guard let entry = try cursor.seek(.log(start, in: project)), prefix.isPrefix(of: entry.key)
        else { return nil }
        return (LogRow(entry.key), entry.value.count)
    }
}

/// Tells for ascending ordinals whether a table has rows of an instance.
private struct OrdinalCursor: ~Copyable {
    private let cursor: Cursor
    private let project: ProjectNumber
    /// The ordinal at the cursor; nil behind the project's last row.
    private var current: UInt32?
    private var isPlaced = false

    init(
        _ raw: Rows, _ table: Table, _ project: ProjectNumber
    ) throws(StorageError) {
        cursor = try Cursor(raw, table)
        self.project = project
    }

    mutating func has(_ ordinal: Ordinal) throws(StorageError) -> Bool {
        if !isPlaced || (current ?? .max) < ordinal.rawValue {
            let found = try cursor.seek(.ordinal(ordinal, in: project))
            isPlaced = true
            current = nil
            if let found, Key(project).isPrefix(of: found.key) {
                current = found.key.ordinal.rawValue
            }
        }
        return current == ordinal.rawValue
    }
}

extension Instant {
    /// A time later than all others.
    fileprivate static let never = Instant(millisecondsSince1970: .max)
}
