// SPDX-License-Identifier: Apache-2.0
//
// The public interface of the store: open a folder, read a snapshot on any thread, write on one thread. A
// transaction is ~Copyable and lives for one call. No bytes borrowed from the map can therefore outlive the
// transaction, and no reader can pin old pages for long. Rests on Environment.

package import MartletEngine
package import MartletRows
import Synchronization

/// The place of a store, its initial size, and its durability.
package struct StoreConfiguration: Sendable {
    /// The data folder. A missing folder is created, a missing parent is not.
    package var folder: String
    /// Initial address space of the map, in bytes. The file grows with its content, and a full map is doubled, so
    /// the size is no limit.
    package var mapBytes: Int

    /// Events that a committed transaction survives. `fsync` also survives a loss of power.
    package var durability: Durability

    package var purpose = Purpose.serving

    /// The purpose for which the store is opened.
    package enum Purpose: Sendable, Hashable {
        case serving
        /// Inspection in a process of its own: the store may be damaged, and reading a damaged store may end the
        /// process. The trial writes nothing except the recovery after a crash. If LMDB gives up, the process ends
        /// silently with `damageExitCode`.
        case trial
        /// Inspection of a folder that another process holds, on a snapshot. Nothing is written but LMDB's list of
        /// readers.
        case beside
        /// Recovery after a crash, before a trial.
        case recovery
        /// A change of the copy of a store of an older format.
        case migration(from: UInt32)
    }

    /// EX_DATAERR of sysexits.h.
    package static let damageExitCode: Int32 = 65

    /// Number of transactions after which a checkpoint begins.
    package var checkpointCommitsMax = Journal.commitsPerCheckpoint

    /// Called after each write to the journal that is on disk, with its duration in nanoseconds.
    package var journalWritten: (@Sendable (UInt64) -> Void)?

    /// Called when the folder was not closed by its last owner and is recovered, with the number of transactions that
    /// the journal had and the data file had not.
    package var recovered: (@Sendable (_ transactions: UInt64, _ isComplete: Bool) -> Void)?

    /// Called when the folder is a copy of one that was open, with the length of its data file, before everything in it is
    /// read and compared.
    package var checkingCopy: @Sendable (_ byteCount: Int) -> Void = { _ in }

    /// Called when the store has opened its folder again after a failure of the disk, on the writing thread.
    package var reopened: (@Sendable () -> Void)?

    /// The steps by which a folder of an older format is migrated. Tests give one of their own.
    package var migrationSteps = MigrationStep.all

    /// Called as a folder of an older format is migrated.
    package var migrating: @Sendable (MigrationEvent) -> Void = { _ in }

    /// Faults that a simulation injects; nil: none.
    package var faults: StoreFaults?

    /// Makes a configuration with a map of 1 GiB, and with transactions that survive a loss of power.
    package init(
        folder: String, mapBytes: Int = 1 << 30, durability: Durability = .fsync
    ) {
        self.folder = folder
        self.mapBytes = mapBytes
        self.durability = durability
    }

    /// The events that a committed transaction survives.
    package enum Durability: String, Sendable, CaseIterable {
        /// Loss of power: the transaction is on disk when the commit returns.
        case fsync
        /// The end of the process, but not of the operating system: a crash of the system may leave a store that
        /// cannot be opened.
        case os
    }
}

/// Faults of a simulated disk. The store calls the matching function before each operation.
package struct StoreFaults: Sendable {
    /// Called before a read transaction begins; an error fails the read.
    package var beforeRead: @Sendable () -> StorageError?
    /// Called when a transaction has written all its rows, before the commit; an error aborts the transaction.
    package var beforeCommit: @Sendable () -> StorageError?
    /// Whether the disk has no more room; nil: the real disk is asked.
    package var hasNoRoom: (@Sendable () -> Bool)?
    /// Called when the pages of a checkpoint are on disk, before its base is written; an error fails the
    /// checkpoint.
    package var beforeBase: (@Sendable () -> StorageError?)?
    /// Called when the log has the transaction, before the commit; an error fails the commit.
    package var afterLog: (@Sendable () -> StorageError?)?

    package init(
        beforeRead: @escaping @Sendable () -> StorageError?,
        beforeCommit: @escaping @Sendable () -> StorageError?,
        hasNoRoom: (@Sendable () -> Bool)? = nil,
        beforeBase: (@Sendable () -> StorageError?)? = nil
    ) {
        self.beforeRead = beforeRead
        self.beforeCommit = beforeCommit
        self.hasNoRoom = hasNoRoom
        self.beforeBase = beforeBase
    }
}

