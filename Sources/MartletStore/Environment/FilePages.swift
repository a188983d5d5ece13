// SPDX-License-Identifier: Apache-2.0
//
// Brings parts of a file to the disk, one after another, so that the disk is free for others in between. The parts do
// not survive a loss of power before an fsync of the file. Rests on Linux' sync_file_range.

internal import CLMDB
import Glibc
import MartletRows

/// Writes the changed pages in a part of a file to the disk, and waits for their end.
/// - Returns: false if the file system does not have the call.
/// - Throws: `StorageError` for a failed write: the kernel reports a failed write only once.
func writePages(
    of descriptor: Int32, from start: Int, count: Int, _ operation: @autoclosure () -> String
) throws(StorageError) -> Bool {
    let flags =
        MARTLET_SYNC_FILE_RANGE_WAIT_BEFORE | MARTLET_SYNC_FILE_RANGE_WRITE
        | MARTLET_SYNC_FILE_RANGE_WAIT_AFTER
    guard sync_file_range(descriptor, start, count, UInt32(flags)) != 0 else { return true }
    guard ![EIO, ENOSPC, EDQUOT].contains(errno) else { throw failure(operation(), errno) }
    return false
}
