// SPDX-License-Identifier: Apache-2.0
//
// A file that its owner alone can read, from the first byte on: keys, and the addresses of a broker. Rests on POSIX
// files.

import Glibc

/// A new file, open for writing.
package struct PrivateFile: ~Copyable, Sendable {
    /// The system's reason for which a file was not made or written.
    package struct Failure: Error {
        package let code: Int32

        package var text: String { String(cString: strerror(code)) }
    }

    private let descriptor: Int32

    /// Creates the file. An existing file is left alone, because the file may be open elsewhere, and more users may
    /// be allowed to read the file.
    /// - Throws: EEXIST for an existing file.
    package init(creating path: String) throws(Failure) {
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(code: errno) }
    }

    deinit { close(descriptor) }

    /// Appends a text, and returns when the text is on disk.
    package borrowing func write(_ text: String) throws(Failure) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure(code: count < 0 ? errno : EIO) }
            rest = rest.dropFirst(count)
        }
        guard fsync(descriptor) == 0 else { throw Failure(code: errno) }
    }

    /// Locks the file against every other lock.
    borrowing func lock() throws(Failure) {
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw Failure(code: errno) }
    }

    /// Leaves the file open.
    /// - Returns: the descriptor, for the caller to close.
    consuming func leaveOpen() -> Int32 {
        let descriptor = descriptor
        discard self
        return descriptor
    }
}
