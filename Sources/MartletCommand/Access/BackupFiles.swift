// SPDX-License-Identifier: Apache-2.0
//
// The files of a backup. Only their owner can read them, because a backup has the administrator key. Rests on
// PrivateFile.

import FoundationEssentials
import Glibc
import Martlet
import MartletFiles
import MartletStore

/// A backup folder in the making.
struct BackupFiles {
    private let folder: String
    private let isMade: Bool
    private var rows: String { folder + "/" + BackupManifest.rowsName }

    /// Makes the folder, or takes an empty folder.
    /// - Parameter source: the data folder. A backup inside is lost with the data folder, and is refused.
    init(making folder: String, of source: String) throws {
        self.folder = folder
        guard !Self.isInside(folder, source) else { throw BackupError.insideSource(folder) }
        isMade = mkdir(folder, 0o700) == 0
        guard isMade || errno == EEXIST else { throw Self.failure(folder) }
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            throw Self.failure(folder)
        }
        guard names.isEmpty else { throw BackupError.notEmpty(folder) }
    }

    /// Whether a path, which may not exist yet, lies in a folder.
    private static func isInside(_ path: String, _ folder: String) -> Bool {
        guard let outer = realPath(folder) else { return false }
        var rest = path.hasPrefix("/") ? path : "./" + path
        while !rest.isEmpty {
            if let inner = realPath(rest) { return (inner + "/").hasPrefix(outer + "/") }
            rest = String(rest[..<(rest.lastIndex(of: "/") ?? rest.startIndex)])
        }
        return false
    }

    private static func realPath(_ path: String) -> String? {
        guard let found = realpath(path, nil) else { return nil }
        defer { free(found) }
        return String(cString: found)
    }

    func withRows<Result>(_ body: (Int32) throws -> Result) throws -> Result {
        let file = Glibc.open(rows, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Self.failure(rows) }
        defer { close(file) }
        return try body(file)
    }

    /// Makes the folder a backup: writes the manifest, whole or not at all.
    func end(_ manifest: String) throws {
        let path = folder + "/" + BackupManifest.name
        do throws(PrivateFile.Failure) {
            try PrivateFile.sync(folder: folder)
            try PrivateFile.replace(path, with: Array(manifest.utf8))
        } catch {
            throw BackupError.file(path, text: error.text)
        }
    }

    func remove() {
        for name in [BackupManifest.name, BackupManifest.name + ".new", BackupManifest.rowsName] {
            unlink(folder + "/" + name)
        }
        if isMade { rmdir(folder) }
    }

    /// Opens a backup: a folder, a file with a stream, or standard input.
    /// - Returns: the stream, and the manifest, if there is one.
    static func open(_ path: String) throws -> (stream: Int32, manifest: BackupManifest?) {
        if path == "-" { return (STDIN_FILENO, nil) }
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path) }
        let isFolder = status.st_mode & S_IFMT == S_IFDIR
        var manifest: BackupManifest?
        if isFolder {
            guard let bytes = FileManager.default.contents(atPath: path + "/" + BackupManifest.name)
            else {
                throw withoutManifest(path)
            }
            // Fields that this program does not know are no reason for a refusal.
            guard let read = try? JSONDecoder().decode(BackupManifest.self, from: bytes) else {
                throw BackupError.damaged("its \(BackupManifest.name) is no manifest")
            }
            manifest = read
        }
        let file = isFolder ? path + "/" + BackupManifest.rowsName : path
        let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(file) }
        return (descriptor, manifest)
    }

    /// Why a folder without a manifest is no backup.
    private static func withoutManifest(_ path: String) -> BackupError {
        if access(path + "/data.mdb", F_OK) == 0 {
            return .noBackup(
                path,
                text: """
                    it is a data folder. Make a backup of it with 'martlet backup', while its broker serves or \
                    not; 'martlet check --data' checks the folder itself.
                    """)
        }
        if access(path + "/" + BackupManifest.rowsName, F_OK) == 0 {
            return .damaged("'\(path)' has no \(BackupManifest.name), so it was never finished")
        }
        return .noBackup(
            path,
            text: """
                it has no \(BackupManifest.name). Name the folder that 'martlet backup' made, or a file with its \
                stream.
                """)
    }

    private static func failure(_ path: String) -> BackupError {
        .file(path, text: String(cString: strerror(errno)))
    }
}