/// An open data folder.
package final class Store: Sendable {
    let environment: Environment
    let faults: StoreFaults?
    /// Used by the writing thread of a store with a log.
    let redoMaker = Mutex(RedoMaker())
    /// The memory of the engine's rules between transactions.
    package let ledgers: Ledgers

    /// Opens the folder, and recovers the store after a crash.
    ///
    /// - Throws: `StoreOpenError` or `StorageError`.
    package init(_ configuration: StoreConfiguration) throws {
        let folder = try OpenFolder.open(configuration)
        if folder.repeatedTransactions > 0 {
            configuration.recovered?(folder.repeatedTransactions, folder.isComplete)
        }
        environment = Environment(
            folder, faults: configuration.faults, configuration: configuration)
        faults = configuration.faults
        ledgers = Ledgers()
    }

    /// Runs `body` on one snapshot of the committed state. Keep `body` short, because an open snapshot keeps the
    /// pages that later commits replace.
    ///
    /// - Throws: `StorageError`, or the error of `body`.
    package func read<Result, Failure: Error>(
        _ body: (borrowing Transaction) throws(Failure) -> Result
    ) throws -> Result {
        if let fault = faults?.beforeRead() { throw fault }
        let open = try environment.beginRead()
        defer { environment.endRead(open) }
        return try body(ledgers.reading(open))
    }

    /// Runs `body` in the writing transaction and makes its changes durable. If `body` throws, all its changes are
    /// dropped. If the map is full, the map is doubled and `body` runs again from the start.
    package func write<Result>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        while true {
            let open = try environment.beginWrite()
            let result: Result
            do throws(StorageError) {
                result = try ledgers.write(open, body)
                if let fault = faults?.beforeCommit() { throw fault }
            } catch {
                environment.abort(open)
                ledgers.forget()
                guard error.isFull else { throw error }
                try environment.grow()
                continue
            }
            do throws(StorageError) {
                try environment.commit(open)
                return result
            } catch {
                ledgers.forget()
                guard error.isFull else { throw error }
                try environment.grow()
            }
        }
    }

    /// Runs a checkpoint: on return all committed changes are in the data file, and the journal begins anew.
    package func checkpoint() throws(StorageError) { try environment.checkpoint() }

    /// Requires that no restore into the folder was begun and not ended.
    /// - Throws: `StoreOpenError.unfinishedRestore`.
    package static func requireNoRestore(in folder: String) throws(StoreOpenError) {
        try OpenFolder.requireNoRestore(in: folder)
    }

    /// Whether the next broker ends a migration of the folder before it serves.
    package static func isMigrated(_ folder: String) -> Bool { Migration.isToBeEnded(in: folder) }

    /// Syncs a folder: on return the names in the folder are on disk.
    /// - Throws: `StoreOpenError.folder`.
    package static func syncFolder(_ folder: String) throws {
        try OpenFolder.syncFolder(folder)
    }

    /// Compares every index with every other index, on one snapshot; see `Transaction.check`.
    package func check(
        progress: (CheckProgress) -> Void = { _ in }
    ) throws -> CheckReport {
        try readOfOwner { (transaction) throws in try transaction.check(progress: progress) }
    }

    /// Reads one snapshot, possibly beside an owner of the folder. Another owner may have reused pages of the snapshot:
    /// then neither the result nor the error of `body` counts.
    /// - Throws: `StoreOpenError.restarted` if the store was opened beside an owner, and another process has held
    ///   the folder since.
    func readOfOwner<Result>(
        _ body: (borrowing Transaction) throws -> Result
    ) throws -> Result {
        let result: Result
        do {
            result = try read(body)
        } catch {
            try environment.requireSameOwner()
            throw error
        }
        try environment.requireSameOwner()
        return result
    }

    /// Reads one snapshot on two threads at the same time, possibly beside an owner of the folder; see `readOfOwner`.
    /// - Parameters:
    ///   - body: called on the caller's thread.
    ///   - beside: called on another thread. The call is waited for, also after an error of `body`.
    func readOfOwner<Result, Other: Sendable>(
        _ body: (borrowing Transaction) throws -> Result,
        beside: @escaping @Sendable (borrowing Transaction) throws(StorageError) -> Other
    ) throws -> (Result, Other) {
        let (first, second) = try environment.beginReads()
        defer { environment.endReads(first, second) }
        let thread = try StoreThread { [ledgers] in
            Swift.Result { () throws(StorageError) in try beside(ledgers.reading(second)) }
        }
        let result = Swift.Result { try body(ledgers.reading(first)) }
        let other = thread.wait()
        try environment.requireSameOwner()
        return (try result.get(), try other.get())
    }

    /// Waits until open transactions have ended and releases the folder. Later transactions are refused.
    /// - Returns: whether the folder is whole on disk, and needs no recovery.
    @discardableResult
    package func close() -> Bool { environment.close() }

    /// OPS-12: whether the disk has too little room for new content. Commands that free room are still accepted.
    package var isShortOfRoom: Bool { environment.isShortOfRoom }

    /// The address space of the map and the pages in use, in bytes.
    package var size: (map: Int, used: Int) { environment.size }
}
