// SPDX-License-Identifier: Apache-2.0
//
// Opens a data folder and its LMDB environment. One process at a time may open the folder. After a crash, opening
// recovers the data file from the journal. A folder of another format is refused, or migrated first (`Migration`).
// Rests on CLMDB, Recovery and Journal.

internal import CLMDB
import Glibc
import MartletBase
import MartletEngine
import MartletFiles
import MartletRows

/// A data folder after its opening. `Environment` takes over the parts, and closes them.
struct OpenFolder {
    let environment: OpaquePointer
    /// The handle of the first table. The handles of the other tables follow in the order of `Table.rawValue`.
    let firstHandle: MDB_dbi
    let lockDescriptor: Int32
    /// nil: transactions are durable without a journal, or not at all.
    let journal: Journal?
    /// Whether the process writes to the folder.
    let isWritten: Bool
    /// Transactions that were on disk in the journal alone, because the last owner did not close the folder.
    let repeatedTransactions: UInt64
    /// Whether it was compared that the journal has all records, so that none of them is lost.
    let isComplete: Bool
    /// The owner beside whom the process reads; nil: the process itself holds the folder.
    let owner: StoreOwner?

    /// What a process keeps of a folder that it opens again.
    struct Held {
        /// The lock, which the process keeps if the opening fails.
        let lockDescriptor: Int32
        /// The number of the last record that the process wrote.
        let number: UInt64
    }

