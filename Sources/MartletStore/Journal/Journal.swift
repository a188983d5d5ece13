// SPDX-License-Identifier: Apache-2.0
//
// Makes a transaction durable: its changes go to the journal in one write that waits for the disk. LMDB would wait
// twice, for its pages and for the page that leads to them, and a single message changes seven pages. With the
// journal, LMDB writes its pages without waiting. From time to time a checkpoint brings the pages to disk, and the
// records before the checkpoint are no longer needed.
//
// LMDB never overwrites a page that a reader's snapshot needs. Each checkpoint therefore keeps a snapshot open: its
// pages stay unchanged on disk until the next checkpoint is complete. A crash of the machine may leave any mixture
// of later pages, but the journal holds the snapshot's meta page. `Recovery` restores the meta page and repeats the
// changes of all later records.
//
// The journal has two files. While a checkpoint is brought to disk, new records go to the file whose first block
// that checkpoint will be. The other file holds the previous checkpoint and the records between the two
// checkpoints. Rests on JournalFile and CLMDB. All calls come from the writing thread, one after the other.

internal import CLMDB
import Glibc
import MartletBase
import MartletEngine
import MartletRows

/// The journal of an open data folder.
final class Journal {
    static let names = ["journal.0", "journal.1"]

    /// Number of transactions after which a checkpoint begins. Bounded for two reasons: after a crash few records
    /// are repeated quickly, and pages freed since the last checkpoint cannot be reused before the next checkpoint
    /// is on disk.
    static let commitsPerCheckpoint = 1000
    /// Bytes of records after which a checkpoint begins.
    private static let bytesPerCheckpoint = 16 << 20
    /// Growth of the data file, in bytes, after which a checkpoint begins. Pages that were freed since the last checkpoint
    /// are needed by its snapshot, so a transaction that changes many pages in few bytes of records takes new ones: a
    /// device that leaves a thousand topics takes a megabyte. Behind the checkpoint these pages are used again. Messages alone
    /// come to the bound of bytes first.
    private static let growthPerCheckpoint = 128 << 20
    /// Growth of the data file, in bytes, beside a running checkpoint. Above the bound, `append` waits for its end.
    private static let growthMax = 256 << 20

    /// Length of a new file, in bytes: enough for the single messages between two checkpoints. The length is
    /// reserved at once, because extending a file makes the file system write its own journal with all changes that
    /// wait there, which took up to 100 ms.
    private static let firstBytes = 6 << 20
    /// Bytes of records up to which transactions continue beside a running checkpoint. Above the bound, `append`
    /// waits for a complete checkpoint.
    private static let bytesMax = 48 << 20

    private let environment: OpaquePointer
    private let dataFile: Int32
    private let files: [JournalFile]
    private let checkpointCommitsMax: Int
    private let faults: StoreFaults?
    /// What the checkpoints of the open folder are written with.
    private var identity: FolderIdentity
    /// The index of the file that receives records.
    private var current: Int
    /// The offset of the next record.
    private var offset = JournalFile.blockBytes
    /// The offset of the last record, for `takeBack`.
    private var lastOffset = JournalFile.blockBytes
    /// The last complete checkpoint.
    private var base: JournalFile.Base
    /// The number of the last record.
    private(set) var number: UInt64
    /// The number of the first record whose mark is in the data file. In folders of earlier programs none is yet.
    private var firstMarkedNumber: UInt64
    /// Transactions since the last checkpoint began.
    private var commitCount = 0
    /// The bytes that the data file had when the last checkpoint or this journal began.
    private var usedBytesBefore = 0
    /// The snapshot that protects the pages of the base; nil: the pages are unprotected, and no transaction may
    /// write.
    private var snapshot: OpaquePointer?
    /// The checkpoint in progress, with its base and the snapshot for that base.
    private var running: (checkpoint: Checkpoint, base: JournalFile.Base, snapshot: OpaquePointer)?
    /// Set after a failure that leaves the state on disk unknown; `append` then refuses every transaction until a
    /// recovery.
    private(set) var trouble: StorageError?

