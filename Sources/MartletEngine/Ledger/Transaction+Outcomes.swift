// SPDX-License-Identifier: Apache-2.0
//
// REP-1: an entry leaves an instance's log when the device has taken it, when a rule has it no more, when
// its time is over, or with the instance. Each place where that happens says so here, with the reason.
// Rests on Transaction+Counting and the replay.

import MartletBase
import MartletBits
import MartletRows

/// Whose log it is.
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

    /// From a record in `instances`.
    init(
        _ record: UnsafeRawBufferPointer, _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        var reader = RecordReader(record, of: .instances)
        _ = try reader.bytes(Limits.tokenRandomBytes + 32 + 8)
        app = AppNumber(try reader.read(UInt32.self))
        let platform = UInt8(truncatingIfNeeded: try reader.read(UInt32.self))
        guard let platform = Platform(rawValue: platform) else { throw reader.damaged() }
        self.platform = platform
        self.ordinal = ordinal
        self.project = project
    }
}

extension Transaction {
    private borrowing func count(
        _ event: ReportEvent, of entry: LogEntry, for taker: Taker
    ) {
        count(
            event, of: entry.sequence, accepted: entry.accepted, for: taker.ordinal,
            of: taker.app, in: taker.project)
    }

    // MARK: The device has taken it

    /// An instance acknowledges one message alone, which is an entry of its log.
    borrowing func countSingle(
        _ sequence: MessageSequence, by taker: Taker, _ state: MailboxState, now: Instant,
        limits: MailboxLimits
    ) throws(StorageError) {
        guard tally != nil,
            let bytes = try raw.get(.messages, .log(LogRow(sequence), in: taker.project))
        else { return }
        let record = try MessageRecord(bytes)
        guard !record.flags.contains(.isExpired),
            let variant = try record.variant(on: taker.platform),
            sequence > state.acknowledged[variant.lane], try isGiven(sequence, to: taker)
        else { return }
        var event = ReportEvent.acknowledged
        if variant.expires <= now {
            if try isClosed(sequence, for: taker.ordinal, in: taker.project) { return }
            event = try ending(
                of: record, sequence, expires: variant.expires, in: taker.project)
        }
        count(
            event, of: sequence, accepted: record.accepted, for: taker.ordinal, of: taker.app,
            in: taker.project)
    }

