// SPDX-License-Identifier: Apache-2.0
//
// A file for a secret: readable by its owner alone, from the first byte on. Rests on POSIX files.

import Glibc
import Martlet

/// A new file for a single write.
struct SecretFile: ~Copyable {
    private let path: String
    private let descriptor: Int32

    /// Creates the file. An existing file is left alone, because the file may hold another secret, and other
    /// processes may have the file open.
    /// - Throws: `ALREADY_EXISTS` for an existing file; `INVALID_ARGUMENT` if no file can be made.
    init(creating path: String) throws(MartletError) {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw MartletError(
                errno == EEXIST ? .alreadyExists : .invalidArgument,
                "'\(path)' cannot be made: \(String(cString: strerror(errno))).", field: "output")
        }
    }

    deinit { close(descriptor) }

    func write(_ text: String) throws(MartletError) {
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0
        else {
            throw MartletError(
                .internal, "'\(path)' cannot be written: \(String(cString: strerror(errno))).")
        }
    }
}
