// SPDX-License-Identifier: Apache-2.0
//
// Migrates a data folder from an older format to this program's (OPS-3). The old files stay as they are. A copy of the data
// file and of the journal is made in the folder `migrating`, the journal's records are repeated in the copy, and the steps of
// `MigrationStep` change the copy row by row. Then the copy takes the place of the old files:
//
//   folder on disk                                     what an opening does
//   `migrating`                                        the old store is whole: begins anew
//   `migrated` with a data file                        moves the old files aside, and the new file into place
//   `migrated` without a data file                     the new store is whole: moves the old files to their folder
//   neither                                            nothing
//
// The rename of `migrating` to `migrated` decides. It comes when the copy is on disk. Every later move can be repeated,
// so a process may end at any point. The old files end in `store-format-N`, where they stay until a person deletes
// them. Rests on OpenFolder, Environment and MigrationStep.

internal import CLMDB
import Glibc
import MartletEngine
import MartletRows

/// Events of a migration, for a log.
package enum MigrationEvent: Sendable, Hashable {
    case began(from: UInt32, to: UInt32, byteCount: Int)
    /// A tenth more of the files is copied.
    case copied(byteCount: Int, of: Int)
    /// A percent more of the whole work is done, or the work begins.
    case advanced(from: UInt32, to: UInt32, percent: Int)
    /// The steps between two formats begin.
    case changing(from: UInt32, to: UInt32)
    /// The new store is in place. The old files are in the folder.
    case ended(to: UInt32, keptIn: String)
}

struct Migration {
    /// The folder of a copy that is not whole.
    static let unfinishedName = "migrating"
    /// The folder of a copy that is whole, and is not or hardly in place.
    static let finishedName = "migrated"
    private static let oldPrefix = "store-format-"
    private static let dataName = "data.mdb"
    /// Bytes copied by one call of the system.
    private static let copiedBytesMax = 16 << 20
    /// Parts of the work: copying, and changing the copy. The rest brings the copy to disk.
    private static let (copyingPercent, changingPercent) = (80, 18)
    /// Room beside the copy: the pages that the steps change, and the new broker's journal.
    private static let spareBytes = 64 << 20

    let folder: String
    var steps: [MigrationStep] = []
    let report: @Sendable (MigrationEvent) -> Void
    /// Faults of a simulated disk; nil: none.
    var faults: StoreFaults?

    private var unfinished: String { folder + "/" + Self.unfinishedName }
    private var finished: String { folder + "/" + Self.finishedName }

    /// Whether a migration has to be ended before the folder can be read.
    static func isToBeEnded(in folder: String) -> Bool {
        access(folder + "/" + finishedName, F_OK) == 0
    }

    /// Migrates a folder that no process holds.
    /// - Throws: `StoreOpenError` or `StorageError`. The old store is unchanged then.
    func run(from format: UInt32) throws {
        let lock = try OpenFolder.lock(folder)
        defer { Glibc.close(lock) }
        // Another process may have migrated the folder before the lock.
        guard !Self.isToBeEnded(in: folder) else { return }
        try Self.remove(unfinished)
        let names = ([Self.dataName] + Journal.names).filter {
            access(folder + "/" + $0, F_OK) == 0
        }
        let byteCount = try names.reduce(0) { $0 + (try Self.bytes(of: folder + "/" + $1)) }
        try requireRoom(for: byteCount)
        report(.began(from: format, to: storeFormatVersion, byteCount: byteCount))
        var percent = -1
        func advance(_ done: Double) {
            guard Int(done) > percent else { return }
            percent = Int(done)
            report(.advanced(from: format, to: storeFormatVersion, percent: percent))
        }
        advance(0)
        do {
            try copy(names, byteCount) { advance($0 * Double(Self.copyingPercent)) }
            try change(from: format) { part in
                advance(Double(Self.copyingPercent) + part * Double(Self.changingPercent))
            }
            advance(100)
            try end(from: format)
        } catch {
            if !Self.isToBeEnded(in: folder) { try? Self.remove(unfinished) }
            throw StoreOpenError(openingOf: folder, error) ?? error
        }
    }

    private func requireRoom(for byteCount: Int) throws(StoreOpenError) {
        let isFull = faults?.hasNoRoom?() ?? false
        guard let free = isFull ? 0 : DiskRoom(of: folder)?.freeBytes else { return }
        // The steps change few pages of a large file.
        let needed = byteCount + byteCount / 16 + Self.spareBytes
        guard free >= needed else {
            throw .noRoomToMigrate(folder, neededBytes: needed, freeBytes: free)
        }
    }

    // MARK: Copying

    private func copy(
        _ names: [String], _ byteCount: Int, _ advance: (_ part: Double) -> Void
    ) throws {
        guard mkdir(unfinished, 0o700) == 0 else { throw failure("make \(unfinished)", errno) }
        var done = 0
        var tenth = 0
        for name in names {
            try Self.copy(folder + "/" + name, to: unfinished + "/" + name) { more in
                done += more
                advance(min(1, Double(done) / Double(max(1, byteCount))))
                guard byteCount > 0, done * 10 / byteCount > tenth else { return }
                tenth = done * 10 / byteCount
                report(.copied(byteCount: done, of: byteCount))
            }
        }
    }

