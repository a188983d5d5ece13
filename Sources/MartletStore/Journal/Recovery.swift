// SPDX-License-Identifier: Apache-2.0
//
// Puts a data file back to the last checkpoint, and makes the changes of the journal's records again. This is
// done whenever a folder is opened that was not closed: whether the machine went down, or the process alone,
// cannot be seen, and it is right in both cases. Rests on JournalFile and DataFile.

import Glibc
import MartletEngine
import MartletRows

/// The way back to the last transaction.
struct Recovery {
    struct Result {
        /// The checkpoint that was found, and the file it lies in.
        var base: JournalFile.Base?
        var baseFile: Int?
        /// Of the last record.
        var number: UInt64 = 0
        /// The file with the last record, and where the next one can begin.
        var lastFile = 0
        var end = JournalFile.blockBytes
    }

    /// New tables, an LMDB error behind the last page, and what was made again before a second crash.
    private static let spareTransactions: UInt64 = 64

    private let files: [JournalFile]
    private(set) var result = Result()

    /// Reads the journal and puts the data file's beginning back.
    init(_ files: [JournalFile], dataFile path: String) throws {
        self.init(files)
        if try look(path), let base = result.base { try DataFile.restore(base, at: path) }
    }

    private init(_ files: [JournalFile]) { self.files = files }

    /// Reads the journal.
    /// - Returns: whether there is something behind the last checkpoint.
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
        // Each record is on disk before the next one is written. So the last one may be there in part, and no other.
        for (index, file) in files.enumerated() {
            let end = index == result.lastFile ? result.end : JournalFile.blockBytes
            guard try !file.hasRecord(after: result.number, seed: base.seed, from: end) else {
                throw StoreOpenError.damaged(
                    path, text: "its journal has a damaged record, with whole ones behind it")
            }
        }
        // A transaction begins behind its record, so there are hardly more of them than records.
        let last = base.transaction + (result.number - base.number) + Self.spareTransactions
        guard (base.transaction...last).contains(newest) else {
            throw StoreOpenError.damaged(
                path,
                text:
                    "its journal is that of another data file, or ends before its last transaction")
        }
        return newest != base.transaction || result.number != base.number
    }

    /// Whether a folder was not closed. Nothing is changed.
    static func isNeeded(_ files: [JournalFile], dataFile path: String) throws -> Bool {
        var recovery = Recovery(files)
        return try recovery.look(path)
    }

    /// Makes the changes behind the checkpoint again.
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
