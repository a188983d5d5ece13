// SPDX-License-Identifier: Apache-2.0
//
// The file `console.access` of a data folder, with the people who may use the console. Commands change the file while a
// broker serves the folder, and the console reads the file again when it changed. A change is whole or not at all, and
// made under a lock. Rests on AccessList and PrivateFile.

import FoundationEssentials
import Glibc
package import Martlet
import MartletFiles

/// The file with the users of the console.
package struct AccessFile: Sendable {
    /// Tells a changed file: each change makes a new file.
    package struct Stamp: Sendable, Hashable {
        private let inode: UInt64
        private let seconds: Int
        private let nanoseconds: Int

        fileprivate init(_ status: stat) {
            inode = UInt64(status.st_ino)
            seconds = status.st_mtim.tv_sec
            nanoseconds = status.st_mtim.tv_nsec
        }
    }

    private let folder: String
    private let path: String

    /// - Parameter folder: an existing data folder.
    package init(in folder: String) {
        self.folder = folder
        path = folder + "/console.access"
    }

    /// nil without a file.
    package var stamp: Stamp? {
        var status = stat()
        return stat(path, &status) == 0 ? Stamp(status) : nil
    }

    /// The list in the file; an empty list without a file.
    /// - Throws: `UNAVAILABLE` for a file that cannot be read or has another content.
    package func read() throws(MartletError) -> AccessList {
        guard stamp != nil else { return AccessList() }
        guard let bytes = FileManager.default.contents(atPath: path),
            let list = try? JSONDecoder().decode(AccessList.self, from: bytes)
        else {
            throw MartletError(
                .unavailable, "'\(path)' cannot be read, or is no list of users of the console.")
        }
        return list
    }

    /// Changes the list.
    /// - Throws: the error of `body`, and nothing is changed then; `UNAVAILABLE` for a file that cannot be written.
    package func change<Result>(
        _ body: (inout AccessList) throws(MartletError) -> Result
    ) throws(MartletError) -> Result {
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0, flock(lock, LOCK_EX) == 0 else { throw unwritable(errno) }
        defer { close(lock) }
        FolderOwner.give(lock, in: folder)
        var list = try read()
        let before = list
        let result = try body(&list)
        if list != before { try write(list) }
        return result
    }

    private func write(_ list: AccessList) throws(MartletError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        guard let bytes = try? encoder.encode(list) else { throw unwritable(EINVAL) }
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(path, with: Array(bytes) + [UInt8(ascii: "\n")]) {
                FolderOwner.give($0, in: folder)
            }
        } catch {
            throw unwritable(error.code)
        }
    }

    private func unwritable(_ code: Int32) -> MartletError {
        MartletError(
            .unavailable, "'\(path)' cannot be written: \(String(cString: strerror(code))).")
    }
}
