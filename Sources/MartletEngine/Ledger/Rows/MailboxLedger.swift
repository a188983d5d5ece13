// SPDX-License-Identifier: Apache-2.0
//
// The row of a mailbox and the rows beside it: an instance's marks, when it was seen last, its connection, and single
// marks above the lanes' marks. No rule is applied here. Rests on SetLedger.

package import MartletBase
package import MartletRows

/// The state of mailboxes.
package struct MailboxLedger: Ledger {
    package let context: LedgerContext
    private var sets: SetLedger { SetLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// How far a registered instance is.
    package func state(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MailboxState {
        let key = Key.ordinal(ordinal, in: project)
        guard let found = try raw.get(.mailboxes, key) else { return MailboxRow.nowhere }
        var state = try MailboxRow.state(found)
        if let connection = try connection(key) {
            state.awayFrom = max(state.awayFrom, connection.start.position)
            state.awayThrough = connection.start.position
            state.hasLostConnection = try connection.run != run().number
        }
        return state
    }

    /// The instance has no connection any more: STO-1 counts from here on.
    func leave(
        _ ordinal: Ordinal, in project: ProjectNumber, position: MessageSequence
    ) throws(StorageError) {
        let key = Key.ordinal(ordinal, in: project)
        var state = try state(of: ordinal, in: project)
        state.awayFrom = max(state.awayFrom, position)
        try raw.put(.mailboxes, key, MailboxRow.bytes(state))
        try raw.delete(.connections, key)
    }

    /// The instance is there at `now`.
    func see(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) throws(StorageError) {
        var state = try state(of: ordinal, in: project)
        let before = state.seen
        state.seen = max(before, now)
        try raw.put(.mailboxes, .ordinal(ordinal, in: project), MailboxRow.bytes(state))
        try setSeen(state.seen, before: before, ordinal, in: project)
    }

    /// The instance is there, so it is not inactive.
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

    /// Whether an instance has a connection to the broker as it runs now.
    func isConnected(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let connection = try connection(.ordinal(ordinal, in: project)) else { return false }
        return try connection.run == run().number
    }

    func put(_ connection: ConnectionRow, _ key: Key) throws(StorageError) {
        try raw.put(.connections, key, connection.bytes)
    }

    /// Deletes what says something of single entries that are in the log no more.
    func removeIdleMarks(
        of ordinal: Ordinal, in project: ProjectNumber, through: MessageSequence
    ) throws(StorageError) {
        for key in try idleMarks(of: ordinal, in: project, through: through) {
            try raw.delete(.acknowledged, key)
        }
    }

    private func idleMarks(
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

    func removeSettlement(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.delete(
            .due,
            .due(
                .settlement, Instant(millisecondsSince1970: 0), project, UInt64(ordinal.rawValue)))
    }
}
