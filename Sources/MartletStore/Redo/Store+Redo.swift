// SPDX-License-Identifier: Apache-2.0
//
// A store with a log that others follow. A transaction goes into the log between its last change and its commit,
// so a store never contains what the log does not have, and no store has to undo. Another store applies the rows of
// the log in turn, and has equal contents after each of them. A store writes its place in the log with each row. A
// broker alone calls none of these functions. Rests on RedoMaker.

package import MartletEngine
package import MartletRows
import MartletBase
import MartletCrypto
import Synchronization

/// The reason for which a transaction of a log was not written.
package enum LoggedWriteError<Refusal: Error>: Error {
    /// The store failed before the log was asked. The changes are dropped.
    case store(StorageError)
    /// The log does not take the transaction. The changes are dropped.
    case refused(Refusal)
    /// The log has the transaction, and the store could not commit it. The store is behind its log: no transaction of
    /// its own may follow, and the row must be read from the log.
    case behind(StorageError)
}

/// The operations of a row of the log, and the place of the store that has the row.
package struct PlacedRedo: Sendable {
    package var operations: [UInt8]
    package var position: LogPosition

    package init(operations: [UInt8], position: LogPosition) {
        self.operations = operations
        self.position = position
    }
}

extension Store {
    /// The place of the store in its log; nil: the store has none.
    package func logPosition() throws -> LogPosition? {
        try read { (transaction) throws in try Self.logPosition(transaction.raw) }
    }

    private static func logPosition(_ rows: Rows) throws(StorageError) -> LogPosition? {
        guard let bytes = try rows.get(.meta, LogPosition.key) else { return nil }
        return try LogPosition(bytes)
    }

    /// The place of the store, and a digest of all its contents in the same snapshot. Stores at equal places have equal
    /// digests.
    package func contentsDigest() throws -> (position: LogPosition?, digest: [UInt8]) {
        try readOfOwner { (transaction) throws in
            let rows = transaction.raw
            var digest = SHA256()
            for table in Table.allCases {
                digest.update(Array(table.name.utf8) + [0])
                let cursor = try Cursor(rows, table)
                // No key is below, because LMDB has no empty keys.
                var row = try cursor.seek(Key(bytes: [0]))
                while let found = row {
                    var lengths = RecordWriter()
                    lengths.append(UInt32(found.key.count))
                    lengths.append(UInt64(found.value.count))
                    digest.update(lengths.bytes)
                    digest.update(Array(found.key.bytes))
                    digest.update(Array(found.value))
                    row = try cursor.next()
                }
            }
            return (try Self.logPosition(rows), digest.finish())
        }
    }

    /// Writes the place of the store, as a store with a log begins.
    package func begin(at position: LogPosition) throws(StorageError) {
        try write { (transaction) throws(StorageError) in
            try transaction.raw.put(.meta, LogPosition.key, position.bytes)
        }
    }

    /// Forgets the log. The store then has none, and its contents may go another way than the log's.
    package func leaveLog() throws(StorageError) {
        try write { (transaction) throws(StorageError) in
            _ = try transaction.raw.delete(.meta, LogPosition.key)
            _ = try transaction.raw.delete(.meta, LivingRunsRow.key)
        }
    }

    /// Runs `body` in the writing transaction, hands its operations to `log`, and commits the transaction if the log
    /// has taken them. The transaction is open in the meantime: readers see the state before, and no other transaction
    /// begins. If the map is full, the map is doubled; `body` runs again only if the log was not asked yet.
    /// - Parameter log: called once with the operations and the result of `body`. Returns the place of the new row; nil
    ///   if no row was written, which is allowed for a transaction without operations.
    package func write<Result, Refusal: Error>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result,
        log: (_ operations: [UInt8], _ result: Result) throws(Refusal) -> LogPosition?
    ) throws(LoggedWriteError<Refusal>) -> Result {
        let (open, result, operations): (LMDBTransaction, Result, [UInt8])
        do throws(StorageError) { (open, result, operations) = try prepare(body) } catch {
            throw .store(error)
        }
        let position: LogPosition?
        do throws(Refusal) { position = try log(operations, result) } catch {
            environment.abort(open)
            ledgers.forget()
            throw .refused(error)
        }
        invariant(
            position != nil || operations.isEmpty, "A transaction that changes rows is logged.")
        do throws(StorageError) {
            try commit(open, at: position)
        } catch {
            ledgers.forget()
            // Without operations the store has all that the transaction was to leave.
            guard let position else { return result }
            guard error.isFull else { throw .behind(error) }
            do throws(StorageError) {
                try environment.grow()
                try apply([PlacedRedo(operations: operations, position: position)])
            } catch {
                throw .behind(error)
            }
        }
        return result
    }

    /// Runs `body` in a new writing transaction, which stays open.
    private func prepare<Result>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> (LMDBTransaction, Result, operations: [UInt8]) {
        while true {
            let open = try environment.beginWrite()
            do throws(StorageError) {
                let result = try ledgers.write(open, body)
                if let fault = faults?.beforeCommit() { throw fault }
                return (open, result, try operations())
            } catch {
                environment.abort(open)
                ledgers.forget()
                guard error.isFull else { throw error }
                try environment.grow()
            }
        }
    }

    private func operations() throws(StorageError) -> [UInt8] {
        try redoMaker.withLock { (maker) throws(StorageError) in
            try environment.operations(&maker)
        }
    }

    private func commit(
        _ open: LMDBTransaction, at position: LogPosition?
    ) throws(StorageError) {
        do throws(StorageError) {
            if let fault = faults?.afterLog?() { throw fault }
            if let position { try Rows(open).put(.meta, LogPosition.key, position.bytes) }
        } catch {
            environment.abort(open)
            throw error
        }
        try environment.commit(open)
    }

    /// Applies rows of the log in one transaction. All changes are durable on return.
    /// - Throws: `StorageError` if the rows do not follow the place of the store in turn. The store is unchanged then.
    package func apply(_ redo: [PlacedRedo]) throws(StorageError) {
        try write { (transaction) throws(StorageError) in
            guard var last = try Self.logPosition(transaction.raw) else {
                throw Self.outOfTurn("the store belongs to no cluster")
            }
            let snapshot = transaction.snapshot
            var reader = RedoReader(transaction.raw.transaction) { [ledgers] project in
                ledgers.noteSetChange(of: snapshot, in: project)
            }
            for row in redo {
                guard row.position.incarnation == last.incarnation,
                    row.position.row == last.row + 1, row.position.epoch >= last.epoch
                else {
                    throw Self.outOfTurn(
                        "row \(row.position.row) does not follow row \(last.row)")
                }
                try row.operations.withUnsafeBufferPointer { (bytes) throws(StorageError) in
                    try reader.apply(UnsafeRawBufferPointer(bytes))
                }
                last = row.position
            }
            try transaction.raw.put(.meta, LogPosition.key, last.bytes)
        }
    }

    private static func outOfTurn(_ text: String) -> StorageError {
        StorageError(operation: "apply a row of the log", code: 0, text: text, isFull: false)
    }
}
