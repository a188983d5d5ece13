// SPDX-License-Identifier: Apache-2.0
//
// The form of a backup: one stream of bytes with all rows of a snapshot and the small files of the data folder. Rows
// instead of LMDB's pages: a restore writes full pages without gaps, a reader judges each row before a byte of it is
// used, and the form does not depend on LMDB. Numbers are little-endian.
//
//   stream   u64 magic ‖ u32 version of this form ‖ u32 store format ‖ i64 created ‖ items ‖ end
//   item     u8 1 ‖ u16 bytes of the name ‖ u32 bytes of the file ‖ name ‖ file
//            u8 2 ‖ u8 bytes of the name ‖ name of a table: the following rows are rows of the table
//            u8 3 ‖ u8 s ‖ length of the rest of the key ‖ length of the value ‖ rest of the key ‖ value: a row.
//                   Its key begins with the first s bytes of the key before. Keys of a table ascend
//            u8 5 ‖ u8 s ‖ length of the rest of the key ‖ rest of the key ‖ a bit for each byte of the value ‖
//                   bytes: a row whose value has as many bytes as the value before, 128 at most. The bytes are
//                   those that differ from the value before, and the bits name their places, the lowest bit first
//   length   seven bits in a byte, the lowest first; the upper bit says that another byte follows
//   end      u8 4 ‖ SHA-256 of all bytes before
//
// The first row of a table has no row before. Neighbours are alike: of 212 bytes for an instance with a topic about 130
// are left, and the disk limits the speed of a backup.
//
// A stream without its end is not whole. The digest detects damage, and not a forger. Rests on MartletCrypto.

import Glibc
import MartletBase
import MartletCrypto
import MartletRows

/// The numbers of the form.
enum BackupStream {
    static let magic: UInt64 = 0x4255_5445_4C54_524D
    static let version: UInt32 = 3
    static let headerBytes = 24
    static let digestBytes = SHA256.bytesCount
    /// Longest value that a reader accepts, in bytes: the longest row, a message's recipients, has far fewer.
    static let valueBytesMax = 1 << 28 - 1
    /// Longest key, as in LMDB, in bytes.
    static let keyBytesMax = 511
    /// Longest value of which only the changes are written, in bytes.
    static let changedValueBytesMax = 128
    /// Longest small file, in bytes: a file of the log of administrators' actions with its last entries.
    static let fileBytesMax = 2 * Limits.auditFileBytesMax

    enum Item: UInt8 {
        case file = 1
        case table
        case row
        case end
        case changedRow
    }

    /// The small files of a data folder that belong into a backup. `serve.address` and `http.address` name a
    /// running broker, and the locks are made anew.
    static func isKept(_ name: String) -> Bool {
        keptNames.contains(name) || project(ofKeyFile: name) != nil
    }

    private static let keptNames: Set<String> = [
        "admin.key", "token.key", "web-push.key", "bridge.key", "console.access", "audit.log",
    ]

    /// REG-7: the project of the file in which `martlet project create` leaves the registration key.
    static func project(ofKeyFile name: String) -> String? {
        guard name.hasPrefix("registration-"), name.hasSuffix(".key"), !name.contains("/") else {
            return nil
        }
        return String(name.dropFirst(13).dropLast(4))
    }
}

/// The content of a backup in numbers.
package struct BackupSummary: Sendable, Equatable {
    package struct Project: Sendable, Equatable {
        package var id: String
        /// The number of the last message accepted before the snapshot.
        package var lastSequence: UInt64
    }

    package var storeFormat: UInt32 = 0
    /// Milliseconds since 1970.
    package var created: Int64 = 0
    package var rowCount: UInt64 = 0
    package var byteCount: UInt64 = 0
    package var digest: [UInt8] = []
    package var projects: [Project] = []
}

/// The reason why a backup cannot be written or restored, with the remedy.
package enum BackupError: Error, Sendable, CustomStringConvertible {
    /// The destination of a backup or of a restore has files.
    case notEmpty(String)
    /// The destination of a backup lies in the data folder.
    case insideSource(String)
    case damaged(String)
    /// What was given as a backup is none.
    case noBackup(String, text: String)
    /// A newer Martlet wrote the backup.
    case newer(found: UInt32, known: UInt32)
    /// An older Martlet wrote the backup, in a format that is not converted.
    case older(found: UInt32, known: UInt32)
    /// The indexes of the snapshot, or of the restored rows, do not agree.
    case unclean(problemCount: UInt64, isRestore: Bool)
    case file(String, text: String)
    /// OPS-7: the backup is of a folder that belongs to no cluster.
    case noNode

    package var description: String {
        switch self {
        case .notEmpty(let folder):
            "'\(folder)' is not empty. Choose another folder, or empty this one."
        case .insideSource(let folder):
            "'\(folder)' lies in the data folder, and would be lost with it. Choose another folder."
        case .damaged(let text):
            "The backup is damaged: \(text). Nothing was changed. Take another backup."
        case .noBackup(let path, let text):
            "'\(path)' is no backup: \(text)"
        case .newer(let found, let known):
            """
            The backup has store format \(found), which a newer Martlet wrote; this one knows formats up to \
            \(known). Use the newer Martlet.
            """
        case .older(let found, let known):
            """
            The backup has store format \(found), and this Martlet reads format \(known). Restore it with \
            the Martlet that wrote it.
            """
        case .unclean(let count, false):
            """
            \(count) problems were found in the folder, so there is no backup. 'martlet check' lists them; \
            earlier backups may be sound.
            """
        case .unclean(let count, true):
            "\(count) problems were found in the backup. Nothing was changed. Take another backup."
        case .noNode:
            """
            The backup is of a folder that belongs to no cluster. Take a backup of a node of the \
            cluster.
            """
        case .file(let path, let text):
            "'\(path)' cannot be used: \(text)."
        }
    }
}
