// SPDX-License-Identifier: Apache-2.0
//
// Copies a snapshot into a backup, and checks the same snapshot on another thread: the copy waits for the disk, and the
// check needs a processor. A snapshot of a served folder has every transaction
// whose acknowledgement came before: the journal delays what reaches the disk, and not what a reader sees. LMDB keeps
// the pages of the snapshot until the backup has ended. Rests on BackupWriter.

import Glibc
import MartletBase
package import MartletEngine
import MartletRows
import Synchronization

/// How far a backup or a restore is.
package enum BackupProgress: Sendable {
    case rows(done: UInt64, of: UInt64?)
    case checking(CheckProgress)
}

extension Store {
    /// Rows between two calls of `progress`.
    private static let rowsPerProgress: UInt64 = 16_384
    /// Bytes of the data file that are read ahead for each byte of the copy's bound. The file of a store has 2.2 bytes
    /// for a byte of its backup, and reading must be ahead.
    private static let readAheadTimes = 3

    /// Opens a folder for reading: beside the broker that serves the folder, else alone.
    package static func forReading(_ folder: String) throws -> Store {
        var configuration = StoreConfiguration(folder: folder)
        configuration.purpose = .trial
        do {
            return try Store(configuration)
        } catch StoreOpenError.inUse {
            configuration.purpose = .beside
            return try Store(configuration)
        }
    }

    /// OPS-3: writes a backup of the newest snapshot to a descriptor.
    ///
    /// - Parameters:
    ///   - created: the time of the backup, in milliseconds since 1970.
    ///   - bytesPerSecond: bound of the copy's speed; 0: none. The data file is read ahead at three times the bound.
    ///   - progress: called on both threads; of the check only when the rows are copied.
    /// - Throws: `BackupError`, `StoreOpenError` or `StorageError`. What was written is no backup then.
    package func backUp(
        to descriptor: Int32, folder: String, created: Int64, bytesPerSecond: Int,
        progress: @escaping @Sendable (BackupProgress) -> Void
    ) throws -> BackupSummary {
        try ReadAhead.during(
            folder + "/data.mdb", bytesPerSecond: Self.readAheadTimes * bytesPerSecond
        ) {
            try copy(to: descriptor, folder: folder, created, bytesPerSecond, progress)
        }
    }

    private func copy(
        to descriptor: Int32, folder: String, _ created: Int64, _ bytesPerSecond: Int,
        _ progress: @escaping @Sendable (BackupProgress) -> Void
    ) throws -> BackupSummary {
        let isCopied = Atomic<Bool>(false)
        let report: CheckReport
        var summary = BackupSummary(storeFormat: storeFormatVersion, created: created)
        var writer = BackupWriter(descriptor, bytesPerSecond: bytesPerSecond)
        (summary.projects, report) = try readOfOwner { (transaction) throws in
            let projects = try transaction.allProjects()
            try writer.header(storeFormat: storeFormatVersion, created: created)
            for (name, bytes) in try Self.keptFiles(of: folder, projects) {
                try writer.file(name, bytes)
            }
            let total = Table.allCases.reduce(0) { $0 + UInt64(transaction.raw.entryCount($1)) }
            for table in Table.allCases {
                try writer.table(table.name)
                let cursor = try Cursor(transaction.raw, table)
                var found = try cursor.next()
                while let entry = found {
                    try writer.row(entry.key.bytes, entry.value)
                    summary.rowCount += 1
                    if summary.rowCount % Self.rowsPerProgress == 0 {
                        progress(.rows(done: summary.rowCount, of: total))
                    }
                    found = try cursor.next()
                }
            }
            try writer.flush()
            isCopied.store(true, ordering: .relaxed)
            return projects
        } beside: { (transaction) throws(StorageError) in
            try transaction.check { state in
                if isCopied.load(ordering: .relaxed) { progress(.checking(state)) }
            }
        }
        guard report.isClean else {
            throw BackupError.unclean(problemCount: report.problemCount, isRestore: false)
        }
        summary.digest = try writer.end()
        summary.byteCount = UInt64(writer.byteCount)
        return summary
    }

    /// The small files of the folder, without the key files of projects that the snapshot does not have.
    private static func keptFiles(
        of folder: String, _ projects: [BackupSummary.Project]
    ) throws -> [(String, [UInt8])] {
        let known = Set(projects.map(\.id))
        return try names(in: folder).filter(BackupStream.isKept).sorted().compactMap { name in
            if let project = BackupStream.project(ofKeyFile: name), !known.contains(project) {
                return nil
            }
            return try bytes(of: folder + "/" + name).map { (name, $0) }
        }
    }

    /// The content of a small file; nil if the file has gone, as a full file of the log of actions does.
    private static func bytes(of path: String) throws -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw BackupError.file(path, text: String(cString: strerror(errno)))
        }
        defer { Glibc.close(file) }
        var bytes = [UInt8](repeating: 0, count: BackupStream.fileBytesMax)
        var count = 0
        while count < bytes.count {
            let new = bytes.withUnsafeMutableBytes {
                Glibc.read(file, $0.baseAddress! + count, $0.count - count)
            }
            if new < 0, errno == EINTR { continue }
            guard new >= 0 else {
                throw BackupError.file(path, text: String(cString: strerror(errno)))
            }
            guard new > 0 else { break }
            count += new
        }
        return Array(bytes[..<count])
    }

    /// The names in a folder.
    static func names(in folder: String) throws -> [String] {
        guard let stream = opendir(folder) else {
            throw BackupError.file(folder, text: String(cString: strerror(errno)))
        }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }
}

extension Transaction {
    /// All projects with their last messages, in the order of their IDs. The rows may be damaged, so the search ends when
    /// the IDs do not rise; a check finds the reason.
    func allProjects() throws -> [BackupSummary.Project] {
        var all: [BackupSummary.Project] = []
        while true {
            let page = try projects.projects(after: all.last?.id ?? "", limit: 1000)
            guard let last = page.last?.id, last > all.last?.id ?? "" else { return all }
            all += page.map { .init(id: $0.id, lastSequence: $0.lastSequence.rawValue) }
        }
    }
}
