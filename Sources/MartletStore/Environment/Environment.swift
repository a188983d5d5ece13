// SPDX-License-Identifier: Apache-2.0
//
// The transactions of an open data folder, and the size of its map. A full map grows. Readers run on any thread
// beside the single writer; only growing the map excludes all transactions for a moment. LMDB does not wait for the
// disk: the journal waits, before a transaction is committed. Rests on CLMDB, OpenFolder and Journal.

internal import CLMDB
import Glibc
import MartletBase
import MartletEngine
import MartletRows
import Synchronization

/// An open data folder.
final class Environment: @unchecked Sendable {
    /// Guarded by the gate; not to be used if `lost` is set.
    private var environment: OpaquePointer
    /// The handle of the first table. The handles of the other tables follow in the order of `Table.rawValue`.
    /// Guarded by the gate.
    private var firstHandle: MDB_dbi
    private let lockDescriptor: Int32
    /// The owner beside whom the process reads; nil: the process itself holds the folder.
    private let owner: StoreOwner?
    /// Held shared by every transaction, and exclusively while the map grows: LMDB forbids growing while a
    /// transaction is open in the process.
    private let gate: UnsafeMutablePointer<pthread_rwlock_t>
    /// Held by the writing transaction, and while the map grows.
    private let writing: UnsafeMutablePointer<pthread_mutex_t>
    /// The changes of the writing transaction; nil without a journal.
    private let changes: UnsafeMutablePointer<ChangeBuffer>?
    /// Guarded by the gate.
    private var journal: Journal?
    /// Guarded by the gate.
    private var isClosed = false
    /// What opens the folder again after a failure; nil: nothing does.
    private let configuration: StoreConfiguration?
    /// Whether only a recovery mends the last failure. Guarded by `writing`.
    private var isToBeReopened = false
    /// The time of the last attempt to open the folder again, and its error; nil: it was opened. Guarded by `writing`.
    private var lastReopening: (at: UInt64, error: StorageError?)?
    /// The last failure of a commit. Guarded by `writing`.
    private var lastFailure: StorageError?
    /// The failure that left the folder closed; the next attempt may open the folder. Guarded by the gate.
    private var lost: StorageError?
    /// The size of the map and the number of the last record when the folder was last open. Guarded by the gate.
    private var mapBytesBefore = 0
    private var numberBefore: UInt64 = 0
    /// A recovery sets LMDB's numbers of transactions back, and the numbers of the store rise all the same: caches of
    /// sets compare them. Guarded by the gate.
    private var numberOffset: UInt64 = 0
    /// nil: the process does not write to the folder.
    private let reserve: Mutex<DiskReserve?>
    private let isShort = Atomic<Bool>(false)
    private let journalWritten: (@Sendable (UInt64) -> Void)?
    private let pageBytes: Int
    /// Read transactions that were reset and can be renewed. Renewing takes 20–50 ns and no allocation.
    private let idleReaders = Mutex<[LMDBTransaction]>([])
    /// Read transactions whose snapshot is the newest one. To begin or renew one, LMDB writes to `lock.mdb`, and a disk that
    /// hangs holds this write up. So each commit leaves some behind, and while the disk hangs, reading goes on with them.
    private let readyReaders = Mutex<[LMDBTransaction]>([])
    /// The number of the newest transaction that reads must see.
    private let newestNumber = Atomic<UInt64>(0)
    /// As many as the threads of a small gateway and a thread of the broker read at the same time.
    private static let readyReadersMax = 8

    /// - Parameters:
    ///   - folder: the open folder. The environment closes the folder.
    ///   - faults: faults that a simulation injects.
    ///   - configuration: opens the folder again after a failure of the disk (OPS-12), and is told of each write to
    ///     the journal; nil: a failure lasts.
    init(
        _ folder: consuming OpenFolder, faults: StoreFaults?,
        configuration: StoreConfiguration? = nil
    ) {
        self.configuration = configuration
        journalWritten = configuration?.journalWritten
        environment = folder.environment
        firstHandle = folder.firstHandle
        lockDescriptor = folder.lockDescriptor
        owner = folder.owner
        journal = folder.journal
        var status = MDB_stat()
        mdb_env_stat(environment, &status)
        pageBytes = Int(status.ms_psize)
        reserve = Mutex(Self.reserve(of: folder, faults))
        if journal != nil {
            let buffer = UnsafeMutablePointer<ChangeBuffer>.allocate(capacity: 1)
            buffer.initialize(to: ChangeBuffer())
            changes = buffer
        } else {
            changes = nil
        }
        writing = .allocate(capacity: 1)
        pthread_mutex_init(writing, nil)
        gate = .allocate(capacity: 1)
        // Prefer the writer: by default, readers that overlap without a break would keep the map from growing. A
        // thread never begins a transaction inside another transaction of its own, so preferring the writer cannot
        // deadlock.
        var attributes = pthread_rwlockattr_t()
        pthread_rwlockattr_init(&attributes)
        pthread_rwlockattr_setkind_np(
            &attributes, Int32(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP))
        pthread_rwlock_init(gate, &attributes)
        pthread_rwlockattr_destroy(&attributes)
        lookForRoom()
    }

