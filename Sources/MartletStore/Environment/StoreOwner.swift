// SPDX-License-Identifier: Apache-2.0
//
// Who holds a data folder: the content of `martlet.lock`, written anew by each process that takes the lock, before it
// changes anything. A reader beside the owner compares the content at its begin and at its end. The same content means
// that no other process has held the folder in between, so no recovery has put the data file back to a checkpoint, and
// LMDB has kept the pages of the reader's snapshot.
//
// The content also names the owner's space of process IDs. LMDB knows a reader by its process ID, and two processes of
// different containers may have the same. Rests on POSIX files.

import Glibc

package struct StoreOwner: Equatable {
    private static let byteCount = 64

    private let text: [UInt8]

    /// Writes a new owner into the lock file.
    /// - Throws: the error number of the system.
    static func write(to descriptor: Int32) throws(StoreOpenError) {
        let number = String(UInt64.random(in: .min ... .max), radix: 16)
        var text = Array("\(number) \(space)".utf8.prefix(byteCount - 1))
        text += [UInt8](repeating: UInt8(ascii: " "), count: byteCount - 1 - text.count)
        text.append(UInt8(ascii: "\n"))
        guard pwrite(descriptor, text, text.count, 0) != text.count else { return }
        let code = errno
        // On a full disk the folder may be opened all the same. Without an owner nobody reads beside.
        guard ftruncate(descriptor, 0) == 0 else {
            throw .file("martlet.lock", text: String(cString: strerror(code)))
        }
    }

    /// Reads the owner of a lock file; nil: the owner could not write itself, or is of a program without owners.
    init?(at descriptor: Int32) {
        var text = [UInt8](repeating: 0, count: Self.byteCount)
        guard pread(descriptor, &text, text.count, 0) == text.count else { return nil }
        self.text = text
    }

    /// The last owner of a folder.
    package init?(of folder: String) {
        let descriptor = open(folder + "/martlet.lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        self.init(at: descriptor)
    }

    /// The owner that holds a folder now; nil: no process holds the folder.
    package init?(holding folder: String) {
        let descriptor = open(folder + "/martlet.lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0 else { return nil }
        self.init(at: descriptor)
    }

    /// Whether the owner numbers processes as this process does.
    var isInSameSpace: Bool {
        let words = String(decoding: text, as: UTF8.self).split { $0 == " " || $0 == "\n" }
        return words.count == 2 && words[1] == Self.space && Self.space != Self.unknownSpace
    }

    private static let unknownSpace = "unknown"

    /// The name of the process-ID namespace.
    private static var space: String {
        var name = [UInt8](repeating: 0, count: 40)
        let count = name.withUnsafeMutableBytes { bytes in
            readlink("/proc/self/ns/pid", bytes.baseAddress!, bytes.count)
        }
        return count > 0 ? String(decoding: name[..<count], as: UTF8.self) : unknownSpace
    }
}