    /// Continues after a recovery.
    /// - Parameters:
    ///   - dataPath: the data file of the environment.
    ///   - snapshot: the state before the changes of records were repeated. The journal ends the snapshot, unless
    ///     `init` throws.
    ///   - isReopened: a disk that fails again is no error, because the process goes on reading.
    init(
        _ environment: OpaquePointer, _ dataPath: String, _ files: [JournalFile],
        _ recovered: Recovery.Result, snapshot: OpaquePointer, isReopened: Bool,
        _ checkpointCommitsMax: Int, _ faults: StoreFaults?
    ) throws(StorageError) {
        invariant(files.count == Self.names.count, "A journal has two files.")
        self.environment = environment
        self.files = files
        self.checkpointCommitsMax = checkpointCommitsMax
        self.faults = faults
        identity =
            recovered.isUnproven
            ? .unproven : FolderIdentity(of: [dataPath] + files.map(\.path))
        var file: mdb_filehandle_t = -1
        try check(mdb_env_get_fd(environment, &file), "open the journal")
        dataFile = file
        number = recovered.number
        firstMarkedNumber = recovered.isMarked ? number : number + 1
        invariant(
            recovered.number >= recovered.base?.number ?? 0,
            "A recovery repeats the records behind its base.")
        current = recovered.baseFile ?? 1
        base =
            recovered.base
            ?? JournalFile.Base(
                generation: 0, number: 0, transaction: 0, seed: .random(in: 1 ... .max),
                pageBytes: 0, meta: [], isMarked: false, identity: .none)
        self.snapshot = snapshot
        // Continue in the file of the base, unless the crash interrupted a checkpoint, or the folder was closed or copied.
        if let base = recovered.base, base.identity == identity, recovered.lastFile == current {
            offset = recovered.end
            commitCount = Int(number - base.number)
            usedBytesBefore = usedBytes
            return
        }
        do throws(StorageError) {
            for file in files {
                try file.reserve(2 * JournalFile.blockBytes)
                // A full disk may have no room for the rest now; `append` reserves room again.
                try? file.reserve(Self.firstBytes)
            }
            try checkpoint()
        } catch {
            // The records of both files are still needed, so the next one follows the last.
            (current, offset) = (recovered.lastFile, recovered.end)
            // On a full disk a closed folder must open, since only then can room be made (OPS-12).
            let isClosed = recovered.base?.identity == FolderIdentity.none && number == base.number
            if isClosed, [ENOSPC, EDQUOT].contains(error.code) {
                trouble = nil
                return
            }
            guard isReopened else { throw error }
            trouble = trouble ?? Self.lasting(error)
        }
    }

    // MARK: Transactions

    /// Writes the changes of a transaction as a record, and the record's mark into the transaction. On return the record is
    /// on disk, and a recovery would repeat the changes.
    func append(
        _ changes: inout ChangeBuffer, of transaction: OpaquePointer
    ) throws(StorageError) {
        if let trouble { throw trouble }
        invariant(snapshot != nil, "The pages of the checkpoint are protected from transactions.")
        invariant(number >= base.number, "The records of the journal follow its checkpoint.")
        try JournalMark(
            seed: base.seed, number: number + 1, transaction: UInt64(mdb_txn_id(transaction))
        ).write(in: transaction)
        let record = changes.record(number: number + 1, seed: base.seed)
        if offset > JournalFile.blockBytes, offset + record.count > Self.bytesMax {
            try checkpoint()
        } else if grownBytes > Self.growthMax {
            if running != nil { try endCheckpoint() } else { try checkpoint() }
        }
        do throws(StorageError) {
            try files[current].reserve(offset + record.count)
        } catch {
            // The disk is full. After a checkpoint the other file is overwritten from its beginning.
            guard offset > JournalFile.blockBytes else { throw error }
            try checkpoint()
            try files[current].reserve(offset + record.count)
        }
        guard files[current].isThere else {
            throw StorageError(
                operation: "write the journal", code: ENOENT,
                text: "the journal was deleted; stop the broker and restore a backup", isFull: false
            )
        }
        do throws(StorageError) {
            try files[current].write(record, at: offset)
        } catch {
            // A start must not find the record of a refused transaction.
            clearRecord(at: offset)
            throw error
        }
        lastOffset = offset
        offset += record.count
        number += 1
        commitCount += 1
    }

