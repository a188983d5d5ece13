// SPDX-License-Identifier: Apache-2.0
//
// Where the engine's rules meet the rows: a snapshot, or the single transaction for writing. It is ~Copyable and lives
// for one call, so it outlives all bytes borrowed from rows. Rests on the ledgers.

package import MartletBase
package import MartletRows
import Synchronization

/// A snapshot, or the single writing transaction.
package struct Transaction: ~Copyable {
    let context: LedgerContext

    fileprivate init(_ context: LedgerContext) { self.context = context }

    /// A transaction that shares no memory with others.
    package init(_ raw: Rows) { self.init(LedgerContext(raw, SetChanges())) }

    package var raw: Rows { context.rows }
    /// Its number, which rises with every writing transaction.
    package var snapshot: UInt64 { context.rows.number }

    /// The last transaction that changed one of the project's sets, or is about to commit such a change. Sets from a
    /// snapshot of this number or above are unchanged.
    package func lastSetChange(in project: ProjectNumber) -> UInt64 {
        context.setChanges.last(in: project)
    }
}

// MARK: The ledgers

extension Transaction {
    package var projects: ProjectLedger { ProjectLedger(context) }
    package var registrations: RegistrationLedger { RegistrationLedger(context) }
    package var agents: AgentLedger { AgentLedger(context) }
    package var bridges: BridgeLedger { BridgeLedger(context) }
    package var apps: AppLedger { AppLedger(context) }
    package var instances: InstanceLedger { InstanceLedger(context) }
    package var topics: TopicLedger { TopicLedger(context) }
    package var sets: SetLedger { SetLedger(context) }
    package var groups: GroupLedger { GroupLedger(context) }
    package var mailboxes: MailboxLedger { MailboxLedger(context) }
    package var expiryLines: ExpiryLines { ExpiryLines(context) }
    package var messages: MessageLedger { MessageLedger(context) }
    package var log: MailboxLog { MailboxLog(context) }
    package var recipients: RecipientLedger { RecipientLedger(context) }
    package var reports: ReportLedger { ReportLedger(context) }
    package var receipts: ReceiptLedger { ReceiptLedger(context) }
    package var upstream: UpstreamLedger { UpstreamLedger(context) }
    package var answers: AnswerLedger { AnswerLedger(context) }
    package var scheduled: ScheduleLedger { ScheduleLedger(context) }
    package var deferred: DeferredLedger { DeferredLedger(context) }
    package var connections: ConnectionLedger { ConnectionLedger(context) }

    package var accepting: Accepting { Accepting(context) }
    package var acknowledging: Acknowledging { Acknowledging(context) }
    package var presence: Presence { Presence(context) }
    package var departing: Departing { Departing(context) }
    package var sweeping: Sweeping { Sweeping(context) }
    package var reporting: Reporting { Reporting(context) }
}

/// What all transactions of a store share in memory.
package final class Ledgers: Sendable {
    private let settlings = Settlings()
    private let setChanges = SetChanges()
    private let watching = Mutex(Watching())

    /// The last transaction's counts, for watchers (EMB-3).
    private struct Watching {
        var isOn = false
        var counts: [ProjectNumber: ReportCounts] = [:]
    }

    package init() {}

    /// Begins or ends keeping each transaction's counts (EMB-3).
    package func watchCounts(_ isOn: Bool) {
        watching.withLock { $0 = Watching(isOn: isOn) }
    }

    /// Takes the counts that the last transaction wrote to the day reports, by project; empty if none are kept (EMB-3).
    /// For the writing thread, after the commit.
    package func takeWatchedCounts() -> [ProjectNumber: ReportCounts] {
        watching.withLock { watching in
            defer { watching.counts = [:] }
            return watching.counts
        }
    }

    package func reading(_ rows: any RowTransaction) -> Transaction {
        Transaction(LedgerContext(Rows(rows), setChanges))
    }

    /// Runs `body`, and then writes what was gathered in memory. The caller commits.
    package func write<Result>(
        _ rows: any RowTransaction,
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let tally = ReportTally()
        tally.isWatched = watching.withLock { watching in
            watching.counts = [:]
            return watching.isOn
        }
        let context = LedgerContext(Rows(rows), setChanges, settlings, tally)
        let result = try body(Transaction(context))
        // Close the held cursors first: at its end a transaction's cursors are freed by the store.
        tally.cursors.removeAll()
        try Collecting(context).writeBlobs()
        try ReportLedger(context).writeTally()
        try ExpiryLines(context).write()
        try ProjectLedger(context).writeProjects()
        invariant(tally.isWritten, "A transaction writes all that it gathered before its commit.")
        if tally.isWatched { watching.withLock { $0.counts = tally.watched } }
        return result
    }

    /// Notes, before its commit, a writing transaction that changes one of the project's sets without a ledger.
    /// - Parameter transaction: its number.
    package func noteSetChange(of transaction: UInt64, in project: ProjectNumber) {
        setChanges.note(transaction, in: project)
    }

    /// Forgets progress and counts after a transaction that was not committed.
    package func forget() {
        settlings.forget()
        watching.withLock { $0.counts = [:] }
    }
}
