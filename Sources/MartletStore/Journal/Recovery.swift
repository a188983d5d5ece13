// SPDX-License-Identifier: Apache-2.0
//
// Restores a data file to the last checkpoint and repeats the changes of the journal's records. Recovery runs
// whenever a folder that was not closed is opened. A crash of the machine cannot be distinguished from the end of
// the process alone, and recovery is right in both cases. Rests on JournalFile and DataFile.

import Glibc
import MartletEngine
import MartletRows

/// Restores the state after the last recorded transaction.
struct Recovery {
    struct Result {
        /// The newest checkpoint.
        var base: JournalFile.Base?
        /// The index of the file that holds the newest checkpoint.
        var baseFile: Int?
        /// The number of the last record.
        var number: UInt64 = 0
        /// The index of the file with the last record.
        var lastFile = 0
        /// The offset at which the next record can begin.
        var end = JournalFile.blockBytes
    }

    /// Transactions of the data file beyond the number of records: creation of tables, a commit that failed after
    /// its last page was written, and changes repeated before a second crash.
    private static let spareTransactions: UInt64 = 64

    private let files: [JournalFile]
    private(set) var result = Result()

    /// Reads the journal and restores the meta pages of the data file.
    ///
    /// - Throws: `StoreOpenError` or `StorageError`.
    init(_ files: [JournalFile], dataFile path: String) throws {
        self.init(files)
        if try look(path), let base = result.base { try DataFile.restore(base, at: path) }
    }

    private init(_ files: [JournalFile]) { self.files = files }

    /// Reads the journal.
    /// - Returns: whether the data file or the journal is newer than the last checkpoint.
    private mutating func look(_ path: String) throws -> Bool {
        for (index, file) in files.enumerated() {
            guard let base = try file.base(), base.generation > result.base?.generation ?? 0 else {
                continue
            }
            (result.base, result.baseFile) = (base, index)
        }
        guard let base = result.base else { return false }
        result.number = base.number
        let newest = try DataFile.newestTransaction(at: path)
        try forEachRecord { _ in }
        // Each record is on disk before the next record is written, so only the last record can be incomplete.
        for (index, file) in files.enumerated() {
            let end = index == result.lastFile ? result.end : JournalFile.blockBytes
            guard try !file.hasRecord(after: result.number, seed: base.seed, from: end) else {
                throw StoreOpenError.damaged(
                    path, text: "its journal has a damaged record, with whole ones behind it")
            }
        }
        // A transaction commits after its record is on disk, so the data file has hardly more transactions than the
        // journal has records.
        let last = base.transaction + (result.number - base.number) + Self.spareTransactions
        guard (base.transaction...last).contains(newest) else {
            throw StoreOpenError.damaged(
                path,
                text:
                    "its journal is that of another data file, or ends before its last transaction")
        }
        return newest != base.transaction || result.number != base.number
    }

    /// Whether a folder was not closed. Changes nothing.
    static func isNeeded(_ files: [JournalFile], dataFile path: String) throws -> Bool {
        var recovery = Recovery(files)
        return try recovery.look(path)
    }

    /// Repeats the changes after the checkpoint.
    mutating func replay(
        _ body: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(StorageError) {
        result.number = result.base?.number ?? 0
        try forEachRecord(body)
    }

    private mutating func forEachRecord(
        _ body: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(StorageError) {
        guard let first = result.baseFile, let seed = result.base?.seed else { return }
        for index in [first, 1 - first] {
            let end = try files[index].forEachRecord(after: &result.number, seed: seed, body)
            if index == first || end > JournalFile.blockBytes {
                (result.lastFile, result.end) = (index, end)
            }
        }
    }
}
