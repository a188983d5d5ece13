// SPDX-License-Identifier: Apache-2.0
//
// The store's public face: open a folder, read a snapshot on any thread, write on one. A transaction
// is ~Copyable and lives for one call, so nothing borrowed from the map can outlive it, and no
// reader can pin old pages for long. Rests on Environment.

import MartletBase
public import MartletEngine
public import MartletRows

/// Where and how large a store begins.
public struct StoreConfiguration: Sendable {
    /// The data folder; made when it is missing, its parent not.
    public var folder: String
    /// Address space to begin with. The file grows with what is in it, and the map doubles when it
    /// is full, so this is no limit.
    public var mapBytes: Int

    public var durability: Durability

    /// REP-1: reports of single messages that are kept of a project; 0: any number.
    public var reportsPerProjectMax = Limits.reportsPerProjectMax

    package var purpose = Purpose.serving

    /// What the store is opened for.
    package enum Purpose: Sendable {
        case serving
        /// To be looked at, in a process that is there for nothing else: the store may be damaged, and
        /// reading it may end the process. Nothing is written, but what a crash has left in the journal. Where
        /// LMDB gives up, the process ends without a word, with `damageExitCode`.
        case trial
        /// What a crash has left in the journal is seen to, ahead of a trial.
        case recovery
    }

    /// EX_DATAERR of sysexits.h.
    package static let damageExitCode: Int32 = 65

    /// Transactions after which a checkpoint begins.
    package var checkpointCommitsMax = Journal.commitsPerCheckpoint

    /// Trouble made on purpose; nil: none.
    package var faults: StoreFaults?

    public init(
        folder: String, mapBytes: Int = 1 << 30, durability: Durability = .fsync
    ) {
        self.folder = folder
        self.mapBytes = mapBytes
        self.durability = durability
    }

    /// What a commit outlives.
    public enum Durability: String, Sendable, CaseIterable {
        /// Loss of power: it is on disk when it returns.
        case fsync
        /// The end of the process, but not that of the operating system, which may leave a store that
        /// cannot be opened any more.
        case os
    }
}

/// Trouble that a simulated disk has, asked for before each operation.
package struct StoreFaults: Sendable {
    package var beforeRead: @Sendable () -> StorageError?
    /// Everything of the transaction was written but its end.
    package var beforeCommit: @Sendable () -> StorageError?
    /// Whether the disk has no more room; nil: the real one is asked.
    package var hasNoRoom: (@Sendable () -> Bool)?
    /// A checkpoint's pages are on disk, and its base is about to be written.
    package var beforeBase: (@Sendable () -> StorageError?)?

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
public final class Store: Sendable {
    private let environment: Environment
    private let faults: StoreFaults?
    private let ledgers: Ledgers

    /// - Throws: `StoreOpenError` or `StorageError`.
    public init(_ configuration: StoreConfiguration) throws {
        environment = try Environment(
            folder: configuration.folder, mapBytes: configuration.mapBytes,
            durability: configuration.durability, purpose: configuration.purpose,
            checkpointCommitsMax: configuration.checkpointCommitsMax,
            faults: configuration.faults)
        faults = configuration.faults
        ledgers = Ledgers(reportsPerProjectMax: configuration.reportsPerProjectMax)
    }

    /// Runs `body` on one snapshot of what is committed now. Keep it short: an open snapshot keeps
    /// the pages that later commits replace.
    public func read<Result, Failure: Error>(
        _ body: (borrowing Transaction) throws(Failure) -> Result
    ) throws -> Result {
        if let fault = faults?.beforeRead() { throw fault }
        let open = try environment.beginRead()
        defer { environment.endRead(open) }
        return try body(ledgers.reading(open))
    }

    /// Runs `body` in the one writing transaction and makes it durable. When `body` throws, nothing
    /// of it remains. When the map is full it is doubled and `body` runs again from the start.
    public func write<Result>(
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

    /// Everything that was committed lies in the data file when it returns, and the journal begins anew.
    package func checkpoint() throws(StorageError) { try environment.checkpoint() }

    /// Compares every index with every other, on one snapshot: see `Transaction.check`.
    public func check(
        progress: (CheckProgress) -> Void = { _ in }
    ) throws -> CheckReport {
        try read { (transaction) throws(StorageError) in try transaction.check(progress: progress) }
    }

    /// Waits for open transactions and gives the folder free; what begins later is refused.
    public func close() { environment.close() }

    /// OPS-12: whether the disk has too little room for anything new. What frees room is taken all the same.
    public var isShortOfRoom: Bool { environment.isShortOfRoom }

    /// Bytes of address space, and bytes of file in use.
    public var size: (map: Int, used: Int) { environment.size }
}