    private static func copy(
        _ source: String, to destination: String, copied: (Int) -> Void
    ) throws(StorageError) {
        let input = open(source, O_RDONLY | O_CLOEXEC)
        guard input >= 0 else { throw failure("open \(source)", errno) }
        defer { Glibc.close(input) }
        let output = open(destination, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard output >= 0 else { throw failure("make \(destination)", errno) }
        defer { Glibc.close(output) }
        while true {
            let count = sendfile(output, input, nil, copiedBytesMax)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("copy \(source)", errno) }
            guard count > 0 else { return }
            copied(count)
        }
    }

    // MARK: Changing

    private func change(from format: UInt32, _ advance: (_ part: Double) -> Void) throws {
        let opened = try OpenFolder(
            unfinished, mapBytes: 2 * Self.bytes(of: unfinished + "/" + Self.dataName) + 1 << 30,
            durability: .os, purpose: .migration(from: format))
        let environment = Environment(opened, faults: nil)
        defer { environment.close() }
        let copy = MigratedCopy(environment: environment)
        let steps = steps.filter { $0.format >= format }
        for (index, step) in steps.enumerated() {
            report(.changing(from: step.format, to: step.format + 1))
            try step.change(copy) { part in
                advance((Double(index) + part) / Double(steps.count))
            }
        }
        try copy.writeFormat()
        try environment.sync()
    }

    // MARK: Moving into place

    private func end(from format: UInt32) throws {
        unlink(unfinished + "/lock.mdb")
        unlink(unfinished + "/martlet.lock")
        let old = "\(unfinished)/\(Self.oldPrefix)\(format)"
        guard mkdir(old, 0o700) == 0 else { throw failure("make \(old)", errno) }
        try OpenFolder.syncFolder(unfinished)
        try Self.move(unfinished, to: finished)
        try OpenFolder.syncFolder(folder)
        try end()
    }

    /// Ends a migration whose copy is whole. The caller holds the folder.
    func end() throws {
        guard Self.isToBeEnded(in: folder) else { return }
        let old = try Store.names(in: finished).first { $0.hasPrefix(Self.oldPrefix) }
        let new = finished + "/" + Self.dataName
        if let old, access(new, F_OK) == 0 {
            for name in [Self.dataName] + Journal.names
            where access(folder + "/" + name, F_OK) == 0 {
                try Self.move(folder + "/" + name, to: "\(finished)/\(old)/\(name)")
            }
            unlink(folder + "/lock.mdb")
            try OpenFolder.syncFolder(finished + "/" + old)
            try OpenFolder.syncFolder(folder)
            try Self.move(new, to: folder + "/" + Self.dataName)
            try OpenFolder.syncFolder(folder)
        }
        guard access(folder + "/" + Self.dataName, F_OK) == 0 else {
            throw StoreOpenError.damaged(new, text: "a file of the migration is missing")
        }
        var kept = old
        if let old {
            // An earlier migration from the same format may have left a folder.
            var number = 1
            var name = old
            while access(folder + "/" + name, F_OK) == 0 {
                number += 1
                name = "\(old).\(number)"
            }
            try Self.move(finished + "/" + old, to: folder + "/" + name)
            kept = name
        }
        guard rmdir(finished) == 0 else { throw failure("remove \(finished)", errno) }
        try OpenFolder.syncFolder(folder)
        if let kept { report(.ended(to: storeFormatVersion, keptIn: folder + "/" + kept)) }
    }

    // MARK: Files

    private static func move(_ from: String, to: String) throws(StorageError) {
        guard rename(from, to) == 0 else { throw failure("move \(from)", errno) }
    }

    private static func bytes(of path: String) throws(StorageError) -> Int {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure("look at \(path)", errno) }
        return Int(status.st_size)
    }

    /// Removes a folder of the migration, if there is one.
    private static func remove(_ path: String) throws {
        guard access(path, F_OK) == 0 else { return }
        for name in try Store.names(in: path) where unlink(path + "/" + name) != 0 {
            guard rmdir(path + "/" + name) == 0 else { throw failure("remove \(path)", errno) }
        }
        guard rmdir(path) == 0 else { throw failure("remove \(path)", errno) }
    }
}

extension OpenFolder {
    /// Opens a folder. A folder of an older format is migrated first, if the store is opened for serving.
    ///
    /// - Throws: `StoreOpenError` or `StorageError`.
    static func open(_ configuration: StoreConfiguration) throws -> OpenFolder {
        func open() throws -> OpenFolder {
            try OpenFolder(
                configuration.folder, mapBytes: configuration.mapBytes,
                durability: configuration.durability, purpose: configuration.purpose,
                checkpointCommitsMax: configuration.checkpointCommitsMax,
                faults: configuration.faults, migrating: configuration.migrating,
                checkingCopy: configuration.checkingCopy)
        }
        do {
            return try open()
        } catch StoreOpenError.olderFormat(let found, _) {
            let steps = configuration.migrationSteps
            let oldest = steps.first?.format ?? storeFormatVersion
            guard found >= oldest else {
                throw StoreOpenError.olderFormat(found: found, oldest: oldest)
            }
            guard configuration.purpose == .serving else {
                throw StoreOpenError.unmigratedFormat(found: found, known: storeFormatVersion)
            }
            let migration = Migration(
                folder: configuration.folder, steps: steps, report: configuration.migrating,
                faults: configuration.faults)
            try migration.run(from: found)
            return try open()
        }
    }
}