    /// Whether an instance was given a message, or is to be, and is not only told that there was one.
    private borrowing func isGiven(
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

    // MARK: A rule has it no more

    /// What became of an entry that is not stored any more; nil: that was counted, or is not.
    borrowing func outcome(
        of logged: LoggedRow, _ replay: borrowing MailboxReplay, for owner: Ordinal,
        in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> ReportEvent? {
        let entry = logged.entry
        guard !entry.isAcknowledged, entry.content != .discarded,
            let bytes = try raw.get(.messages, .log(logged.row, in: project))
        else { return nil }
        let record = try MessageRecord(bytes)
        // Whoever had not taken it when its time was over was counted then.
        if record.flags.isSuperset(of: [.hasBlob, .isExpired]) { return nil }
        if replay.replaced.contains(entry.sequence) { return .collapsed }
        if replay.isDiscarded(entry) { return .discardedTooMany }
        if logged.isDirect {
            let key = Key.inbox(owner, entry.sequence, in: project)
            if try raw.get(.inbox, key)?.count == 9 { return .collapsed }
        }
        guard entry.expires <= now else { return .collapsed }
        return try ending(of: record, entry.sequence, expires: entry.expires, in: project)
    }

    /// Why the time of a message is over that expired then for an instance: one that is cancelled
    /// expires at that instant for all for whom it had not expired before.
    borrowing func ending(
        of record: MessageRecord, _ sequence: MessageSequence, expires: Instant,
        in project: ProjectNumber
    ) throws(StorageError) -> ReportEvent {
        let message = ReportTally.Message(project: project, sequence: sequence)
        var isCancelled = tally?.cancelled.contains(message) ?? false
        if !isCancelled {
            isCancelled =
                record.flags.isSuperset(of: .isDropped)
                && !record.flags.contains(.isExpired)
        }
        guard isCancelled else { return .expired }
        return try expires == record.expires() ? .cancelled : .expired
    }

    /// Counts an entry that settling finds stored no more.
    borrowing func countDropped(
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

    // MARK: With the instance

    /// An instance leaves, and everything that waits for it goes.
    borrowing func countLeft(
        by instance: Instance, now: Instant, limits: MailboxLimits
    ) throws(StorageError) {
        guard tally != nil, let owner = try owner(instance, in: instance.project) else { return }
        let state = try mailboxState(of: instance.ordinal, in: instance.project)
        let taker = Taker(instance)
        let (rows, replay) = try read(owner, state, limits: limits)
        for row in rows where !row.entry.isAcknowledged && row.entry.content != .discarded {
            guard replay.isStored(row.entry, at: now) else {
                try countDropped(row, replay, for: taker, now: now)
                continue
            }
            count(.unregistered, of: row.entry, for: taker)
        }
    }

    borrowing func read(
        _ owner: MailboxOwner, _ state: MailboxState, limits: MailboxLimits
    ) throws(StorageError) -> (rows: [LoggedRow], replay: MailboxReplay) {
        var left = Int.max
        return try read(owner, state, limits: limits, scanned: &left)
    }

    /// A log, and what the rules say of it.
    /// - Parameter left: rows that were looked at are taken off.
    borrowing func read(
        _ owner: MailboxOwner, _ state: MailboxState, limits: MailboxLimits,
        scanned left: inout Int
    ) throws(StorageError) -> (rows: [LoggedRow], replay: MailboxReplay) {
        var replay = MailboxReplay(
            limits: limits, state: state, keepsUncounted: false, keepsReplaced: true)
        var rows: [LoggedRow] = []
        let scan = try forEachLoggedRow(for: owner, after: state.logStart, rowsMax: .max) { row in
            replay.add(row.entry)
            rows.append(row)
        }
        if case .end(let count) = scan { left -= count + 1 }
        return (rows, replay)
    }

    // MARK: Its time is over

    /// Instances of which a look counts as one row of a step.
    private static let ordinalsPerRow = 64

    /// A message to many is over: whoever has not got it does not get it.
    /// - Returns: whether everybody was looked at.
    borrowing func close(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, now: Instant,
        limits: MailboxLimits, rows: inout Int
    ) throws(StorageError) -> Bool {
        guard tally != nil, try isPending(row.sequence, in: project) else { return true }
        let mayBeDropped = try mayBeDropped(row, record, in: project, limits: limits)
        let key = Key.sequence(row.sequence, in: project)
        let from = try raw.get(.closings, key)?.loadLittleEndian(UInt32.self, at: 0) ?? 0
        var next: UInt32?
        var left = rows
        try withRecipients(of: row, in: project) { (view) throws(StorageError) in
            var index = view.index(ofBlockFrom: from)
            while index < view.blockCount, left > 0 {
                let ordinals = view.ordinals(ofBlockAt: index)
                let open = try waiting(
                    for: row.sequence, record, among: ordinals, in: project)
                for ordinal in open {
                    left -= try close(
                        row, record, for: ordinal, mayBeDropped: mayBeDropped, in: project,
                        now: now, limits: limits)
                }
                left -= 1 + ordinals.count / Self.ordinalsPerRow
                index += 1
            }
            if index < view.blockCount { next = view.block(at: index).block }
        }
        rows = left
        guard let next else {
            try raw.delete(.closings, key)
            return true
        }
        var writer = RecordWriter()
        writer.append(next)
        try raw.put(.closings, key, writer.bytes)
        return false
    }

    /// - Returns: how many entries of the instance's log were looked at.
    private borrowing func close(
        _ row: LogRow, _ record: MessageRecord, for ordinal: Ordinal, mayBeDropped: Bool,
        in project: ProjectNumber, now: Instant, limits: MailboxLimits
    ) throws(StorageError) -> Int {
        guard let instance = try instance(ordinal, in: project),
            let owner = try owner(instance, in: project),
            let variant = try record.variant(on: instance.platform)
        else { return 0 }
        var event = try ending(
            of: record, row.sequence, expires: variant.expires, in: project)
        var looked = 0
        if mayBeDropped {
            let state = try mailboxState(of: ordinal, in: project)
            let (rows, replay) = try read(owner, state, limits: limits)
            looked = rows.count
            if let logged = rows.first(where: { $0.row == row }) {
                event =
                    try outcome(of: logged, replay, for: ordinal, in: project, now: now) ?? event
            }
        }
        count(
            event, of: row.sequence, accepted: record.accepted, for: ordinal, of: instance.app,
            in: project)
        return looked
    }

    /// How many messages are looked through to find that nobody's mailbox need be.
    private static let droppedLookup = 1024

    /// Whether a rule may have taken a message from anybody: others came that may have replaced it, or
    /// pushed it out (COL-1, COL-3), or there are more than may be stored (STO-1).
    private borrowing func mayBeDropped(
        _ row: LogRow, _ record: MessageRecord, in project: ProjectNumber, limits: MailboxLimits
    ) throws(StorageError) -> Bool {
        let isCollapsible = try record.variants().contains { $0.collapse != .none }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(prefix)
        var looked = 0
        var plainCount = 0
        while let entry = found, prefix.isPrefix(of: entry.key) {
            looked += 1
            guard looked <= Self.droppedLookup else { return true }
            let other = LogRow(entry.key)
            found = try cursor.next()
            guard !other.isDiscarded else { continue }
            let variants = try MessageRecord(entry.value).variants()
            if variants.contains(where: { $0.collapse == .none }) { plainCount += 1 }
            if limits.storedPerInstanceMax > 0, plainCount > limits.storedPerInstanceMax {
                return true
            }
            if isCollapsible, other.sequence > row.sequence,
                variants.contains(where: { $0.collapse != .none })
            {
                return true
            }
        }
        return false
    }

    /// Whether an instance was looked at when a message's time was over, while others still are.
    borrowing func isClosed(
        _ sequence: MessageSequence, for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let found = try raw.get(.closings, .sequence(sequence, in: project)) else {
            return false
        }
        return ordinal.blockIndex < found.loadLittleEndian(UInt32.self, at: 0)
    }

    /// Whether anybody's outcome is open. Without a report that is not known.
    borrowing func isPending(
        _ sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard var counts = try reportRow(of: sequence, in: project)?.counts else { return true }
        let message = ReportTally.Message(project: project, sequence: sequence)
        if let tally { counts += tally.counts(of: message) }
        return counts.pending > 0
    }
}

extension MessageRecord.Variant {
    var lane: Lane { Lane(priority, isCollapsible: collapse != .none) }

    /// Whether it is between two marks of its lane.
    func isBetween(
        _ before: LaneMarks, _ after: LaneMarks, _ sequence: MessageSequence
    ) -> Bool {
        sequence > before[lane] && sequence <= after[lane]
    }
}
