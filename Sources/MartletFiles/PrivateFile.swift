// SPDX-License-Identifier: Apache-2.0
//
// A file that its owner alone can read, from the first byte on: keys, states, and the addresses of a broker. Rests on
// POSIX files.

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#else
    import Glibc
#endif

/// A new file, open for writing.
package struct PrivateFile: ~Copyable, Sendable {
    /// The system's reason for which a file was not made or written.
    package struct Failure: Error, CustomStringConvertible {
        package let code: Int32

        package init(code: Int32) { self.code = code }

        /// The reason of the last call.
        static var last: Failure { Failure(code: errno) }

        package var text: String { String(cString: strerror(code)) }

        package var description: String { text }
    }

    private let descriptor: Int32

    /// Creates the file. An existing file is left alone, because the file may be open elsewhere, and more users may
    /// be allowed to read the file.
    /// - Throws: EEXIST for an existing file.
    package init(creating path: String) throws(Failure) {
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .last }
    }

    deinit { close(descriptor) }

    /// Gives a path new content. The file has the old content or the new, also after a loss of power: the bytes go to a
    /// new file, `path` with `.new` appended, and the new file takes the path's place when the bytes are on disk.
    /// - Parameters:
    ///   - isSynced: whether the call waits for the disk; without, a loss of power may leave neither content.
    ///   - prepare: called with the new file's descriptor before anything is written.
    /// - Returns: the file, open behind the last byte.
    @discardableResult
    package static func replace(
        _ path: String, with bytes: [UInt8], isSynced: Bool = true,
        prepare: (Int32) throws(Failure) -> Void = { (_) throws(Failure) in }
    ) throws(Failure) -> PrivateFile {
        let temporary = path + ".new"
        // A crash may have left the file, and other users may be allowed to read the file.
        unlink(temporary)
        do throws(Failure) {
            let file = try PrivateFile(creating: temporary)
            try prepare(file.descriptor)
            try file.write(bytes, isSynced: isSynced)
            guard rename(temporary, path) == 0 else { throw .last }
            if isSynced { try syncFolder(of: path) }
            return file
        } catch {
            unlink(temporary)
            throw error
        }
    }

    /// Appends bytes, and returns when the bytes are on disk.
    package borrowing func write(_ bytes: [UInt8], isSynced: Bool = true) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Self.write(descriptor, $0) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw count < 0 ? .last : Failure(code: EIO) }
            rest = rest.dropFirst(count)
        }
        guard !isSynced || fsync(descriptor) == 0 else { throw .last }
    }

    /// The system's `write`: the name is taken inside `PrivateFile`, and the module differs by platform.
    private static func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        var part = iovec(
            iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
        return writev(descriptor, &part, 1)
    }

    /// Leaves the file open.
    /// - Returns: the descriptor, for the caller to close.
    package consuming func leaveOpen() -> Int32 {
        let descriptor = descriptor
        discard self
        return descriptor
    }

    // MARK: Locks and folders

    /// Locks an open file against every other lock.
    package static func lock(_ descriptor: Int32) throws(Failure) {
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw .last }
    }

    /// Syncs the folder of a file: on return the file's name is on disk.
    package static func syncFolder(of path: String) throws(Failure) {
        let slash = path.lastIndex(of: "/")
        try sync(folder: slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? ".")
    }

    /// Syncs a folder: on return the names in the folder are on disk.
    package static func sync(folder: String) throws(Failure) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // A folder that may be written and not read cannot be synced.
        if descriptor < 0, errno == EACCES { return }
        guard descriptor >= 0 else { throw .last }
        defer { close(descriptor) }
        // Some file systems have no fsync for folders.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw .last }
    }
}
