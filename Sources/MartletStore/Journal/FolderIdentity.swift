// SPDX-License-Identifier: Apache-2.0
//
// Tells whether the files of a folder are those that a store wrote, or copies. A copy that was made while a store was open
// may have pages of different times, and nothing in the pages shows it. While a store is open, its checkpoints therefore name
// the files by what no copy shares: their inodes and the times of their creation. A folder that was not closed and has other
// files is read in full before it is trusted. Bytes that were copied over the folder's own files pass for the folder's own.
// Rests on statx.

internal import CLMDB
import Glibc
import MartletBase
import MartletRows

/// The data file and the journal's files, as the file system knows them.
struct FolderIdentity: Equatable {
    /// The identity of a closed folder, and of one that an earlier program wrote: any copy of it is as good.
    static let none = FolderIdentity(rawValue: 0)
    /// The identity of a copy whose rows disagree. No folder has it, so each opening compares again.
    static let unproven = FolderIdentity(rawValue: 1)

    let rawValue: UInt64

    init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameter paths: the data file and the journal's files.
    init(of paths: [String]) {
        var writer = RecordWriter()
        for path in paths {
            let status = Self.status(of: path)
            writer.append(status.stx_ino)
            writer.append(status.stx_btime.tv_sec)
            writer.append(status.stx_btime.tv_nsec)
        }
        rawValue = max(2, writer.bytes.withUnsafeBytes { JournalFile.checksum($0) })
    }

    private static func status(of path: String) -> statx {
        var status = statx()
        let wanted = UInt32(STATX_INO | STATX_BTIME)
        // A file that is missing has zeros, and so has a time that the file system does not keep.
        guard statx(AT_FDCWD, path, 0, wanted, &status) == 0 else { return statx() }
        return status
    }
}
