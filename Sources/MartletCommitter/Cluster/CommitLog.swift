// SPDX-License-Identifier: Apache-2.0
//
// What the committer asks of a log that has each transaction before the store. Without a log a transaction counts once the
// store has it. The committer asks once for each transaction, on its own thread. Rests on Committer.

package import MartletBase
package import MartletEngine
package import MartletRows
import MartletStore
package import MartletThreads
package import MartletTransport

/// The log has not taken a transaction, or perhaps not. The log itself knows why.
package struct LogRefusal: Error {
    package init() {}
}

/// A log that takes a transaction between its last change and its commit.
package protocol CommitLog: AnyObject {
    /// The time of the last transaction. No transaction is earlier.
    var floor: Instant { get }
    /// Whether a transaction is due without a command.
    var hasWork: Bool { get }
    /// Whether the committer may begin a transaction; false: it writes no more to this log.
    func mayBegin(_ transport: inout some Transport & ~Copyable) -> Bool

    // MARK: A transaction

    /// Removes the commands that must not be applied any more.
    func drop(_ batch: inout [Request])
    /// Why a command must not be applied any more; nil: it may.
    func refusal(of request: Request) -> MartletError?
    /// Makes the log's own changes, as the first of a transaction.
    func begin(now: Instant, in transaction: borrowing Transaction) throws(StorageError)
    /// The runs that commands come from.
    func runs(of batch: ArraySlice<Request>) -> [UInt32]
    /// Appends an open transaction.
    /// - Returns: its place; nil if there is nothing to log.
    func append(
        _ operations: [UInt8], of batch: [Request], _ done: Committer.Committed, at now: Instant
    ) throws(LogRefusal) -> LogPosition?
    /// The transaction is in the store.
    func committed()
    /// Ends the process, because the log has a transaction that the store can't take. The next process reads it from the log.
    func endProcess(_ error: StorageError) -> Never
    /// Takes the outcome of a command that no transaction has logged.
    func answer(_ request: Request, _ outcome: Outcome)

    // MARK: Afterwards

    /// Why commands are refused that the log has not taken; nil: they wait.
    func refusalOfWaiting() -> MartletError?
    /// Commands of the refused transaction that wait for its fate at the log.
    var heldCount: Int? { get }
    /// Everybody has been told of the transaction.
    /// - Parameter isLogged: whether it was logged.
    func published(isLogged: Bool)
    /// Whether the committer may go on after a refusal.
    func mayGoOn() -> Bool
}
