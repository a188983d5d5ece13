// SPDX-License-Identifier: Apache-2.0
//
// Where the engine's rules meet the rows: one snapshot, or the one transaction that writes. A transaction is
// ~Copyable and lives for one call, so nothing that was borrowed from rows outlives it. Rests on the ledgers.

public import MartletBase
package import MartletRows

/// One snapshot, or the one writing transaction.
public struct Transaction: ~Copyable {
    let context: LedgerContext

    fileprivate init(_ context: LedgerContext) { self.context = context }

    /// A snapshot that no other transaction of the process is compared with.
    package init(_ raw: Rows) { self.init(LedgerContext(raw, SetChanges())) }

    package var raw: Rows { context.rows }
    public var snapshot: UInt64 { context.rows.number }

    /// The last transaction that changed a set of the project's, or is about to: with everything that
    /// was read in a snapshot not below this one, sets are as they are here.
    public func lastSetChange(in project: ProjectNumber) -> UInt64 {
        context.setChanges.last(in: project)
    }
}

// MARK: The ledgers

extension Transaction {
    package var projects: ProjectLedger { ProjectLedger(context) }
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

/// What the transactions of one store have in common.
package final class Ledgers: Sendable {
    private let settlings = Settlings()
    private let setChanges = SetChanges()
    private let reportsPerProjectMax: Int

    /// - Parameter reportsPerProjectMax: reports of single messages that are kept of a project (REP-1); 0: any
    ///   number.
    package init(reportsPerProjectMax: Int) { self.reportsPerProjectMax = reportsPerProjectMax }

    package func reading(_ rows: any RowTransaction) -> Transaction {
        Transaction(LedgerContext(Rows(rows), setChanges))
    }

    /// Runs `body`, and writes what is written once at a transaction's end. The caller commits.
    package func write<Result>(
        _ rows: any RowTransaction,
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let tally = ReportTally()
        let context = LedgerContext(Rows(rows), setChanges, settlings, tally)
        let result = try body(Transaction(context))
        // The store frees the cursors of a transaction that ends.
        tally.cursors.removeAll()
        try Collecting(context).writeBlobs()
        try ReportLedger(context).writeTally(reportsMax: reportsPerProjectMax)
        try ExpiryLines(context).write()
        try ProjectLedger(context).writeProjects()
        return result
    }

    /// A transaction was not committed.
    package func forget() { settlings.forget() }
}
