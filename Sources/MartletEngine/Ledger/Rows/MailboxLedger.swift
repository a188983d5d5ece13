// SPDX-License-Identifier: Apache-2.0
//
// A mailbox's rows: the instance's marks, when it was last seen, its connection, and the rows of `acknowledged` above
// the marks. Applies no rule. Rests on SetLedger.

package import MartletBase
package import MartletRows

/// The state of mailboxes.
package struct MailboxLedger: Ledger {
    package let context: LedgerContext
    private var sets: SetLedger { SetLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// The state of a registered instance's mailbox.
    package func state(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MailboxState {
        let key = Key.ordinal(ordinal, in: project)
        guard let found = try raw.get(.mailboxes, key) else { return MailboxRow.nowhere }
        var state = try MailboxRow.state(found)
        if let connection = try connection(key) {
            state.awayFrom = max(state.awayFrom, connection.start.position)
            state.awayThrough = connection.start.position
            state.hasLostConnection = try !isLiving(connection.run)
        }
        return state
    }

    /// Writes a mailbox's state.
    /// - Parameter before: the state as it was read, from which `state` was made.
    func put(
        _ state: MailboxState, after before: MailboxState, of ordinal: Ordinal,
        in project: ProjectNumber
    ) throws(StorageError) {
        invariant(
            state.acknowledged.isAtLeast(before.acknowledged),
            "The marks of an instance never go back.")
        invariant(
            state.discardedThrough >= before.discardedThrough,
            "Discarded messages of an instance stay discarded.")
        invariant(state.awayFrom >= before.awayFrom, "The beginning of an absence never goes back.")
        invariant(state.seen >= before.seen, "An instance was last seen no earlier than before.")
        try raw.put(.mailboxes, .ordinal(ordinal, in: project), MailboxRow.bytes(state))
    }
    /// The instance is no longer connected. From here on, messages behind `position` count against the limit of stored
    /// messages (STO-1).
    func leave(
        _ ordinal: Ordinal, in project: ProjectNumber, position: MessageSequence
    ) throws(StorageError) {
        let before = try state(of: ordinal, in: project)
        var state = before
        state.awayFrom = max(state.awayFrom, position)
        try put(state, after: before, of: ordinal, in: project)
        try raw.delete(.connections, .ordinal(ordinal, in: project))
    }

    /// The instance is connected at `now`.
    func see(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) throws(StorageError) {
        let before = try state(of: ordinal, in: project)
        var state = before
        state.seen = max(before.seen, now)
        try put(state, after: before, of: ordinal, in: project)
        try setSeen(state.seen, before: before.seen, ordinal, in: project)
    }

    /// Notes when the instance was last connected. It leaves the inactive set if it was in it.
    func setSeen(
        _ seen: Instant, before: Instant, _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        let id = UInt64(ordinal.rawValue)
        if try !raw.delete(.due, .due(.seen, before, project, id)) {
            _ = try sets.remove([ordinal.rawValue], from: .inactive, in: project)
        }
        try raw.put(.due, .due(.seen, seen, project, id), [])
    }

    func run() throws(StorageError) -> RunRow {
        guard let found = try raw.get(.meta, RunRow.key) else { return RunRow() }
        return try RunRow(found)
    }

    func connection(_ key: Key) throws(StorageError) -> ConnectionRow? {
        guard let found = try raw.get(.connections, key) else { return nil }
        return try ConnectionRow(found)
    }

    /// Whether an instance has a connection to a living run of the broker.
    func isConnected(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let connection = try connection(.ordinal(ordinal, in: project)) else { return false }
        return try isLiving(connection.run)
    }

    /// Whether a run's process still has its connections. A lone broker has one living run; several nodes have one each.
    func isLiving(_ number: UInt32) throws(StorageError) -> Bool {
        if try run().number == number { return true }
        return try livingRuns()?.runs.contains { $0.number == number } ?? false
    }

    /// The living runs of all nodes; nil if the store is a lone broker's (OPS-7).
    package func livingRuns() throws(StorageError) -> LivingRunsRow? {
        guard let found = try raw.get(.meta, LivingRunsRow.key) else { return nil }
        return try LivingRunsRow(found)
    }

    func put(_ connection: ConnectionRow, _ key: Key) throws(StorageError) {
        try raw.put(.connections, key, connection.bytes)
    }

    /// Deletes rows of `acknowledged` that no entry of the log needs: those up to `through`, and those of deleted
    /// messages.
    func removeIdleMarks(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) {
        for key in try idleMarks(of: ordinal, in: project, through: through) {
            try raw.deleteFound(.acknowledged, key)
        }
    }

    private func idleMarks(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) -> [Key] {
        let prefix = Key.ordinal(ordinal, in: project)
        let marks = try Cursor(raw, .acknowledged)
        let messages = try Cursor(raw, .messages)
        /// The sequence at the cursor of `messages`: `.max` behind the project's last message, 0 before the first
        /// search.
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
                // With many marks, the next message mostly belongs to the next mark, so try a step before a search.
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

    func removeSettlement(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.delete(
            .due,
            .due(
                .settlement, Instant(millisecondsSince1970: 0), project, UInt64(ordinal.rawValue)))
    }
}
