// SPDX-License-Identifier: Apache-2.0
//
// The errors of opening a data folder. Rests on CLMDB.

internal import CLMDB
import Glibc
import MartletRows

/// The reason why a data folder cannot be opened, with the remedy.
package enum StoreOpenError: Error, Sendable, CustomStringConvertible {
    /// The folder cannot be created, opened or synced.
    case folder(String, text: String)
    /// A file of the folder cannot be created, opened or used.
    case file(String, text: String)
    /// The disk has no room for the files of the folder.
    case full(String, text: String)
    /// Another process has locked the folder.
    case inUse(String)
    /// Another process has held the folder since this process began to read beside the owner.
    case restarted(String)
    /// The owner of the folder numbers its processes apart, or cannot be told from other owners.
    case elsewhere(String)
    /// A restore into the folder has not ended.
    case unfinishedRestore(String)
    /// A migration of the folder is to be ended by the next broker.
    case unfinishedMigration(String)
    /// The disk has no room for the copy that a migration changes.
    case noRoomToMigrate(String, neededBytes: Int, freeBytes: Int)
    /// A newer Martlet wrote the folder.
    case newerFormat(found: UInt32, known: UInt32)
    /// An older Martlet wrote the folder, and a broker would migrate the folder.
    case unmigratedFormat(found: UInt32, known: UInt32)
    /// An older Martlet wrote the folder, in a format older than the oldest that this program migrates or reads.
    case olderFormat(found: UInt32, oldest: UInt32)
    /// The folder has a broker's keys, but the data that belong to the keys are missing.
    case lost(String)
    /// A file of the store is incomplete, or has content that the store did not write.
    case damaged(String, text: String)

    /// Reason and remedy in words for people.
    package var description: String {
        switch self {
        case .folder(let folder, let text):
            "The data folder '\(folder)' cannot be opened: \(text). Choose a folder that can be written."
        case .file(let file, let text):
            "The file '\(file)' of the data folder cannot be used: \(text)."
        case .full(let folder, let text):
            """
            The disk of the data folder '\(folder)' has no room (\(text)). Make room, and start again; \
            nothing is lost.
            """
        case .inUse(let folder):
            """
            The data folder '\(folder)' is in use by another broker. Stop it, or choose another \
            folder; a folder belongs to one process at a time.
            """
        case .restarted(let folder):
            """
            The broker of the data folder '\(folder)' ended, was started again or opened the folder again \
            meanwhile, so what was read may not belong together. Begin anew.
            """
        case .elsewhere(let folder):
            """
            The data folder '\(folder)' is in use by a process of another container, or by an older \
            Martlet. Run the command in the container of the broker.
            """
        case .unfinishedRestore(let folder):
            """
            A restore into the data folder '\(folder)' has not ended. Run 'martlet restore' again, or \
            choose another folder.
            """
        case .unfinishedMigration(let folder):
            """
            A migration of the data folder '\(folder)' has not ended. Start the broker: it ends the \
            migration.
            """
        case .noRoomToMigrate(let folder, let needed, let free):
            """
            The data folder '\(folder)' is of an older Martlet, and its migration needs \
            \(needed >> 20) MiB on the disk beside it; \(free >> 20) MiB are free. Make room, and start \
            again; the folder is unchanged, and the older Martlet can go on with it.
            """
        case .newerFormat(let found, let known):
            """
            The data folder has format \(found), which a newer Martlet wrote; this one knows formats \
            up to \(known). Use the newer Martlet.
            """
        case .unmigratedFormat(let found, let known):
            """
            The data folder has format \(found) of an older Martlet, and this one reads format \(known). \
            Start the broker once: it migrates the folder, and keeps the old files beside.
            """
        case .olderFormat(let found, let oldest):
            """
            The data folder has format \(found) of an older Martlet, and this one knows formats from \
            \(oldest) on. Choose another folder.
            """
        case .lost(let folder):
            """
            The data folder '\(folder)' has the keys of a broker, and its 'data.mdb' is missing or \
            empty. Put the file back, or restore a backup into another folder. For a new broker choose \
            another folder.
            """
        case .damaged(let file, let text):
            """
            The data file '\(file)' is damaged: \(text). Keep a copy of the folder, and restore a \
            backup.
            """
        }
    }
}

extension StoreOpenError {
    /// `damaged` for a copy that was made while a store was open.
    static func ofDifferentTimes(_ file: String, _ text: String) -> StoreOpenError {
        .damaged(
            file,
            text:
                "it was copied while a broker served, so stop the broker and copy it again; \(text)"
        )
    }

    /// `folder` for an error of the system.
    package static func folder(_ path: String, errno code: Int32) -> StoreOpenError {
        .folder(path, text: reason(code, at: path))
    }

    /// `file` for an error of the system.
    package static func file(_ path: String, errno code: Int32) -> StoreOpenError {
        code == ELOOP ? .link(path) : .file(path, text: reason(code, at: path))
    }

    /// `file` for a symbolic link in the place of a file that is written. Who may put a name into the folder could make
    /// the broker write to another file with it.
    static func link(_ path: String) -> StoreOpenError {
        .file(
            path,
            text: """
                it is a symbolic link, and Martlet writes through none. Move the file itself here; the folder \
                as a whole may be a link
                """)
    }

    /// For a refused access the text names the owner, because a folder is often restored or started by another user.
    private static func reason(_ code: Int32, at path: String) -> String {
        let text = String(cString: strerror(code))
        var status = stat()
        guard code == EACCES, stat(path, &status) == 0, status.st_uid != geteuid() else {
            return text
        }
        return text + """
            ; the file belongs to user \(status.st_uid), and this program runs as user \(geteuid()): \
            start it as the owner, or give the folder to its user with chown -R
            """
    }

    /// `full` or `damaged` if the error says so.
    init?(openingOf folder: String, _ error: any Error) {
        if let error = error as? StorageError, [ENOSPC, EDQUOT].contains(error.code) {
            self = .full(folder, text: error.text)
        } else {
            self.init(damageIn: folder, error)
        }
    }

    /// `damaged` if the error says that LMDB did not write the file's content. LMDB's other errors concern room,
    /// and errors of the system concern the disk.
    package init?(damageIn folder: String, _ error: any Error) {
        let aboutRoom = [MDB_MAP_FULL, MDB_READERS_FULL, MDB_TXN_FULL, MDB_DBS_FULL, MDB_TLS_FULL]
        guard let error = error as? StorageError, error.code < 0, !aboutRoom.contains(error.code)
        else { return nil }
        self = .damaged(folder + "/data.mdb", text: error.text)
    }
}
