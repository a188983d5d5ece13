// SPDX-License-Identifier: Apache-2.0
//
// Makes a data folder of a backup. Everything is made in the folder `restoring` inside of the destination, and moved
// out when the backup has proved whole and its indexes agree. As long as `restoring` is there, no program opens the
// destination, so a restore that was killed at any point leaves nothing that looks whole; the next restore begins
// anew. The folder is inside, because the destination may be the root of a volume, which cannot be renamed.
//
// Sequences of messages go on far behind those of the backup (`leaveOutSequences`). Rests on BackupReader and Store.

import Glibc
import MartletBase
import MartletEngine
import MartletFiles
import MartletRows

package struct RestoredFolder: ~Copyable {
    /// The name of the folder for what is not whole.
    static let name = "restoring"
    /// Names that do not make a folder used.
    private static let harmless: Set<String> = ["martlet.lock", "lost+found"]
    /// Bytes of rows in a transaction.
    private static let bytesPerTransaction = 32 << 20
    /// Address space of the map: the backup tells its size at its end only.
    private static let mapBytes = 1 << 40
    private static let rowsPerProgress: UInt64 = 16_384

    private let folder: String
    private let lockDescriptor: Int32
    private let isMade: Bool
    private var aside: String { folder + "/" + Self.name }

    /// Takes an empty folder, or makes the folder.
    /// - Throws: `StoreOpenError.inUse` or `BackupError`.
    package init(_ folder: String) throws {
        let (descriptor, isMade) = try Self.take(folder)
        (self.folder, lockDescriptor, self.isMade) = (folder, descriptor, isMade)
    }

    private static func take(_ folder: String) throws -> (lockDescriptor: Int32, isMade: Bool) {
        let isMade = mkdir(folder, 0o700) == 0
        guard isMade || errno == EEXIST else {
            throw BackupError.file(folder, text: String(cString: strerror(errno)))
        }
        // Looked at before the lock, which would leave its file in a stranger's folder.
        let found = try Set(Store.names(in: folder))
        guard found.contains("martlet.lock") || found.contains(name) || found.isSubset(of: harmless)
        else { throw BackupError.notEmpty(folder) }
        let descriptor = try OpenFolder.lock(folder)
        do {
            if access(folder + "/" + name, F_OK) == 0 { try clear(folder) }
            guard try Set(Store.names(in: folder)).isSubset(of: harmless) else {
                throw BackupError.notEmpty(folder)
            }
            return (descriptor, isMade)
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    deinit { Glibc.close(lockDescriptor) }

    /// Removes what a restore that did not end has left. The destination was empty before it.
    private static func clear(_ folder: String) throws {
        for name in try Store.names(in: folder)
        where name == "data.mdb" || BackupStream.isKept(name) {
            unlink(folder + "/" + name)
        }
        try removeAside(folder)
    }

    private static func removeAside(_ folder: String) throws {
        let aside = folder + "/" + name
        for name in try Store.names(in: aside) { unlink(aside + "/" + name) }
        guard rmdir(aside) == 0 else {
            throw BackupError.file(aside, text: String(cString: strerror(errno)))
        }
    }

    /// OPS-3: restores a backup.
    ///
    /// - Parameters:
    ///   - asNode: OPS-7: the folder of another node of the cluster. It goes on where the backup stands in the cluster's
    ///     log, so its sequences are those of the backup. Otherwise the restored folder belongs to no cluster.
    ///   - accepts: judges the summary before anything is moved into place.
    /// - Throws: `BackupError`, `StorageError` or the error of `accepts`. The destination is empty then.
    package func restore(
        from descriptor: Int32, asNode: Bool = false, progress: (BackupProgress) -> Void,
        accepts: (BackupSummary) throws -> Void
    ) throws -> BackupSummary {
        do {
            guard mkdir(aside, 0o700) == 0 else {
                throw BackupError.file(aside, text: String(cString: strerror(errno)))
            }
            try Store.syncFolder(folder)
            var configuration = StoreConfiguration(
                folder: aside, mapBytes: Self.mapBytes, durability: .os)
            configuration.purpose = .serving
            let store = try Store(configuration)
            defer { store.close() }
            let (summary, files) = try Self.load(descriptor, into: store, progress)
            // The disk is busy while the check needs a processor.
            let syncing = try StoreThread { [environment = store.environment] in
                Swift.Result { () throws(StorageError) in try environment.sync() }
            }
            let checking = Swift.Result { try store.check { progress(.checking($0)) } }
            try syncing.wait().get()
            let report = try checking.get()
            guard report.isClean else {
                throw BackupError.unclean(problemCount: report.problemCount, isRestore: true)
            }
            try accepts(summary)
            if asNode {
                guard try store.logPosition() != nil else { throw BackupError.noNode }
            } else {
                try store.leaveLog()
                if let project = try store.leaveOutSequences() {
                    throw BackupError.damaged(
                        "the last message of project '\(project)' has no number that a store gives")
                }
            }
            try store.environment.sync()
            store.close()
            for (name, bytes) in files { try Self.write(bytes, to: aside + "/" + name) }
            try Store.syncFolder(aside)
            for name in files.map(\.0) + ["data.mdb"] {
                guard rename(aside + "/" + name, folder + "/" + name) == 0 else {
                    throw BackupError.file(folder, text: String(cString: strerror(errno)))
                }
            }
            try Store.syncFolder(folder)
            try Self.removeAside(folder)
            try Store.syncFolder(folder)
            return summary
        } catch {
            try? Self.clear(folder)
            if isMade {
                unlink(folder + "/martlet.lock")
                rmdir(folder)
            }
            throw error
        }
    }

    private static func load(
        _ descriptor: Int32, into store: Store, _ progress: (BackupProgress) -> Void
    ) throws -> (BackupSummary, [(String, [UInt8])]) {
        var reader = try BackupReader(descriptor)
        var summary = BackupSummary(storeFormat: reader.storeFormat, created: reader.created)
        var files: [(String, [UInt8])] = []
        var table: Table?
        var raw: LMDBTransaction? = try store.environment.beginWrite()
        var pending = 0
        do {
            while let item = try reader.next() {
                switch item {
                case .file(let name, let bytes):
                    guard BackupStream.isKept(name), files.allSatisfy({ $0.0 != name }) else {
                        throw BackupError.damaged("it has a file that no data folder has")
                    }
                    files.append((name, bytes))
                case .table(let name):
                    table = Table.allCases.first { $0.name == name }
                    guard table != nil else {
                        throw BackupError.damaged("it has a table that no store has")
                    }
                case .row(let key, let value):
                    guard let table else { throw BackupError.damaged("it has a row of no table") }
                    try put(key, value, in: table, raw!)
                    summary.rowCount += 1
                    pending += key.count + value.count
                    if summary.rowCount % rowsPerProgress == 0 {
                        progress(.rows(done: summary.rowCount, of: nil))
                    }
                    guard pending > bytesPerTransaction, let full = raw else { continue }
                    raw = nil
                    try store.environment.commit(full)
                    store.environment.beginSync()
                    raw = try store.environment.beginWrite()
                    pending = 0
                }
            }
            summary.digest = try reader.end()
        } catch {
            if let raw { store.environment.abort(raw) }
            throw error
        }
        try store.environment.commit(raw!)
        summary.byteCount = UInt64(reader.byteCount)
        summary.projects = try store.read { (transaction) throws in try transaction.allProjects() }
        return (summary, files)
    }

    private static func put(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, in table: Table,
        _ raw: LMDBTransaction
    ) throws {
        let isInOrder: Bool
        do throws(StorageError) {
            // A new store has a row with its format already.
            if table == .meta {
                try raw.put(table, key, value)
                isInOrder = true
            } else {
                isInOrder = try raw.append(table, key, value)
            }
        } catch {
            // LMDB's own errors are negative, such as that of a key without bytes.
            guard !error.isFull, error.code < 0 else { throw error }
            throw BackupError.damaged("it has a row that no store has: \(error.text)")
        }
        guard isInOrder else { throw BackupError.damaged("its rows are not in order") }
    }

    private static func write(_ bytes: [UInt8], to path: String) throws {
        do throws(PrivateFile.Failure) {
            try PrivateFile(creating: path).write(bytes)
        } catch {
            throw BackupError.file(path, text: error.text)
        }
    }
}