    /// Removes the last record, because LMDB could not commit its transaction.
    func takeBack() {
        invariant(
            offset > lastOffset && commitCount > 0, "The last record is taken back once.")
        offset = lastOffset
        number -= 1
        commitCount -= 1
        clearRecord(at: offset)
    }

    private func clearRecord(at offset: Int) {
        do throws(StorageError) { try files[current].clearBlock(at: offset) } catch {
            trouble = Self.lasting(error)
        }
    }

    /// Begins a checkpoint if the bounds require one. The caller has committed the transaction of the last record.
    func beginCheckpointIfDue(isShortOfRoom: Bool) {
        guard running == nil, trouble == nil,
            commitCount >= checkpointCommitsMax || offset >= Self.bytesPerCheckpoint
                || grownBytes >= Self.growthPerCheckpoint
                || isShortOfRoom && commitCount > 0
        else { return }
        // On failure, the next transaction tries again.
        try? beginCheckpoint()
    }

    // MARK: Trouble

    var isInTrouble: Bool { trouble != nil }

    /// Makes the folder ready for a recovery, and finds out whether the recovery can write. No transaction is open.
    ///
    /// The block behind the last record is overwritten, so that a recovery ends with the last record, also if the
    /// record of a refused transaction is still on disk. The bytes of LMDB's first page are written once more.
    /// - Throws: `StorageError` if the disk takes no writes.
    func prepareRecovery() throws(StorageError) {
        try files[current].clearEnd(at: offset)
        var page = [UInt8](repeating: 0, count: DataFile.metaBytes)
        guard pread(dataFile, &page, page.count, 0) == page.count,
            pwrite(dataFile, page, page.count, 0) == page.count
        else { throw failure("write the data file", errno) }
    }

    /// Ends the journal without a write. The files stay as after a crash.
    func abandon() {
        if let running {
            _ = running.checkpoint.wait()
            mdb_txn_abort(running.snapshot)
        }
        running = nil
        if let snapshot { mdb_txn_abort(snapshot) }
        snapshot = nil
    }

    // MARK: Checkpoints

    /// Takes over the result of a checkpoint that has ended. A failure is told by `isInTrouble`.
    func endCheckpointIfDone() {
        if running?.checkpoint.isDone == true { try? endCheckpoint() }
    }

    /// Runs a checkpoint to its end: on return all committed changes are on disk in the data file.
    func checkpoint() throws(StorageError) {
        if let trouble { throw trouble }
        if running != nil { try endCheckpoint() }
        try beginCheckpoint()
        try endCheckpoint()
    }

    private func beginCheckpoint() throws(StorageError) {
        invariant(running == nil, "One checkpoint runs at a time.")
        // A process that read beside the broker and was killed has left its snapshot. LMDB would keep its pages.
        mdb_reader_check(environment, nil)
        let (snapshot, transaction) = try openSnapshot()
        do throws(StorageError) {
            let next = JournalFile.Base(
                generation: base.generation + 1, number: number, transaction: transaction,
                seed: base.seed, pageBytes: pageBytes, meta: try meta(of: transaction),
                isMarked: number >= firstMarkedNumber, identity: identity)
            invariant(
                next.transaction >= base.transaction && next.number >= base.number,
                "A checkpoint is no older than the checkpoint before.")
            let other = 1 - current
            let checkpoint = try Checkpoint(
                dataFile: dataFile, file: files[other], base: next, before: files[current], faults)
            running = (checkpoint, next, snapshot)
            current = other
            offset = JournalFile.blockBytes
            commitCount = 0
            usedBytesBefore = usedBytes
        } catch {
            mdb_txn_abort(snapshot)
            throw error
        }
    }

