// SPDX-License-Identifier: Apache-2.0
//
// Reserves disk space for transactions that free room (OPS-12). LMDB writes every changed page to another place, so
// even a deletion needs room. The reserve is disk space behind the end of the data file, taken in advance. If the
// disk gives no more, the rest of the reserve is kept for acknowledgements and deletions: the code that applies
// commands asks the reserve before it accepts new content. Free pages count as room. Rests on fallocate of Linux.

internal import CLMDB
import Glibc
import MartletBase

/// The disk space of a data file that is taken in advance.
struct DiskReserve {
    /// The size of the reserve, in bytes. The largest measured transaction of acknowledgements changed 3 MiB of
    /// pages.
    static let byteCount = 16 << 20
    /// How long a refusal of the disk is trusted before the next attempt, in milliseconds.
    private static let restMilliseconds: Int64 = 100

    private let file: Int32
    private let refuses: (@Sendable () -> Bool)?
    /// The offset up to which the file's disk space is taken.
    private var end = 0
    private var isShort = false
    /// The time of the last refusal; nil if the last attempt succeeded.
    private var failedAt: Int64?

    /// - Parameters:
    ///   - file: the data file. The caller owns the descriptor and keeps it open as long as the reserve is in use.
    ///   - refuses: whether a simulated disk has no more room; nil: the real disk is asked.
    init(file: Int32, refuses: (@Sendable () -> Bool)?) {
        self.file = file
        self.refuses = refuses
    }

    /// Takes the missing part of the reserve.
    /// - Parameters:
    ///   - usedBytes: the end of the file for LMDB.
    ///   - now: milliseconds of a monotonic clock.
    ///   - freeBytes: returns the bytes of free pages before `usedBytes`.
    /// - Returns: whether there is too little room for new content.
    mutating func isShort(
        usedBytes: Int, at now: Int64, freeBytes: () -> Int
    ) -> Bool {
        guard usedBytes + Self.byteCount > end else {
            isShort = false
            return false
        }
        // After a refusal wait a while, so that not every commit asks the disk.
        if let failedAt, now - failedAt < Self.restMilliseconds { return isShort }
        failedAt = nil
        // Take twice the reserve, so that a growing store asks only once in a while.
        if take(from: usedBytes, byteCount: 2 * Self.byteCount)
            || take(from: usedBytes, byteCount: Self.byteCount)
        {
            isShort = false
            return false
        }
        failedAt = now
        // A reader of an old snapshot blocks free pages, so at least half of the reserve must be disk space. A
        // store that was short needs twice the free pages before it accepts new commands again.
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
            // If the file system cannot take space in advance, check whether the disk has room.
            if code != 0, code != ENOSPC, code != EDQUOT { code = hasRoom(byteCount) ? 0 : ENOSPC }
            guard code == 0 else { return false }
        }
        invariant(byteCount > 0, "A reserve has bytes.")
        end = start + byteCount
        return true
    }

    private func hasRoom(_ byteCount: Int) -> Bool {
        guard let room = DiskRoom(of: file) else { return true }
        return room.freeBytes >= byteCount
    }
}
