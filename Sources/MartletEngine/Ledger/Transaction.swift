// SPDX-License-Identifier: Apache-2.0
//
// Where the engine's rules meet the rows: one snapshot, or the one transaction that writes. A transaction is
// ~Copyable and lives for one call, so nothing that was borrowed from rows outlives it. Rests on MartletRows.

public import MartletBase
package import MartletRows

/// One snapshot, or the one writing transaction.
public struct Transaction: ~Copyable {
    package let raw: Rows
    private let setChanges: SetChanges
    /// nil: nothing is written.
    let settlings: Settlings?
    /// nil: nothing is written.
    let tally: ReportTally?

    fileprivate init(
        _ raw: Rows, _ setChanges: SetChanges, _ settlings: Settlings? = nil,
        _ tally: ReportTally? = nil
    ) {
        self.raw = raw
        self.setChanges = setChanges
        self.settlings = settlings
        self.tally = tally
    }

    /// A snapshot that no other transaction of the process is compared with.
    package init(_ raw: Rows) { self.init(raw, SetChanges()) }

    public var snapshot: UInt64 { raw.number }

    /// The last transaction that changed a set of the project's, or is about to: with everything that
    /// was read in a snapshot not below this one, sets are as they are here.
    public func lastSetChange(in project: ProjectNumber) -> UInt64 {
        setChanges.last(in: project)
    }

    /// A set of the project's is about to change.
    borrowing func noteSetChange(in project: ProjectNumber) {
        setChanges.note(raw.number, in: project)
    }
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
        Transaction(Rows(rows), setChanges)
    }

    /// Runs `body`, and writes what is written once at a transaction's end. The caller commits.
    package func write<Result>(
        _ rows: any RowTransaction,
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let transaction = Transaction(Rows(rows), setChanges, settlings, ReportTally())
        let result = try body(transaction)
        try transaction.finish(reportsMax: reportsPerProjectMax)
        return result
    }

    /// A transaction was not committed.
    package func forget() { settlings.forget() }
}
