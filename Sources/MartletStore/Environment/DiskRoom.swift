// SPDX-License-Identifier: Apache-2.0
//
// The room of a file system. Some network file systems report absurd numbers, so the products are bounded. Rests on
// statvfs.

import Glibc

/// The room of a file system, in bytes.
package struct DiskRoom {
    package let freeBytes: Int
    package let byteCount: Int

    /// The disk of a folder; of a deleted folder, that of the nearest folder above it. nil: the system does not tell.
    package init?(of path: String) {
        var (path, status) = (path[...], statvfs())
        while statvfs(String(path), &status) != 0 {
            guard errno == ENOENT, path != ".", path != "/" else { return nil }
            let end = path.lastIndex(of: "/")
            path = end.map { $0 == path.startIndex ? "/" : path[..<$0] } ?? "."
        }
        self.init(status)
    }

    init?(of descriptor: Int32) {
        var status = statvfs()
        guard fstatvfs(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    private init(_ status: statvfs) {
        freeBytes = Self.bytes(status.f_bavail, status.f_frsize)
        byteCount = Self.bytes(status.f_blocks, status.f_frsize)
    }

    private static func bytes(_ blocks: UInt, _ bytesPerBlock: UInt) -> Int {
        let (bytes, isTooLarge) = blocks.multipliedReportingOverflow(by: bytesPerBlock)
        return isTooLarge ? .max : Int(clamping: bytes)
    }
}
