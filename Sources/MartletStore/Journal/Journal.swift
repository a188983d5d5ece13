// SPDX-License-Identifier: Apache-2.0
//
// What makes a transaction durable: its changes, in one write to a file that waits for the disk. LMDB would wait
// twice, for its pages and for the page that leads to them, and a lone message changes seven pages. Here
// LMDB writes its pages without waiting for them. From time to time a checkpoint brings them to disk, and
// the records before it are not needed any more.
//
// LMDB never overwrites a page that a reader's snapshot needs. So each checkpoint keeps a snapshot open: its
// pages stay as they are on disk until the next checkpoint is there. A crash of the machine may leave any mixture
// of later pages; the snapshot's beginning, its meta page, lies in the journal. `Recovery` puts it back
// and makes the changes of all records behind it again.
//
// There are two files. While a checkpoint is brought to disk, new records go to the file that will begin with this
// checkpoint. The other file holds the checkpoint before and the records between the two checkpoints.
// Rests on JournalFile and CLMDB. All calls come from the thread that writes, one after the other.

internal import CLMDB
import Glibc
import MartletEngine
import MartletRows

/// The journal of an open data folder.
final class Journal {
    static let names = ["journal.0", "journal.1"]

    /// When a checkpoint begins. Few records are quickly applied after a crash, and pages that were freed since the
    /// last checkpoint cannot be used again before the next one is on disk.
    static let commitsPerCheckpoint = 1000
    private static let bytesPerCheckpoint = 16 << 20

    /// Length of a new file: enough for the lone messages between two checkpoints. To make a file longer, the file
    /// system has to write its own journal, and whatever else is in the way there: up to 100 ms were seen.
    private static let firstBytes = 6 << 20
    /// Records wait for a checkpoint that has not ended when they have so many bytes.
    private static let bytesMax = 48 << 20

    private let environment: OpaquePointer
    private let dataFile: Int32
    private let files: [JournalFile]
    private let checkpointCommitsMax: Int
    private let faults: StoreFaults?
    /// The file that records go to, and where the next one begins.
    private var current: Int
    private var offset = JournalFile.blockBytes
    private var lastOffset = JournalFile.blockBytes
    private var base: JournalFile.Base
    /// Of the last record.
    private var number: UInt64
    private var commitCount = 0
    /// The snapshot of the base; nil: its pages are not protected, and nothing may be written.
    private var snapshot: OpaquePointer?
    private var running: (checkpoint: Checkpoint, base: JournalFile.Base, snapshot: OpaquePointer)?
    /// Nothing is written any more: what is on disk is not known.
    private var trouble: StorageError?

    /// Goes on behind a recovery.
    /// - Parameter snapshot: the state before the changes of records were made again.
    init(
        _ environment: OpaquePointer, _ files: [JournalFile], _ recovered: Recovery.Result,
        snapshot: OpaquePointer, _ checkpointCommitsMax: Int, _ faults: StoreFaults?
    ) throws(StorageError) {
        self.environment = environment
        self.files = files
        self.checkpointCommitsMax = checkpointCommitsMax
        self.faults = faults
        var file: mdb_filehandle_t = -1
        try check(mdb_env_get_fd(environment, &file), "open the journal")
        dataFile = file
        number = recovered.number
        current = recovered.baseFile ?? 1
        base =
            recovered.base
            ?? JournalFile.Base(
                generation: 0, number: 0, transaction: 0, seed: .random(in: 1 ... .max),
                pageBytes: 0, meta: [])
        self.snapshot = snapshot
        // Records go on in the file of the base, unless a checkpoint was on its way when the machine went down.
        if recovered.base != nil, recovered.lastFile == current {
            offset = recovered.end
            commitCount = Int(number - base.number)
            return
        }
        for file in files {
            try file.reserve(2 * JournalFile.blockBytes)
            // On a disk that is full now, the rest can be had later.
            try? file.reserve(Self.firstBytes)
        }
        try checkpoint()
    }

