// SPDX-License-Identifier: Apache-2.0
//
// The data folder and its LMDB environment. One process at a time may open the folder. A folder of a newer Martlet
// is refused, and a full map grows. Readers run on any thread beside the single writer; only growing the map
// excludes all transactions for a moment. LMDB does not wait for the disk: the journal waits, before a transaction
// is committed. Rests on CLMDB and Journal.

internal import CLMDB
import Glibc
import MartletEngine
import MartletRows
import Synchronization

/// An open data folder.
final class Environment: @unchecked Sendable {
    let environment: OpaquePointer
    /// The handle of the first table. The handles of the other tables follow in the order of `Table.rawValue`.
    private let firstHandle: MDB_dbi
    private let lockDescriptor: Int32
    /// Held shared by every transaction, and exclusively while the map grows: LMDB forbids growing while a
    /// transaction is open in the process.
    private let gate: UnsafeMutablePointer<pthread_rwlock_t>
    /// Held by the writing transaction, and while the map grows.
    private let writing: UnsafeMutablePointer<pthread_mutex_t>
    /// The changes of the writing transaction; nil without a journal.
    private let changes: UnsafeMutablePointer<ChangeBuffer>?
    private let journal: Journal?
    /// Guarded by the gate.
    private var isClosed = false
    /// nil: the process does not write to the folder.
    private let reserve: Mutex<DiskReserve?>
    private let isShort = Atomic<Bool>(false)
    private let pageBytes: Int
    /// Read transactions that were reset and can be renewed. Renewing takes 20–50 ns and no allocation.
    private let idleReaders = Mutex<[LMDBTransaction]>([])

