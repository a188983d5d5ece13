// SPDX-License-Identifier: Apache-2.0
//
// Reads an instance's log: the rows of its inbox and the blobs that contain it, merged in the order of their sequences. An
// entry comes from the fixed part of the message's record, so no body is read. Rests on MailboxLedger and ProjectLedger.

package import MartletBase
import MartletBits
package import MartletRows

/// Reads the logs of instances.
package struct MailboxLog: Ledger {
    package let context: LedgerContext
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Calls `body` with an instance's log entries after `sequence`, in order. Looks at no more than `rowsMax` of the
    /// project's messages, other instances' included.
    package func forEachLogged(
        for owner: MailboxOwner, after sequence: MessageSequence, rowsMax: Int,
        _ body: (LogEntry) -> Void
    ) throws(StorageError) -> LogScan {
        try forEachLoggedRow(for: owner, after: sequence, rowsMax: rowsMax) { body($0.entry) }
    }

    func forEachLoggedRow(
        for owner: MailboxOwner, after sequence: MessageSequence, rowsMax: Int,
        _ body: (LoggedRow) -> Void
    ) throws(StorageError) -> LogScan {
        let (ordinal, project) = (owner.ordinal, owner.project)
        let state = try mailboxes.state(of: ordinal, in: project)
        let first = MessageSequence(max(sequence, state.discardedThrough).rawValue + 1)
        let inboxPrefix = Key.ordinal(ordinal, in: project)
        let projectPrefix = Key(project)
        let marks = state.acknowledged
        let inbox = try Cursor(raw, .inbox)
        let recipients = try Cursor(raw, .recipients)
        var direct = try inbox.seek(.inbox(ordinal, first, in: project))
        var fanout = try recipients.seek(.sequence(first, in: project))
        let messages = try Cursor(raw, .messages)
        let singles = try hasSingleAcknowledgements(ordinal, in: project)
        var rows = 0
        var through = sequence
        while true {
            if let entry = direct, !inboxPrefix.isPrefix(of: entry.key) { direct = nil }
            if let entry = fanout, !projectPrefix.isPrefix(of: entry.key) { fanout = nil }
            // The next message is the lower of the two tables'.
            let directSequence = direct.map { $0.key.instanceSequence.rawValue } ?? .max
            let fanoutSequence = fanout.map { $0.key.number } ?? .max
            let next = MessageSequence(min(directSequence, fanoutSequence))
            guard next.rawValue != .max else { return .end(rowCount: rows) }
            invariant(next >= through, "A log is read in the order of its sequences.")
            // The next reading begins behind a sequence, so a pause must not split the two rows of one.
            if next > through {
                guard rows < rowsMax else { return .paused(through: through) }
                rows += 1
                through = next
            }
            let row: LogRow
            let isDirect = directSequence <= fanoutSequence
            if isDirect {
                row = InboxRow.row(next, direct!.value)
                direct = try inbox.next()
            } else {
                guard let isMember = RecipientSetView.contains(ordinal, in: fanout!.value) else {
                    throw RecordReader(fanout!.value, of: .recipients).damaged()
                }
                row = LogRow(next, isDiscarded: fanout!.key.count == 13)
                fanout = try recipients.next()
                guard isMember else { continue }
            }
            // Skip a dropped entry before reading its record: there may be many.
            var isSingle = false
            if singles, let single = try raw.get(.acknowledged, .inbox(ordinal, next, in: project))
            {
                if single.count == 1 { continue }
                isSingle = true
            }
            guard let found = try messages.value(of: .log(row, in: project)) else { continue }
            guard var entry = try logEntry(row, found, for: owner) else { continue }
            entry.isAcknowledged = isSingle || next <= marks[entry.lane]
            body(LoggedRow(row: row, isDirect: isDirect, entry: entry))
        }
    }

    private func logEntry(
        _ row: LogRow, _ bytes: UnsafeRawBufferPointer, for owner: MailboxOwner
    ) throws(StorageError) -> LogEntry? {
        let record = try MessageRecord(bytes)
        guard let variant = try record.variant(on: owner.platform) else { return nil }
        let content: LogEntry.Content
        switch variant.collapse {
        case _ where row.isDiscarded: content = .discarded
        case .none: content = .message(collapse: nil)
        case .app: content = .message(collapse: owner.appKey)
        case .key(let digest): content = .message(collapse: digest)
        case .opaque(let topic): content = .opaque(topic: topic)
        }
        return LogEntry(
            sequence: row.sequence, accepted: record.accepted, expires: variant.expires,
            priority: variant.priority, content: content)
    }

    func hasSingleAcknowledgements(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let prefix = Key.ordinal(ordinal, in: project)
        let cursor = try Cursor(raw, .acknowledged)
        guard let entry = try cursor.seek(prefix) else { return false }
        return prefix.isPrefix(of: entry.key)
    }

    func owner(
        _ instance: Instance, in project: ProjectNumber
    ) throws(StorageError) -> MailboxOwner? {
        guard let app = try projects.app(instance.app, in: project) else { return nil }
        return MailboxOwner(
            project: project, ordinal: instance.ordinal, platform: instance.platform,
            appKey: CollapseDigest(of: app.name))
    }
}

/// A log entry, and where its row is.
struct LoggedRow {
    let row: LogRow
    /// Whether the row is in the inbox; otherwise in `recipients`.
    let isDirect: Bool
    let entry: LogEntry
}

extension MessageRecord {
    /// The message as a variant's platforms get it.
    package func pending(
        _ sequence: MessageSequence, _ variant: Variant
    ) throws(StorageError) -> PendingMessage {
        let rest = try rest(sequence)
        let header = MessageHeader(
            sequence: sequence, number: rest.number, accepted: accepted,
            expires: variant.expires, kind: rest.kind, priority: variant.priority,
            isCollapsible: variant.collapse.isCollapsible,
            options: options, from: rest.from)
        let end = variant.bodyOffset + variant.bodyBytes
        return PendingMessage(
            header: header,
            body: UnsafeRawBufferPointer(rebasing: rest.bodies[variant.bodyOffset..<end]))
    }
}
