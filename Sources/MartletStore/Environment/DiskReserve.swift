// SPDX-License-Identifier: Apache-2.0
//
// Room on the disk for what frees room (OPS-12). LMDB writes each page that changes to another place, so
// that even a deletion needs some. Disk space behind the end of the data file is taken before it is
// needed. Where no more can be had, what is left of it is kept for acknowledgements and deletions: whoever
// applies commands asks here before taking anything new. Pages that those have freed count as room. Rests on
// fallocate of Linux.

internal import CLMDB
import Glibc

/// What of a data file's disk space is taken in advance.
struct DiskReserve {
    /// The largest transaction of acknowledgements that was measured changed 3 MiB of pages.
    static let byteCount = 16 << 20
    /// How long an answer holds, where nothing more could be had.
    private static let restMilliseconds: Int64 = 100

    private let file: Int32
    private let refuses: (@Sendable () -> Bool)?
    /// Up to here the file's disk space is taken.
    private var end = 0
    private var isShort = false
    /// When no more could be had; nil: it could, the last time.
    private var failedAt: Int64?

    /// - Parameters:
    ///   - file: the data file. It is the caller's, and open for as long as this is used.
    ///   - refuses: whether a simulated disk has no more; nil: the real one is asked.
    init(file: Int32, refuses: (@Sendable () -> Bool)?) {
        self.file = file
        self.refuses = refuses
    }

    /// Takes what is missing of the reserve.
    /// - Parameters:
    ///   - usedBytes: where the file ends for LMDB.
    ///   - now: milliseconds of a clock that only rises.
    ///   - freeBytes: pages before that end that nothing is in.
    /// - Returns: whether there is too little room for anything new.
    mutating func isShort(
        usedBytes: Int, at now: Int64, freeBytes: () -> Int
    ) -> Bool {
        guard usedBytes + Self.byteCount > end else {
            isShort = false
            return false
        }
        // A failure rests, so that not every commit asks.
        if let failedAt, now - failedAt < Self.restMilliseconds { return isShort }
        failedAt = nil
        // Twice as much, so that a store that grows asks once in a while.
        if take(from: usedBytes, byteCount: 2 * Self.byteCount)
            || take(from: usedBytes, byteCount: Self.byteCount)
        {
            isShort = false
            return false
        }
        failedAt = now
        // A reader of an old snapshot blocks free pages, so half of the reserve consists of disk space. A store
        // that was short needs twice the free pages before new commands are accepted again.
        let isUsedUp = usedBytes + Self.byteCount / 2 > end
        isShort = isUsedUp || freeBytes() < (isShort ? 2 : 1) * Self.byteCount
        return isShort
    }

    private mutating func take(from start: Int, byteCount: Int) -> Bool {
        if let refuses {
            if refuses() { return false }
        } else {
            var code: Int32
            repeat {
                code =
                    fallocate(file, FALLOC_FL_KEEP_SIZE, off_t(start), off_t(byteCount)) == 0
                    ? 0 : errno
            } while code == EINTR
            // Where space cannot be taken in advance, it is looked whether there is some.
            if code != 0, code != ENOSPC, code != EDQUOT { code = hasRoom(byteCount) ? 0 : ENOSPC }
            guard code == 0 else { return false }
        }
        end = start + byteCount
        return true
    }

    private func hasRoom(_ byteCount: Int) -> Bool {
        var status = statvfs()
        guard fstatvfs(file, &status) == 0 else { return true }
        return Int(clamping: UInt64(status.f_bavail) * UInt64(status.f_frsize)) >= byteCount
    }
}