    /// - Parameter held: the process opens its folder again; nil: the lock is taken.
    /// - Throws: `StoreOpenError` or `StorageError`.
    init(
        _ folder: String, mapBytes: Int, durability: StoreConfiguration.Durability,
        purpose: StoreConfiguration.Purpose, held: Held? = nil,
        checkpointCommitsMax: Int = Journal.commitsPerCheckpoint, faults: StoreFaults? = nil,
        migrating: @escaping @Sendable (MigrationEvent) -> Void = { _ in },
        checkingCopy: @Sendable (_ byteCount: Int) -> Void = { _ in }
    ) throws {
        try Self.requireNoRestore(in: folder)
        try Self.requireNoLinks(in: folder)
        if purpose != .serving, Migration.isToBeEnded(in: folder) {
            throw StoreOpenError.unfinishedMigration(folder)
        }
        if purpose == .trial, try Self.isToBeRecovered(folder) {
            try Environment(
                OpenFolder(
                    folder, mapBytes: mapBytes, durability: durability, purpose: .recovery),
                faults: nil
            ).close()
        }
        // A question beside a broker must not wait for a frozen disk, and mkdir waits also where the folder is there.
        if access(folder, F_OK) != 0, mkdir(folder, 0o700) != 0 && errno != EEXIST {
            throw StoreOpenError.folder(folder, errno: errno)
        }
        if let held {
            // A reader beside the owner must not trust its snapshot over a recovery.
            try StoreOwner.write(to: held.lockDescriptor)
            (lockDescriptor, owner) = (held.lockDescriptor, nil)
        } else if purpose == .beside {
            (lockDescriptor, owner) = try Self.besideOwner(folder)
        } else {
            (lockDescriptor, owner) = (try Self.lock(folder), nil)
        }
        var opened: OpaquePointer?
        var firstHandle: MDB_dbi = 0
        let journal: Journal?
        let repeatedTransactions: UInt64
        let isComplete: Bool
        do {
            // A restore may have begun and ended in the meantime.
            try Self.requireNoRestore(in: folder)
            if purpose == .serving {
                try Migration(folder: folder, report: migrating).end()
            }
            let dataFile = folder + "/data.mdb"
            let keepsJournal = durability == .fsync && !purpose.isReading
            if held != nil, DataFile.isNew(at: dataFile) { throw StoreOpenError.lost(folder) }
            if purpose == .serving, DataFile.isNew(at: dataFile) {
                // A new store must not use records of a former store.
                for name in Journal.names { unlink(folder + "/" + name) }
            }
            // The owner changes the journal and the file's first pages at any time.
            let isAlone = purpose != .beside
            let files = isAlone ? try Self.journalFiles(in: folder, creating: keepsJournal) : []
            var recovery =
                isAlone
                ? try Recovery(
                    files, dataFile: dataFile, numberBefore: held?.number,
                    checkingCopy: checkingCopy)
                : .beside
            if held != nil, recovery.result.base == nil {
                throw StoreOpenError.damaged(dataFile, text: "its journal is missing")
            }
            if isAlone {
                try DataFile.requireSound(at: dataFile, mayBeNew: purpose == .serving)
            }
            if purpose == .serving { try Self.takeRoomForReaders(in: folder) }
            try check(mdb_env_create(&opened), "create")
            guard let environment = opened else { throw failure("create", EINVAL) }
            mdb_env_set_assert(environment, purpose.assertionHandler)
            try check(
                mdb_env_set_maxdbs(environment, UInt32(Table.allCases.count + 8)), "set maxdbs")
            try check(mdb_env_set_maxreaders(environment, Self.readersMax), "set maxreaders")
            try check(
                mdb_env_set_mapsize(environment, max(mapBytes, purpose.mapBytes(of: dataFile))),
                "set mapsize")
            try check(
                mdb_env_open(
                    environment, folder, Self.flags | purpose.environmentFlags, 0o600),
                "open \(folder)")
            if recovery.result.base != nil {
                mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 1)
            } else if !purpose.isReading {
                try Self.syncFolder(folder)
            }
            var bytes = mapBytes
            // The snapshot keeps the pages of the last checkpoint unchanged until the next checkpoint.
            let snapshot = try Journal.snapshot(of: environment)
            var isWithJournal = false
            defer { if !isWithJournal { mdb_txn_abort(snapshot) } }
            while true {
                do {
                    firstHandle = try Self.openTables(
                        environment, purpose, marked: keepsJournal && recovery.result.base != nil)
                    if !purpose.isReading {
                        try Self.replay(
                            &recovery, environment, firstHandle, marking: keepsJournal)
                    }
                    break
                } catch let error as StorageError where error.isFull {
                    // No code reads from the snapshot, so the snapshot may stay open while the map moves.
                    bytes *= 2
                    try check(mdb_env_set_mapsize(environment, bytes), "grow")
                }
            }
            if recovery.result.isCopied, purpose == .serving || purpose == .recovery,
                let first = try Self.disagreement(environment, firstHandle)
            {
                // A check and a backup may read what a broker must not serve.
                guard purpose == .recovery else {
                    throw StoreOpenError.ofDifferentTimes(dataFile, first)
                }
                recovery.result.isUnproven = true
            }
            repeatedTransactions = recovery.result.number - (recovery.result.base?.number ?? 0)
            isComplete = recovery.result.isComplete
            mdb_env_set_flags(environment, UInt32(MDB_NOSYNC), 1)
            journal =
                keepsJournal
                ? try Journal(
                    environment, dataFile, files, recovery.result, snapshot: snapshot,
                    isReopened: held != nil, checkpointCommitsMax, faults) : nil
            isWithJournal = keepsJournal
            if !keepsJournal, !purpose.isReading, !files.isEmpty {
                try check(mdb_env_sync(environment, 1), "sync")
                try Journal.remove(files)
                try Self.syncFolder(folder)
            }
        } catch {
            if let opened { mdb_env_close(opened) }
            if held == nil { Glibc.close(lockDescriptor) }
            throw StoreOpenError(openingOf: folder, error) ?? error
        }
        environment = opened!
        self.firstHandle = firstHandle
        self.journal = journal
        isWritten = !purpose.isReading
        self.repeatedTransactions = repeatedTransactions
        self.isComplete = isComplete
    }

    /// Opens a folder again whose lock the process holds, and recovers the store as after a crash. A failure leaves
    /// the lock held.
    ///
    /// - Parameter mapBytes: the size of the map before.
    /// - Throws: `StoreOpenError` or `StorageError`.
    static func reopen(
        _ configuration: StoreConfiguration, mapBytes: Int, held: Held
    ) throws -> OpenFolder {
        try OpenFolder(
            configuration.folder, mapBytes: mapBytes, durability: configuration.durability,
            purpose: configuration.purpose, held: held,
            checkpointCommitsMax: configuration.checkpointCommitsMax, faults: configuration.faults)
    }

    static func requireNoRestore(in folder: String) throws(StoreOpenError) {
        guard access(folder + "/" + RestoredFolder.name, F_OK) != 0 else {
            throw .unfinishedRestore(folder)
        }
    }

    /// Refuses symbolic links in the place of files that are written. LMDB follows links, so the look is before LMDB's.
    private static func requireNoLinks(in folder: String) throws(StoreOpenError) {
        for name in ["martlet.lock", "data.mdb", "lock.mdb"] + Journal.names {
            var status = stat()
            let path = folder + "/" + name
            guard lstat(path, &status) != 0 || status.st_mode & S_IFMT != S_IFLNK else {
                throw .link(path)
            }
        }
    }

    private static var flags: UInt32 {
        UInt32(MDB_NOTLS) | UInt32(MDB_NORDAHEAD)
    }

    /// Opens the tables and checks the format version.
    ///
    /// - Parameter marked: whether the journal goes on to which the data file's mark belongs. Another mark is removed.
    /// - Returns: the handle of the first table.
    private static func openTables(
        _ environment: OpaquePointer, _ purpose: StoreConfiguration.Purpose, marked: Bool
    ) throws -> MDB_dbi {
        var transaction: OpaquePointer?
        try check(
            mdb_txn_begin(environment, nil, purpose.environmentFlags, &transaction), "begin")
        var firstHandle: MDB_dbi = 0
        do {
            // In a file that has tables, one that is missing is damage, and must not begin anew.
            let isNew = try isEmpty(transaction!)
            let flags = isNew || purpose != .serving ? purpose.tableFlags : 0
            for table in Table.allCases {
                var handle: MDB_dbi = 0
                let code = mdb_dbi_open(transaction, table.name, flags, &handle)
                if code == MDB_NOTFOUND { throw Self.lacks(table) }
                try check(code, "open table \(table.name)")
                // LMDB numbers tables in the order of their first opening.
                if table.rawValue == 0 { firstHandle = handle }
                guard handle == firstHandle + MDB_dbi(table.rawValue) else {
                    throw failure("open table \(table.name)", EINVAL)
                }
                // A folder of another format may lack later tables, and is not damaged.
                if table == .meta {
                    let raw = LMDBTransaction(transaction!, firstHandle: firstHandle)
                    try Self.checkFormat(Rows(raw), purpose)
                }
            }
            if !marked, !purpose.isReading { try JournalMark.remove(in: transaction!) }
        } catch {
            mdb_txn_abort(transaction)
            throw error
        }
        try check(mdb_txn_commit(transaction), "commit")
        return firstHandle
    }

    /// Whether the file has no table yet.
    private static func isEmpty(_ transaction: OpaquePointer) throws(StorageError) -> Bool {
        var main: MDB_dbi = 0
        try check(mdb_dbi_open(transaction, nil, 0, &main), "open the tables")
        var statistics = MDB_stat()
        try check(mdb_stat(transaction, main, &statistics), "open the tables")
        return statistics.ms_entries == 0
    }

    private static func lacks(_ table: Table) -> StorageError {
        StorageError(
            operation: "open table \(table.name)", code: MDB_CORRUPTED,
            text: "it lacks the table '\(table.name)'", isFull: false)
    }

    /// Bytes of records that one transaction repeats. Bounded because LMDB keeps a transaction's changes in memory.
    private static let replayedBytes = 4 << 20

    private static func replay(
        _ recovery: inout Recovery, _ environment: OpaquePointer, _ firstHandle: MDB_dbi,
        marking: Bool
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
            if marking, let seed = recovery.result.base?.seed, byteCount > 0 {
                try JournalMark(
                    seed: seed, number: recovery.result.number,
                    transaction: UInt64(mdb_txn_id(raw!.transaction))
                ).write(in: raw!.transaction)
            }
        } catch {
            if let raw { mdb_txn_abort(raw.transaction) }
            throw error
        }
        try check(mdb_txn_commit(raw!.transaction), "commit")
    }

    /// Compares all rows of a folder that was copied while it was open. Its pages are those of one tree, and may still be of
    /// different times.
    /// - Returns: the number of contradictions and the first; nil: all rows agree.
    private static func disagreement(
        _ environment: OpaquePointer, _ firstHandle: MDB_dbi
    ) throws -> String? {
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, UInt32(MDB_RDONLY), &transaction), "begin")
        defer { mdb_txn_abort(transaction) }
        let raw = LMDBTransaction(transaction!, firstHandle: firstHandle)
        let report = try Transaction(Rows(raw)).check()
        return report.problems.first.map {
            "\(report.problemCount) problems, and the first is \($0)"
        }
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
        do throws(PrivateFile.Failure) { try PrivateFile.sync(folder: folder) } catch {
            throw StoreOpenError.folder(folder, text: error.text)
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

    private static let readersMax: UInt32 = 1024

    /// Takes the disk space of LMDB's table of readers. LMDB maps the table as a sparse file, and a write to the map of
    /// a full disk would end the process.
    private static func takeRoomForReaders(in folder: String) throws(StoreOpenError) {
        let path = folder + "/lock.mdb"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .file(path, errno: errno) }
        defer { Glibc.close(descriptor) }
        // LMDB has a cache line of 64 bytes for each reader, and a head of less than a page.
        let byteCount = off_t(64 * readersMax + 4096)
        guard fallocate(descriptor, 0, 0, byteCount) != 0 else { return }
        // Other errors: the file system cannot take space in advance.
        guard errno == ENOSPC || errno == EDQUOT else { return }
        throw .full(folder, text: String(cString: strerror(errno)))
    }

    private static let lockAttempts = 30

    /// Takes an exclusive lock on the folder. The kernel drops the lock when the process ends in any way.
    static func lock(_ folder: String) throws -> Int32 {
        let path = folder + "/martlet.lock"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            // A failing disk may have become read-only under its broker, which can still be read beside.
            if errno == EROFS, isLocked(path) { throw StoreOpenError.inUse(folder) }
            throw errno == ELOOP ? StoreOpenError.link(path) : .folder(path, errno: errno)
        }
        // A process that is being started holds copies of this process's descriptors until exec. A lock can
        // therefore outlive its owner for a moment.
        for _ in 0..<lockAttempts {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 {
                do throws(StoreOpenError) { try StoreOwner.write(to: descriptor) } catch {
                    Glibc.close(descriptor)
                    throw error
                }
                return descriptor
            }
            usleep(10_000)
        }
        Glibc.close(descriptor)
        throw StoreOpenError.inUse(folder)
    }

    /// Whether a process holds the lock.
    private static func isLocked(_ path: String) -> Bool {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        defer {
            Glibc.close(descriptor)
            errno = EROFS
        }
        return descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    /// Opens the lock file of a folder that another process holds.
    private static func besideOwner(_ folder: String) throws -> (Int32, StoreOwner) {
        let descriptor = Glibc.open(folder + "/martlet.lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw StoreOpenError.folder(folder, text: String(cString: strerror(errno)))
        }
        guard let owner = StoreOwner(at: descriptor), owner.isInSameSpace else {
            Glibc.close(descriptor)
            throw StoreOpenError.elsewhere(folder)
        }
        return (descriptor, owner)
    }

    private static func checkFormat(
        _ raw: Rows, _ purpose: StoreConfiguration.Purpose
    ) throws {
        let name = Array("format".utf8)
        if let found = try raw.get(.meta, Key(bytes: name)) {
            let version = found.count == 4 ? found.loadLittleEndian(UInt32.self, at: 0) : UInt32.max
            if case .migration(let format) = purpose, version == format { return }
            guard version <= storeFormatVersion else {
                throw StoreOpenError.newerFormat(found: version, known: storeFormatVersion)
            }
            guard version == storeFormatVersion else {
                throw StoreOpenError.olderFormat(found: version, oldest: storeFormatVersion)
            }
        } else if purpose == .serving {
            var writer = RecordWriter()
            writer.append(storeFormatVersion)
            try raw.put(.meta, Key(bytes: name), writer.bytes)
        }
    }
}