    init(
        folder: String, mapBytes: Int, durability: StoreConfiguration.Durability,
        purpose: StoreConfiguration.Purpose,
        checkpointCommitsMax: Int = Journal.commitsPerCheckpoint,
        faults: StoreFaults? = nil
    ) throws {
        if purpose == .trial, try Self.isToBeRecovered(folder) {
            try Environment(
                folder: folder, mapBytes: mapBytes, durability: durability, purpose: .recovery
            ).close()
        }
        if mkdir(folder, 0o700) != 0 && errno != EEXIST {
            throw StoreOpenError.folder(folder, text: String(cString: strerror(errno)))
        }
        lockDescriptor = try Self.lock(folder)
        var opened: OpaquePointer?
        var firstHandle: MDB_dbi = 0
        let journal: Journal?
        do {
            let dataFile = folder + "/data.mdb"
            let keepsJournal = durability == .fsync && purpose != .trial
            if purpose == .serving, DataFile.isNew(at: dataFile) {
                // A new store must not use records of a former store.
                for name in Journal.names { unlink(folder + "/" + name) }
            }
            let files = try Self.journalFiles(in: folder, creating: keepsJournal)
            var recovery = try Recovery(files, dataFile: dataFile)
            try DataFile.requireSound(at: dataFile, mayBeNew: purpose == .serving)
            try check(mdb_env_create(&opened), "create")
            guard let environment = opened else { throw failure("create", EINVAL) }
            mdb_env_set_assert(environment, purpose.assertionHandler)
            try check(
                mdb_env_set_maxdbs(environment, UInt32(Table.allCases.count + 8)), "set maxdbs")
            try check(mdb_env_set_maxreaders(environment, 1024), "set maxreaders")
            try check(mdb_env_set_mapsize(environment, mapBytes), "set mapsize")
            try check(
                mdb_env_open(
                    environment, folder, Self.flags | purpose.environmentFlags, 0o600),
                "open \(folder)")
            if recovery.result.base != nil {
                mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 1)
            } else if purpose != .trial {
                try Self.syncFolder(folder)
            }
            var bytes = mapBytes
            // The snapshot keeps the pages of the last checkpoint unchanged until the next checkpoint.
            let snapshot = try Journal.snapshot(of: environment)
            var isWithJournal = false
            defer { if !isWithJournal { mdb_txn_abort(snapshot) } }
            while true {
                do {
                    firstHandle = try Self.openTables(environment, purpose)
                    if purpose != .trial {
                        try Self.replay(&recovery, environment, firstHandle)
                    }
                    break
                } catch let error as StorageError where error.isFull {
                    // No code reads from the snapshot, so the snapshot may stay open while the map moves.
                    bytes *= 2
                    try check(mdb_env_set_mapsize(environment, bytes), "grow")
                }
            }
            mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 1)
            journal =
                keepsJournal
                ? try Journal(
                    environment, files, recovery.result, snapshot: snapshot,
                    checkpointCommitsMax, faults) : nil
            isWithJournal = keepsJournal
            if !keepsJournal, purpose != .trial, !files.isEmpty {
                try check(mdb_env_sync(environment, 1), "sync")
                try Journal.remove(files)
                try Self.syncFolder(folder)
            }
        } catch {
            if let opened { mdb_env_close(opened) }
            Glibc.close(lockDescriptor)
            throw StoreOpenError(damageIn: folder, error) ?? error
        }
        environment = opened!
        var status = MDB_stat()
        mdb_env_stat(environment, &status)
        pageBytes = Int(status.ms_psize)
        var file: mdb_filehandle_t = -1
        let isWritten = purpose != .trial && mdb_env_get_fd(environment, &file) == 0
        reserve = Mutex(isWritten ? DiskReserve(file: file, refuses: faults?.hasNoRoom) : nil)
        self.firstHandle = firstHandle
        self.journal = journal
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

    private static var flags: UInt32 {
        UInt32(MDB_NOTLS) | UInt32(MDB_NORDAHEAD)
    }

    /// Opens the tables and checks the format version.
    ///
    /// - Returns: the handle of the first table.
    private static func openTables(
        _ environment: OpaquePointer, _ purpose: StoreConfiguration.Purpose
    ) throws -> MDB_dbi {
        var transaction: OpaquePointer?
        try check(
            mdb_txn_begin(environment, nil, purpose.environmentFlags, &transaction), "begin")
        var firstHandle: MDB_dbi = 0
        do {
            for table in Table.allCases {
                var handle: MDB_dbi = 0
                try check(
                    mdb_dbi_open(transaction, table.name, purpose.tableFlags, &handle),
                    "open table \(table.name)")
                // LMDB numbers tables in the order of their first opening.
                if table.rawValue == 0 { firstHandle = handle }
                guard handle == firstHandle + MDB_dbi(table.rawValue) else {
                    throw failure("open table \(table.name)", EINVAL)
                }
            }
            let raw = LMDBTransaction(transaction!, firstHandle: firstHandle)
            try Self.checkFormat(Rows(raw), purpose)
        } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        try check(mdb_txn_commit(transaction), "commit")
        return firstHandle
    }

    /// Bytes of records that one transaction repeats. Bounded because LMDB keeps a transaction's changes in memory.
    private static let replayedBytes = 4 << 20

    private static func replay(
        _ recovery: inout Recovery, _ environment: OpaquePointer, _ firstHandle: MDB_dbi
    ) throws {
        func begin() throws(StorageError) -> LMDBTransaction {
            var transaction: OpaquePointer?
            try check(mdb_txn_begin(environment, nil, 0, &transaction), "begin")
            return LMDBTransaction(transaction!, firstHandle: firstHandle)
        }
        var raw: LMDBTransaction? = try begin()
        do {
            var byteCount = 0
            try recovery.replay { (changes) throws(StorageError) in
                if byteCount > Self.replayedBytes, let whole = raw {
                    raw = nil
                    try check(mdb_txn_commit(whole.transaction), "commit")
                    raw = try begin()
                    byteCount = 0
                }
                try ChangeBuffer.apply(changes, to: Rows(raw!))
                byteCount += changes.count
            }
        } catch {
            if let raw { mdb_txn_abort(raw.transaction) }
            throw error
        }
        try check(mdb_txn_commit(raw!.transaction), "commit")
    }

    private static func journalFiles(in folder: String, creating: Bool) throws -> [JournalFile] {
        let paths = Journal.names.map { folder + "/" + $0 }
        let files = try paths.compactMap { try JournalFile(at: $0, creating: false) }
        // A crash during creation or removal of the journal may leave a single empty file.
        if files.count == 1, !files[0].isEmpty {
            throw StoreOpenError.damaged(
                files[0].path, text: "the other journal file is missing")
        }
        guard files.count < paths.count else { return files }
        return creating ? try paths.map { try JournalFile(at: $0, creating: true)! } : []
    }

    /// Syncs a folder: on return the names in the folder are on disk.
    static func syncFolder(_ folder: String) throws {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { Glibc.close(descriptor) }
        // Some file systems have no fsync for folders.
        guard descriptor >= 0, fsync(descriptor) == 0 || errno == EINVAL else {
            throw StoreOpenError.folder(folder, text: String(cString: strerror(errno)))
        }
    }

    /// Whether the folder was not closed. Before recovery the content of such a folder cannot be trusted.
    private static func isToBeRecovered(_ folder: String) throws -> Bool {
        // Lock the folder first: the journal of a running broker changes during the look and would seem damaged.
        let descriptor = try lock(folder)
        defer { Glibc.close(descriptor) }
        let files = try journalFiles(in: folder, creating: false)
        guard !DataFile.isNew(at: folder + "/data.mdb") else { return false }
        return try Recovery.isNeeded(files, dataFile: folder + "/data.mdb")
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
    func close() {
        pthread_rwlock_wrlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        guard !isClosed else { return }
        isClosed = true
        journal?.close()
        dropIdleReaders()
        mdb_env_close(environment)
        Glibc.close(lockDescriptor)
    }

    private func dropIdleReaders() {
        idleReaders.withLock { readers in
            for reader in readers { mdb_txn_abort(reader.transaction) }
            readers.removeAll()
        }
    }

    /// Enters the gate for a transaction.
    ///
    /// - Throws: `StorageError` if the store is closed.
    private func enter() throws(StorageError) {
        pthread_rwlock_rdlock(gate)
        guard !isClosed else {
            pthread_rwlock_unlock(gate)
            throw StorageError(
                operation: "begin", code: 0, text: "the store is closed", isFull: false)
        }
    }

    private static let lockAttempts = 30

    /// Takes an exclusive lock on the folder. The kernel drops the lock when the process ends in any way.
    private static func lock(_ folder: String) throws -> Int32 {
        let descriptor = Glibc.open(folder + "/martlet.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw StoreOpenError.folder(folder, text: String(cString: strerror(errno)))
        }
        // A process that is being started holds copies of this process's descriptors until exec. A lock can
        // therefore outlive its owner for a moment.
        for _ in 0..<lockAttempts {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
            usleep(10_000)
        }
        Glibc.close(descriptor)
        throw StoreOpenError.inUse(folder)
    }

    private static func checkFormat(
        _ raw: Rows, _ purpose: StoreConfiguration.Purpose
    ) throws {
        let name = Array("format".utf8)
        if let found = try raw.get(.meta, Key(bytes: name)) {
            let version = found.count == 4 ? found.loadLittleEndian(UInt32.self, at: 0) : UInt32.max
            guard version <= storeFormatVersion else {
                throw StoreOpenError.newerFormat(found: version, known: storeFormatVersion)
            }
            guard version == storeFormatVersion else {
                throw StoreOpenError.olderFormat(found: version, known: storeFormatVersion)
            }
        } else if purpose == .serving {
            var writer = RecordWriter()
            writer.append(storeFormatVersion)
            try raw.put(.meta, Key(bytes: name), writer.bytes)
        }
    }

    // MARK: Transactions

    func beginRead() throws(StorageError) -> LMDBTransaction {
        try enter()
        if let idle = idleReaders.withLock({ $0.popLast() }) {
            if mdb_txn_renew(idle.transaction) == 0 { return idle }
            mdb_txn_abort(idle.transaction)
        }
        var transaction: OpaquePointer?
        let code = mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction)
        guard code == 0, let transaction else {
            pthread_rwlock_unlock(gate)
            throw failure("begin read", code)
        }
        return LMDBTransaction(transaction, firstHandle: firstHandle)
    }

    func endRead(_ raw: LMDBTransaction) {
        mdb_txn_reset(raw.transaction)
        idleReaders.withLock { $0.append(raw) }
        pthread_rwlock_unlock(gate)
    }

    func beginWrite() throws(StorageError) -> LMDBTransaction {
        pthread_mutex_lock(writing)
        do throws(StorageError) { try enter() } catch {
            pthread_mutex_unlock(writing)
            throw error
        }
        changes?.pointee.removeAll()
        var transaction: OpaquePointer?
        let code = mdb_txn_begin(environment, nil, 0, &transaction)
        guard code == 0, let transaction else {
            endWrite()
            throw failure("begin write", code)
        }
        return LMDBTransaction(transaction, firstHandle: firstHandle, changes: changes)
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
        guard let journal, let changes, !changes.pointee.isEmpty else {
            return try check(mdb_txn_commit(raw.transaction), "commit")
        }
        do throws(StorageError) { try journal.append(&changes.pointee) } catch {
            mdb_txn_abort(raw.transaction)
            throw error
        }
        let code = mdb_txn_commit(raw.transaction)
        guard code == 0 else {
            journal.takeBack()
            throw failure("commit", code)
        }
        journal.beginCheckpointIfDue(isShortOfRoom: isShortOfRoom)
    }

    func abort(_ raw: LMDBTransaction) {
        mdb_txn_abort(raw.transaction)
        endWrite()
    }

    // MARK: Size

    /// OPS-12: whether the disk has too little room for new content.
    var isShortOfRoom: Bool { isShort.load(ordering: .relaxed) }

    /// Updates `isShortOfRoom`. The caller is inside the gate, or no other thread uses the environment yet.
    private func lookForRoom() {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let now = Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        let isShort = reserve.withLock {
            $0?.isShort(usedBytes: sizeWhileOpen.used, at: now, freeBytes: freeBytes) ?? false
        }
        if isShort != isShortOfRoom { self.isShort.store(isShort, ordering: .relaxed) }
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

    /// The size of the map, and the part of the map in use, in bytes.
    var size: (map: Int, used: Int) {
        pthread_rwlock_rdlock(gate)
        defer { pthread_rwlock_unlock(gate) }
        return isClosed ? (0, 0) : sizeWhileOpen
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
        guard !isClosed else { return }
        if let journal {
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
        guard let journal else { return }
        try enter()
        defer { pthread_rwlock_unlock(gate) }
        try journal.checkpoint()
    }

    private func growWhileAlone() throws(StorageError) {
        let bytes = sizeWhileOpen.map
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

/// The reason why a data folder cannot be opened, with the remedy.
public enum StoreOpenError: Error, Sendable, CustomStringConvertible {
    /// The folder or a file in the folder cannot be created, opened or synced.
    case folder(String, text: String)
    /// Another process has locked the folder.
    case inUse(String)
    /// A newer Martlet wrote the folder.
    case newerFormat(found: UInt32, known: UInt32)
    /// A Martlet from before any release wrote the folder.
    case olderFormat(found: UInt32, known: UInt32)
    /// The folder has a broker's keys, but the data that belong to the keys are missing.
    case lost(String)
    /// A file of the store is incomplete, or has content that the store did not write.
    case damaged(String, text: String)

    /// Reason and remedy in words for people.
    public var description: String {
        switch self {
        case .folder(let folder, let text):
            "The data folder '\(folder)' cannot be opened: \(text). Choose a folder that can be written."
        case .inUse(let folder):
            """
            The data folder '\(folder)' is in use by another broker. Stop it, or choose another \
            folder; a folder belongs to one process at a time.
            """
        case .newerFormat(let found, let known):
            """
            The data folder has format \(found), which a newer Martlet wrote; this one knows formats \
            up to \(known). Use the newer Martlet.
            """
        case .olderFormat(let found, let known):
            """
            The data folder has format \(found), from before any release; this Martlet writes format \
            \(known) and does not convert it. Choose another folder.
            """
        case .lost(let folder):
            """
            The data folder '\(folder)' has the keys of a broker, and its 'data.mdb' is missing or \
            empty. Restore a backup. For a new broker choose another folder, or delete 'admin.key'.
            """
        case .damaged(let file, let text):
            """
            The data file '\(file)' is damaged: \(text). Keep a copy of the folder, and restore a \
            backup.
            """
        }
    }
}

extension StoreConfiguration.Purpose {
    fileprivate var environmentFlags: UInt32 {
        switch self {
        case .serving, .recovery: 0
        case .trial: UInt32(MDB_RDONLY)
        }
    }

    fileprivate var tableFlags: UInt32 {
        switch self {
        case .serving: UInt32(MDB_CREATE)
        case .trial, .recovery: 0
        }
    }

    /// The function that LMDB calls when it finds a damaged page, before LMDB ends the process.
    fileprivate var assertionHandler: @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Void
    {
        switch self {
        case .serving: tellOfDamage
        case .trial, .recovery: endOverDamage
        }
    }
}

private func tellOfDamage(_ environment: OpaquePointer?, _ message: UnsafePointer<CChar>?) {
    let text: StaticString = """
        martlet: the data file is damaged, and the broker ends. Keep a copy of the folder, and restore \
        a backup; 'martlet check' says more. LMDB says:

        """
    _ = Glibc.write(STDERR_FILENO, text.utf8Start, text.utf8CodeUnitCount)
}

private func endOverDamage(_ environment: OpaquePointer?, _ message: UnsafePointer<CChar>?) {
    _exit(StoreConfiguration.damageExitCode)
}

extension StoreOpenError {
    /// `damaged` if the error says that LMDB did not write the file's content. LMDB's other errors concern room,
    /// and errors of the system concern the disk.
    package init?(damageIn folder: String, _ error: any Error) {
        let aboutRoom = [MDB_MAP_FULL, MDB_READERS_FULL, MDB_TXN_FULL, MDB_DBS_FULL, MDB_TLS_FULL]
        guard let error = error as? StorageError, error.code < 0, !aboutRoom.contains(error.code)
        else { return nil }
        self = .damaged(folder + "/data.mdb", text: error.text)
    }
}

func failure(_ operation: String, _ code: Int32) -> StorageError {
    StorageError(
        operation: operation, code: code, text: String(cString: mdb_strerror(code)),
        isFull: code == MDB_MAP_FULL)
}

func check(_ code: Int32, _ operation: @autoclosure () -> String) throws(StorageError) {
    if code != 0 { throw failure(operation(), code) }
}