    private static func reserve(
        of folder: borrowing OpenFolder, _ faults: StoreFaults?
    ) -> DiskReserve? {
        var file: mdb_filehandle_t = -1
        guard folder.isWritten, mdb_env_get_fd(folder.environment, &file) == 0 else { return nil }
        return DiskReserve(file: file, refuses: faults?.hasNoRoom)
    }

    deinit {
        close()
        if let changes {
            changes.deinitialize(count: 1)
            changes.deallocate()
        }
        pthread_mutex_destroy(writing)
        writing.deallocate()
        pthread_rwlock_destroy(gate)
        gate.deallocate()
    }

    /// Waits until open transactions have ended, and releases the folder. Later transactions are refused.
    /// - Returns: whether the folder needs no recovery, or was closed before.
    @discardableResult
    func close() -> Bool {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        guard !isClosed else { return true }
        isClosed = true
        var isWhole = false
        if lost == nil {
            isWhole = journal?.close() ?? true
            journal = nil
            dropIdleReaders()
            mdb_env_close(environment)
        }
        Glibc.close(lockDescriptor)
        return isWhole
    }

    private func dropIdleReaders() {
        for reader in take(all: idleReaders) + take(all: readyReaders) {
            mdb_txn_abort(reader.transaction)
        }
    }

    private func take(all readers: borrowing Mutex<[LMDBTransaction]>) -> [LMDBTransaction] {
        readers.withLock { readers in
            defer { readers.removeAll() }
            return readers
        }
    }

    /// Enters the gate for a transaction.
    ///
    /// - Throws: `StorageError` if the store is closed, or was lost.
    private func enter() throws(StorageError) {
        pthread_rwlock_rdlock(gate)
        guard !isClosed, lost == nil else {
            let error = isClosed ? Self.closed : lost
            pthread_rwlock_unlock(gate)
            throw error ?? Self.closed
        }
    }

    private static var failedAgain: StorageError {
        StorageError(
            operation: "write", code: EIO, text: "the disk has failed twice within a second",
            isFull: false)
    }

    private static var closed: StorageError {
        StorageError(operation: "begin", code: 0, text: "the store is closed", isFull: false)
    }

    func requireSameOwner() throws {
        guard let owner, StoreOwner(at: lockDescriptor) != owner else { return }
        var path: UnsafePointer<CChar>?
        mdb_env_get_path(environment, &path)
        throw StoreOpenError.restarted(path.map { String(cString: $0) } ?? "")
    }

    /// Brings all committed changes to disk, in an environment without a journal.
    func sync() throws(StorageError) { try check(mdb_env_sync(environment, 1), "sync") }

    /// Begins to write committed changes to disk, and waits for nothing.
    func beginSync() {
        var file: mdb_filehandle_t = -1
        guard mdb_env_get_fd(environment, &file) == 0 else { return }
        // A system without the call writes at `sync`.
        _ = sync_file_range(file, 0, 0, UInt32(MARTLET_SYNC_FILE_RANGE_WRITE))
    }

    // MARK: Transactions

    func beginRead() throws(StorageError) -> LMDBTransaction {
        try enter()
        if let ready = readyReader() { return ready }
        do throws(StorageError) { return try beginReadInside() } catch {
            pthread_rwlock_unlock(gate)
            throw error
        }
    }

    /// A transaction on the newest snapshot that was begun before; nil: there is none.
    private func readyReader() -> LMDBTransaction? {
        guard let ready = readyReaders.withLock({ $0.popLast() }) else { return nil }
        if ready.number >= newestNumber.load(ordering: .acquiring) { return ready }
        rest(ready)
        return nil
    }