extension StoreConfiguration.Purpose {
    fileprivate var environmentFlags: UInt32 {
        switch self {
        case .serving, .recovery, .migration: 0
        case .trial, .beside: UInt32(MDB_RDONLY)
        }
    }

    fileprivate var tableFlags: UInt32 {
        switch self {
        case .serving, .migration: UInt32(MDB_CREATE)
        case .trial, .beside, .recovery: 0
        }
    }

    /// The function that LMDB calls when it finds a damaged page, before LMDB ends the process.
    fileprivate var assertionHandler: @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Void
    {
        switch self {
        case .serving, .migration: tellOfDamage
        case .trial, .beside, .recovery: endOverDamage
        }
    }

    fileprivate var isReading: Bool { self == .trial || self == .beside }

    /// The smallest map for the purpose. The owner's file may grow until the snapshot begins.
    fileprivate func mapBytes(of dataFile: String) -> Int {
        var status = stat()
        guard self == .beside, stat(dataFile, &status) == 0 else { return 0 }
        return 2 * Int(status.st_size) + (1 << 30)
    }
}

private func tellOfDamage(_ environment: OpaquePointer?, _ message: UnsafePointer<CChar>?) {
    let text: StaticString = """
        martlet: the data file is damaged, and the broker ends. Keep a copy of the folder, and restore \
        a backup; 'martlet check' says more. LMDB says:

        """
    // LMDB ends the process afterwards, so a log that nobody reads must not hold this thread.
    var room = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard poll(&room, 1, 1000) > 0 else { return }
    _ = Glibc.write(STDERR_FILENO, text.utf8Start, text.utf8CodeUnitCount)
}

private func endOverDamage(_ environment: OpaquePointer?, _ message: UnsafePointer<CChar>?) {
    _exit(StoreConfiguration.damageExitCode)
}
