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
        /// Whether the data file has the mark of the last record, once the records are repeated.
        var isMarked = false
        /// Whether the data file shows that the journal has every record that was ever written.
        var isComplete = false
        /// Whether the files are copies of those of a folder that was open: they may be of different times.
        var isCopied = false
        /// Whether the rows of such files disagree.
        var isUnproven = false
    }

    /// Transactions of the data file beyond the number of records: creation of tables, a commit that failed after
    /// its last page was written, and changes repeated before a second crash.
    private static let spareTransactions: UInt64 = 64

    private let files: [JournalFile]
    var result = Result()

    /// Reads the journal and restores the meta pages of the data file.
    ///
    /// - Parameters:
    ///   - numberBefore: the number of the last record, if the process that wrote the files opens them again. Its last
    ///   transaction may have failed in LMDB after its page was written, and then has a mark whose record was taken back.
    ///   - checkingCopy: called with the length of the data file before all of a copy is read.
    /// - Throws: `StoreOpenError` or `StorageError`.
    init(
        _ files: [JournalFile], dataFile path: String, numberBefore: UInt64?,
        checkingCopy: (_ byteCount: Int) -> Void
    ) throws {
        self.init(files)
        if try look(path, numberBefore: numberBefore), let base = result.base {
            if result.isCopied {
                checkingCopy(DataFile.byteCount(at: path))
                do throws(StoreOpenError) { try DataFile.requireWhole(base.meta, at: path) } catch {
                    guard case .damaged(_, let text) = error else { throw error }
                    throw StoreOpenError.ofDifferentTimes(path, text)
                }
            }
            try DataFile.restore(base, at: path)
        }
    }

    private init(_ files: [JournalFile]) { self.files = files }

    /// Nothing to restore: the owner of the folder writes to its files at any time.
    static var beside: Recovery { Recovery([]) }

    /// Reads the journal.
    /// - Returns: whether the data file or the journal is newer than the last checkpoint, or not of the same time.
    private mutating func look(_ path: String, numberBefore: UInt64?) throws -> Bool {
        do { return try lookAtFiles(path, numberBefore) } catch StoreOpenError.damaged(
            let file, let text)
            where result.isCopied
        {
            throw StoreOpenError.ofDifferentTimes(file, text)
        }
    }

    private mutating func lookAtFiles(_ path: String, _ numberBefore: UInt64?) throws -> Bool {
        for (index, file) in files.enumerated() {
            guard let base = try file.base(), base.generation > result.base?.generation ?? 0 else {
                continue
            }
            (result.base, result.baseFile) = (base, index)
        }
        guard let base = result.base else {
            guard try DataFile.isNew(at: path) || DataFile.newestMark(at: path) == nil else {
                throw StoreOpenError.damaged(path, text: "its journal is missing")
            }
            return false
        }
        result.isCopied =
            numberBefore == nil && base.identity != .none
            && base.identity != FolderIdentity(of: [path] + files.map(\.path))
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
        if let numberBefore {
            guard result.number >= numberBefore else { throw endsTooEarly(path, numberBefore) }
        } else {
            try compare(path, base)
            if result.isCopied { result.isComplete = false }
        }
        result.isMarked = base.isMarked || result.number > base.number
        return result.isCopied || newest != base.transaction || result.number != base.number
    }

    /// Compares the data file's marks with the journal: that of the newest transaction, if a crash of the machine has not
    /// left it unreadable, and that of the checkpoint.
    private mutating func compare(_ path: String, _ base: JournalFile.Base) throws {
        if base.isMarked {
            let mark = try DataFile.mark(ofMeta: base.meta, at: path)
            guard
                mark
                    == JournalMark(
                        seed: base.seed, number: base.number, transaction: base.transaction)
            else {
                throw StoreOpenError.damaged(
                    path,
                    text:
                        "it is not of the same time as its journal, as in a copy that was made while a broker served"
                )
            }
        }
        // A crash of the machine may also leave a page of long ago in place of the newest, with the mark of a former journal.
        guard let mark = try DataFile.newestMark(at: path), mark.seed == base.seed else { return }
        guard mark.number <= result.number else { throw endsTooEarly(path, mark.number) }
        // The broker ends between a record and its transaction at worst.
        result.isComplete = result.number - mark.number <= 1
    }

    private func endsTooEarly(_ path: String, _ number: UInt64) -> StoreOpenError {
        .damaged(
            path,
            text:
                "its journal ends at record \(result.number), and transactions up to record \(number) were written"
        )
    }

    /// Whether a folder was not closed. Changes nothing.
    static func isNeeded(_ files: [JournalFile], dataFile path: String) throws -> Bool {
        var recovery = Recovery(files)
        return try recovery.look(path, numberBefore: nil)
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