    /// Brings the ready transactions to the newest snapshot. Called before anybody learns of a commit.
    private func renewReadyReaders() {
        // One by one: where the disk hangs meanwhile, the others stay good.
        for _ in 0..<Self.readyReadersMax {
            let before = readyReaders.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let before { rest(before) }
            guard let reader = try? beginReadInside() else { break }
            readyReaders.withLock { $0.append(reader) }
        }
        var info = MDB_envinfo()
        mdb_env_info(environment, &info)
        newestNumber.store(numberOffset + UInt64(info.me_last_txnid), ordering: .releasing)
    }

    /// Begins two transactions on the same snapshot, for two threads.
    func beginReads() throws(StorageError) -> (LMDBTransaction, LMDBTransaction) {
        try enter()
        var begun: [LMDBTransaction] = []
        do throws(StorageError) {
            begun.append(try beginReadInside())
            while true {
                begun.append(try beginReadInside())
                if begun[0].number == begun[1].number { return (begun[0], begun[1]) }
                // A commit came between: begin the older one anew.
                rest(begun.removeFirst())
            }
        } catch {
            for open in begun { rest(open) }
            pthread_rwlock_unlock(gate)
            throw error
        }
    }

    func endReads(_ first: LMDBTransaction, _ second: LMDBTransaction) {
        rest(first)
        rest(second)
        pthread_rwlock_unlock(gate)
    }