    // MARK: Transactions

    /// On return the changes are on disk, and will be made again after a crash.
    func append(_ changes: inout ChangeBuffer) throws(StorageError) {
        if let trouble { throw trouble }
        if running?.checkpoint.isDone == true { try endCheckpoint() }
        let record = changes.record(number: number + 1, seed: base.seed)
        if offset > JournalFile.blockBytes, offset + record.count > Self.bytesMax {
            try checkpoint()
        }
        do throws(StorageError) {
            try files[current].reserve(offset + record.count)
        } catch {
            // A disk without room: behind a checkpoint the other file begins anew.
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
            // What is refused must not be found by the next start.
            clearRecord(at: offset)
            throw error
        }
        lastOffset = offset
        offset += record.count
        number += 1
        commitCount += 1
    }

    /// LMDB could not take what was appended last.
    func takeBack() {
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

    /// The transaction that was appended last is committed.
    func beginCheckpointIfDue(isShortOfRoom: Bool) {
        guard running == nil, trouble == nil,
            commitCount >= checkpointCommitsMax || offset >= Self.bytesPerCheckpoint
                || isShortOfRoom && commitCount > 0
        else { return }
        // What cannot begin now can with the next transaction.
        try? beginCheckpoint()
    }

    // MARK: Checkpoints

    /// Everything that was committed lies in the data file, on disk, when it returns.
    func checkpoint() throws(StorageError) {
        if let trouble { throw trouble }
        if running != nil { try endCheckpoint() }
        try beginCheckpoint()
        try endCheckpoint()
    }

    private func beginCheckpoint() throws(StorageError) {
        let (snapshot, transaction) = try openSnapshot()
        do throws(StorageError) {
            let next = JournalFile.Base(
                generation: base.generation + 1, number: number, transaction: transaction,
                seed: base.seed, pageBytes: pageBytes, meta: try meta(of: transaction))
            let other = 1 - current
            let checkpoint = try Checkpoint(
                dataFile: dataFile, file: files[other], base: next, before: files[current], faults)
            running = (checkpoint, next, snapshot)
            current = other
            offset = JournalFile.blockBytes
            commitCount = 0
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
            // The kernel forgets what it could not write. The base before, and all records since, are there.
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
            text: "\(error.text); nothing is written any more until the broker is started again",
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

    private var pageBytes: Int {
        var status = MDB_stat()
        mdb_env_stat(environment, &status)
        return Int(status.ms_psize)
    }

    /// The meta page of the newest transaction. LMDB writes them in turns.
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

    /// Runs `body` while no snapshot is open: behind a checkpoint, so that none is needed.
    func withoutSnapshot(_ body: () throws(StorageError) -> Void) throws(StorageError) {
        mdb_txn_abort(snapshot)
        snapshot = nil
        var failed: StorageError?
        do throws(StorageError) { try body() } catch { failed = error }
        do throws(StorageError) { snapshot = try openSnapshot().0 } catch { trouble = error }
        if let failed { throw failed }
    }

    /// Removes the files of a journal that is not needed any more: the data file is on disk.
    static func remove(_ files: [JournalFile]) throws(StorageError) {
        var all: [(generation: UInt64, file: JournalFile)] = []
        for file in files { all.append((try file.base()?.generation ?? 0, file)) }
        // The base with the highest generation goes last: an older base leads to pages that were used again.
        for (_, file) in all.sorted(by: { $0.generation < $1.generation }) {
            try file.clearBlock(at: 0)
        }
        for file in files { try file.remove() }
    }

    /// A last checkpoint, if something was written since the one before.
    func close() {
        if running != nil { try? endCheckpoint() }
        if commitCount > 0 || offset > JournalFile.blockBytes { try? checkpoint() }
        if let snapshot { mdb_txn_abort(snapshot) }
        snapshot = nil
    }
}