    private func endCheckpoint() throws(StorageError) {
        guard let (checkpoint, base, snapshot) = running else { return }
        switch checkpoint.wait() {
        case .success:
            mdb_txn_abort(self.snapshot)
            (self.base, self.snapshot, running) = (base, snapshot, nil)
            files[1 - current].shorten()
        case .failure(let error):
            // The kernel discards pages that it could not write. The previous base and all later records are still
            // on disk.
            mdb_txn_abort(snapshot)
            running = nil
            let lasting = Self.lasting(error)
            trouble = lasting
            throw lasting
        }
    }

    private static func lasting(_ error: StorageError) -> StorageError {
        StorageError(
            operation: error.operation, code: error.code,
            text: "\(error.text); nothing is written until the disk takes writes again",
            isFull: false)
    }

    private func openSnapshot() throws(StorageError) -> (OpaquePointer, transaction: UInt64) {
        let opened = try Self.snapshot(of: environment)
        return (opened, UInt64(mdb_txn_id(opened)))
    }

    /// Opens a snapshot of the newest transaction.
    static func snapshot(of environment: OpaquePointer) throws(StorageError) -> OpaquePointer {
        var opened: OpaquePointer?
        try check(
            mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &opened), "begin a checkpoint")
        return opened!
    }

    private var grownBytes: Int { usedBytes - usedBytesBefore }

    private var usedBytes: Int {
        var info = MDB_envinfo()
        mdb_env_info(environment, &info)
        return (info.me_last_pgno + 1) * pageBytes
    }

    private var pageBytes: Int {
        var status = MDB_stat()
        mdb_env_stat(environment, &status)
        return Int(status.ms_psize)
    }

    /// The meta page of the newest transaction. LMDB writes its two meta pages in turn.
    private func meta(of transaction: UInt64) throws(StorageError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: DataFile.metaBytes)
        let count = bytes.withUnsafeMutableBytes {
            pread(dataFile, $0.baseAddress!, $0.count, off_t(transaction & 1) * off_t(pageBytes))
        }
        guard count == bytes.count, DataFile.transaction(ofMeta: bytes) == transaction else {
            throw failure("begin a checkpoint", count < 0 ? errno : EBADMSG)
        }
        return bytes
    }

    // MARK: Its end

    private func removeMark() throws(StorageError) {
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, 0, &transaction), "close the journal")
        do throws(StorageError) { try JournalMark.remove(in: transaction!) } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        try check(mdb_txn_commit(transaction), "close the journal")
    }

    /// Runs `body` without an open snapshot. The caller has just completed a checkpoint, so the pages need no
    /// protection.
    func withoutSnapshot(_ body: () throws(StorageError) -> Void) throws(StorageError) {
        invariant(running == nil, "A map grows between two checkpoints.")
        invariant(offset == JournalFile.blockBytes, "A map grows directly after a checkpoint.")
        mdb_txn_abort(snapshot)
        snapshot = nil
        var failed: StorageError?
        do throws(StorageError) { try body() } catch { failed = error }
        do throws(StorageError) { snapshot = try openSnapshot().0 } catch { trouble = error }
        if let failed { throw failed }
    }

    /// Removes the files of a journal after the data file was synced.
    static func remove(_ files: [JournalFile]) throws(StorageError) {
        var all: [(generation: UInt64, file: JournalFile)] = []
        for file in files { all.append((try file.base()?.generation ?? 0, file)) }
        // Clear the newest base last: an older base leads to pages that were reused since.
        for (_, file) in all.sorted(by: { $0.generation < $1.generation }) {
            try file.clearBlock(at: 0)
        }
        for file in files { try file.remove() }
    }

    /// Makes a last checkpoint: a closed data file has all transactions and no mark, and needs no journal.
    /// - Returns: whether the data file is closed so.
    func close() -> Bool {
        if running != nil { try? endCheckpoint() }
        if trouble == nil, (try? removeMark()) != nil { firstMarkedNumber = number + 1 }
        if identity != .unproven { identity = .none }
        let isClosed = (try? checkpoint()) != nil
        if let snapshot { mdb_txn_abort(snapshot) }
        snapshot = nil
        return isClosed
    }
}