    private func beginReadInside() throws(StorageError) -> LMDBTransaction {
        if let idle = idleReaders.withLock({ $0.popLast() }) {
            if mdb_txn_renew(idle.transaction) == 0 { return idle }
            mdb_txn_abort(idle.transaction)
        }
        var transaction: OpaquePointer?
        let code = mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction)
        guard code == 0, let transaction else { throw failure("begin read", code) }
        return LMDBTransaction(
            transaction, firstHandle: firstHandle, numberOffset: numberOffset)
    }

    func endRead(_ raw: LMDBTransaction) {
        let isReady = readyReaders.withLock { readers in
            guard raw.number >= newestNumber.load(ordering: .acquiring),
                readers.count < Self.readyReadersMax
            else { return false }
            readers.append(raw)
            return true
        }
        if !isReady { rest(raw) }
        pthread_rwlock_unlock(gate)
    }

    /// Ends a transaction, and keeps it for a later one.
    private func rest(_ raw: LMDBTransaction) {
        mdb_txn_reset(raw.transaction)
        idleReaders.withLock { $0.append(raw) }
    }

    func beginWrite() throws(StorageError) -> LMDBTransaction {
        pthread_mutex_lock(writing)
        do throws(StorageError) { try enterForWriting() } catch {
            pthread_mutex_unlock(writing)
            throw error
        }
        changes?.pointee.removeAll()
        var transaction: OpaquePointer?
        let code = mdb_txn_begin(environment, nil, 0, &transaction)
        guard code == 0, let transaction else {
            if code == MDB_PANIC { isToBeReopened = true }
            endWrite()
            throw failure("begin write", code)
        }
        return LMDBTransaction(
            transaction, firstHandle: firstHandle, changes: changes, numberOffset: numberOffset)
    }

    private func endWrite() {
        pthread_rwlock_unlock(gate)
        pthread_mutex_unlock(writing)
    }

    /// Commits the transaction. With a journal, all changes are on disk on return.
    func commit(_ raw: LMDBTransaction) throws(StorageError) {
        defer { endWrite() }
        // A file without a name accepts writes, but its content is lost when the process ends.
        var file: mdb_filehandle_t = -1
        var status = stat()
        guard mdb_env_get_fd(environment, &file) == 0, fstat(file, &status) == 0,
            status.st_nlink > 0
        else {
            mdb_txn_abort(raw.transaction)
            throw StorageError(
                operation: "commit", code: ENOENT,
                text: "the data file was deleted; stop the broker and restore a backup",
                isFull: false)
        }
        // Also after a failed commit, because lack of room may be the cause.
        defer { lookForRoom() }
        defer { renewReadyReaders() }
        guard let journal, let changes, !changes.pointee.isEmpty else {
            return try check(mdb_txn_commit(raw.transaction), "commit")
        }
        let began = Self.nanoseconds()
        do throws(StorageError) {
            try journal.append(&changes.pointee, of: raw.transaction)
        } catch {
            mdb_txn_abort(raw.transaction)
            isToBeReopened = journal.isInTrouble
            throw error
        }
        journalWritten?(Self.nanoseconds() - began)
        let code = mdb_txn_commit(raw.transaction)
        guard code == 0 else {
            journal.takeBack()
            // LMDB refuses everything after a failed write of its meta page. A full disk is no such failure.
            isToBeReopened = journal.isInTrouble || ![ENOSPC, EDQUOT, MDB_MAP_FULL].contains(code)
            let failure = failure("commit", Self.isAtSizeLimit(file) ? EFBIG : code)
            lastFailure = failure
            throw failure
        }
        journal.beginCheckpointIfDue(isShortOfRoom: isShortOfRoom)
    }

    /// Whether a file is as long as the process may make one (RLIMIT_FSIZE). LMDB takes a write that ended there for an
    /// error of the disk.
    private static func isAtSizeLimit(_ file: Int32) -> Bool {
        var (limit, status) = (rlimit(), stat())
        return getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0
            && fstat(file, &status) == 0 && UInt64(status.st_size) >= UInt64(limit.rlim_cur)
    }

    /// The operations of the writing transaction for the log. The transaction stays open.
    func operations(_ maker: inout RedoMaker) throws(StorageError) -> [UInt8] {
        guard let changes else {
            throw StorageError(
                operation: "log", code: 0, text: "the store of a cluster's node has a journal",
                isFull: false)
        }
        guard !changes.pointee.isEmpty else { return [] }
        // The writing transaction is inside the gate, so the snapshot needs no place there.
        let snapshot = try Journal.snapshot(of: environment)
        defer { mdb_txn_abort(snapshot) }
        return try maker.operations(
            of: changes.pointee.changes,
            before: LMDBTransaction(snapshot, firstHandle: firstHandle))
    }

    func abort(_ raw: LMDBTransaction) {
        mdb_txn_abort(raw.transaction)
        endWrite()
    }

    // MARK: Reopening

    /// Time between two attempts to open the folder again, in nanoseconds. An attempt may repeat all records of the
    /// journal, and readers wait meanwhile.
    private static let reopeningRestNanoseconds: UInt64 = 1_000_000_000

    /// Enters the gate with an environment that takes transactions, if there is a way to one. The caller holds
    /// `writing`.
    private func enterForWriting() throws(StorageError) {
        if !isToBeReopened {
            try enter()
            journal?.endCheckpointIfDone()
            guard journal?.isInTrouble == true else { return }
            pthread_rwlock_unlock(gate)
            isToBeReopened = true
        }
        try reopen()
        try enter()
    }

    /// OPS-12: opens the folder again, as after a crash. After a failed write the kernel may have dropped pages, and
    /// LMDB may refuse all transactions. All that was acknowledged is in the journal, so a recovery mends both. Until
    /// the disk takes writes the folder stays open, because readers need no writes. The caller holds `writing`.
    private func reopen() throws(StorageError) {
        guard let configuration, configuration.durability == .fsync else { return }
        let now = Self.nanoseconds()
        if let (at, error) = lastReopening, now - at < Self.reopeningRestNanoseconds {
            throw error ?? journal?.trouble ?? lastFailure ?? Self.failedAgain
        }
        do throws(StorageError) {
            try requireWritableDisk()
            try reopenWhileAlone(configuration)
        } catch {
            lastReopening = (Self.nanoseconds(), error)
            throw error
        }
        // A disk whose checkpoints fail again and again must not cost a recovery for each transaction.
        lastReopening = (Self.nanoseconds(), nil)
        configuration.reopened?()
    }

    private func requireWritableDisk() throws(StorageError) {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        // A folder that was lost has no record of a refused transaction any more: nothing was written since.
        guard !isClosed, lost == nil else { return }
        try journal?.prepareRecovery()
    }

    private func reopenWhileAlone(_ configuration: StoreConfiguration) throws(StorageError) {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        guard !isClosed else { throw Self.closed }
        if lost == nil {
            var info = MDB_envinfo()
            mdb_env_info(environment, &info)
            mapBytesBefore = info.me_mapsize
            // The last transaction of all may have been abandoned; its number is one more.
            numberOffset += UInt64(info.me_last_txnid) + 1
            numberBefore = journal?.number ?? 0
            journal?.abandon()
            journal = nil
            dropIdleReaders()
            mdb_env_close(environment)
        }
        do {
            let folder = try OpenFolder.reopen(
                configuration, mapBytes: mapBytesBefore,
                held: OpenFolder.Held(lockDescriptor: lockDescriptor, number: numberBefore))
            (environment, firstHandle) = (folder.environment, folder.firstHandle)
            journal = folder.journal
            reserve.withLock { $0 = Self.reserve(of: folder, configuration.faults) }
            lost = nil
        } catch {
            let known = error as? StorageError
            let again = StorageError(
                operation: "open the folder again", code: known?.code ?? EIO, text: "\(error)",
                isFull: false)
            lost = again
            throw again
        }
        isToBeReopened = false
        // The disk failed again while the journal began anew. Reading goes on.
        if let trouble = journal?.trouble {
            isToBeReopened = true
            throw trouble
        }
    }

    // MARK: Size

    /// OPS-12: whether the disk has too little room for new content.
    var isShortOfRoom: Bool { isShort.load(ordering: .relaxed) }

    /// Updates `isShortOfRoom`. The caller is inside the gate, or no other thread uses the environment yet.
    private func lookForRoom() {
        let now = Int64(Self.nanoseconds() / 1_000_000)
        let isShort = reserve.withLock {
            $0?.isShort(usedBytes: sizeWhileOpen.used, at: now, freeBytes: freeBytes) ?? false
        }
        if isShort != isShortOfRoom { self.isShort.store(isShort, ordering: .relaxed) }
    }

    /// Nanoseconds of a monotonic clock.
    private static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Bytes of free pages in the newest snapshot.
    private func freeBytes() -> Int {
        var transaction: OpaquePointer?
        guard mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction) == 0 else {
            return 0
        }
        defer { mdb_txn_abort(transaction) }
        var cursor: OpaquePointer?
        // LMDB's own table of free pages holds lists; the first word of each is its length.
        guard mdb_cursor_open(transaction, 0, &cursor) == 0 else { return 0 }
        defer { mdb_cursor_close(cursor) }
        var (key, value) = (MDB_val(), MDB_val())
        var pageCount = 0
        while mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0 {
            pageCount += value.mv_data.loadUnaligned(as: Int.self)
        }
        return pageCount * pageBytes
    }

    /// The size of the map, and the bytes of all pages in use. Counting the free ones looks at each transaction whose freed
    /// pages were not taken again.
    var size: (map: Int, used: Int) {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        guard !isClosed, lost == nil else { return (0, 0) }
        let size = sizeWhileOpen
        return (size.map, size.used - freeBytes())
    }

    private var sizeWhileOpen: (map: Int, used: Int) {
        var info = MDB_envinfo()
        mdb_env_info(environment, &info)
        return (info.me_mapsize, (info.me_last_pgno + 1) * pageBytes)
    }

    /// Doubles the map. Waits until the open transactions of the process have ended.
    func grow() throws(StorageError) {
        pthread_mutex_lock(writing)
        defer { pthread_mutex_unlock(writing) }
        try checkpointWhileWriting()
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        guard !isClosed, lost == nil else { return }
        if let journal {
            defer { isToBeReopened = journal.isInTrouble }
            try journal.withoutSnapshot { () throws(StorageError) in try growWhileAlone() }
        } else {
            try growWhileAlone()
        }
    }

    /// Runs a checkpoint: on return all committed changes are on disk in the data file, and the journal begins
    /// anew.
    func checkpoint() throws(StorageError) {
        pthread_mutex_lock(writing)
        defer { pthread_mutex_unlock(writing) }
        try checkpointWhileWriting()
    }

    private func checkpointWhileWriting() throws(StorageError) {
        try enterForWriting()
        defer { pthread_rwlock_unlock(gate) }
        do throws(StorageError) { try journal?.checkpoint() } catch {
            isToBeReopened = journal?.isInTrouble == true
            throw error
        }
    }

    private func growWhileAlone() throws(StorageError) {
        let bytes = sizeWhileOpen.map
        invariant(bytes > 0, "An open store has a map.")
        // LMDB unmaps the old map before it maps the new one. If the new mapping failed, the environment would have
        // no map, so test first whether the address space is available.
        let spare = mmap(
            nil, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let spare, spare != MAP_FAILED else { throw failure("grow", errno) }
        munmap(spare, bytes)
        dropIdleReaders()
        try check(mdb_env_set_mapsize(environment, bytes * 2), "grow")
    }
}

func failure(_ operation: String, _ code: Int32) -> StorageError {
    let text =
        code == EFBIG
        ? "the process may not write files of this size (LimitFSIZE=, ulimit -f); raise the limit"
        : String(cString: mdb_strerror(code))
    return StorageError(
        operation: operation, code: code, text: text, isFull: code == MDB_MAP_FULL)
}

func check(_ code: Int32, _ operation: @autoclosure () -> String) throws(StorageError) {
    if code != 0 { throw failure(operation(), code) }
}
