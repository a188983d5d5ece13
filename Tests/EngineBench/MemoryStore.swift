// SPDX-License-Identifier: Apache-2.0
//
// A store whose rows are in memory: the engine's rules are tested on it without LMDB and without a disk. Rests on
// MemoryRows.

package import MartletEngine
package import MartletRows

/// Snapshots and transactions of a store, whichever holds the rows.
package protocol RowStore: AnyObject {
    func read<Result>(_ body: (borrowing Transaction) throws -> Result) throws -> Result
    func write<Result>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result
}

extension RowStore {
    /// Compares every index with every other.
    package func check() throws -> CheckReport {
        try read { (transaction) throws in try transaction.check(progress: { _ in }) }
    }
}

/// For one thread.
package final class MemoryStore: RowStore {
    package let rows = MemoryRows()
    private let ledgers: Ledgers

    package init() {
        ledgers = Ledgers()
        let first = rows.begin()
        var format = RecordWriter()
        format.append(storeFormatVersion)
        "format".utf8.withContiguousStorageIfAvailable { key in
            format.bytes.withUnsafeBytes { first.put(.meta, UnsafeRawBufferPointer(key), $0) }
        }
        first.commit()
    }

    package func read<Result>(
        _ body: (borrowing Transaction) throws -> Result
    ) throws -> Result {
        try body(ledgers.reading(rows.snapshot()))
    }

    package func write<Result>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let open = rows.begin()
        do throws(StorageError) {
            let result = try ledgers.write(open, body)
            open.commit()
            return result
        } catch {
            open.abandon()
            ledgers.forget()
            throw error
        }
    }
}
