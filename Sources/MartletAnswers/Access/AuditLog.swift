// SPDX-License-Identifier: Apache-2.0
//
// The log of administrators' actions in a data folder, each with its person, time and address. An entry is a line of JSON in
// `audit.log`, and is on disk when `append` returns. The log is bounded: of a full file the newest entries of each kind stay
// (see AuditShares). Several processes may append at a time, under a lock. Rests on PrivateFile and AuditShares.

import FoundationEssentials
import Glibc
package import Martlet
import MartletFiles

/// The log of administrators' actions.
package struct AuditLog: Sendable {
    private static let pageMax = 1000
    /// Bytes at the end of the file in which the last entry is looked for: several entries of greatest length.
    private static let tailBytes = 4096

    private let folder: String
    private let path: String

    /// - Parameter folder: an existing data folder.
    package init(in folder: String) {
        self.folder = folder
        path = folder + "/audit.log"
    }

    /// Appends an entry, and returns when the entry is on disk.
    /// - Throws: `UNAVAILABLE` for a file that cannot be written.
    package func append(_ entry: AuditEntry) throws(MartletError) {
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0, flock(lock, LOCK_EX) == 0 else { throw unwritable(errno) }
        defer { close(lock) }
        FolderOwner.give(lock, in: folder)
        var status = stat()
        if stat(path, &status) == 0, status.st_size >= Limits.auditFileBytesMax { try trim() }
        let file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw unwritable(errno) }
        defer { close(file) }
        FolderOwner.give(file, in: folder)
        let tail = Self.tail(of: file)
        var entry = entry
        entry.number = (Self.lastNumber(in: tail) ?? lastNumber ?? 0) + 1
        // A crash may have cut the last line.
        let isCut = tail.last.map { $0 != UInt8(ascii: "\n") } ?? false
        try write((isCut ? "\n" : "") + JSON.line(entry) + "\n", to: file)
        guard fdatasync(file) == 0 else { throw unwritable(errno) }
    }

    private func write(_ text: String, to file: Int32) throws(MartletError) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw unwritable(errno) }
            rest = rest.dropFirst(count)
        }
    }

    private static func tail(of file: Int32) -> Data {
        let end = lseek(file, 0, SEEK_END)
        var bytes = [UInt8](repeating: 0, count: tailBytes)
        let start = max(end - off_t(tailBytes), 0)
        let count = pread(file, &bytes, tailBytes, start)
        return Data(bytes.prefix(max(count, 0)))
    }

    /// Makes room in a full file. The file is whole before or after.
    private func trim() throws(MartletError) {
        let kept = AuditShares.newest(
            Self.lines(of: path).map { ($0, Self.entry($0)) },
            bytesMax: Limits.auditFileBytesMax / 2)
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(path, with: kept.flatMap { $0 + [UInt8(ascii: "\n")] }) {
                FolderOwner.give($0, in: folder)
            }
        } catch {
            throw unwritable(error.code)
        }
    }

    /// A page, the newest entry first.
    /// - Parameters:
    ///   - project: only entries of this project; nil: all entries.
    ///   - action: only entries of this action; nil: all entries.
    ///   - before: entries with lower numbers; nil: from the newest entry on.
    ///   - limit: 1 to 1000 entries.
    package func page(
        project: String?, action: String? = nil, before: UInt64?, limit: Int
    ) -> AuditPage {
        let limit = min(max(limit, 1), Self.pageMax)
        // Most entries of others are passed over without a look at their JSON.
        let needed = [project, action].compactMap { $0.map { Array("\"\($0)\"".utf8) } }
        var page = AuditPage(entries: [], next: nil)
        for line in Self.lines(of: path).reversed() {
            guard needed.allSatisfy({ Self.has($0, line) }),
                let entry = Self.entry(line), entry.number < before ?? .max,
                project == nil || entry.project == project,
                action == nil || entry.action == action
            else { continue }
            guard page.entries.count < limit else {
                page.next = page.entries.last?.number
                return page
            }
            page.entries.append(entry)
        }
        return page
    }

    private static func has(_ text: [UInt8], _ line: Data.SubSequence) -> Bool {
        line.withUnsafeBytes { bytes in
            guard bytes.count >= text.count else { return false }
            return (0...(bytes.count - text.count)).contains { start in
                text.indices.allSatisfy { bytes[start + $0] == text[$0] }
            }
        }
    }

    /// The number of the last entry of a file without an entry at its end; nil for none.
    private var lastNumber: UInt64? {
        Self.lines(of: path).reversed().lazy.compactMap { Self.entry($0)?.number }.first
    }

    private static func lastNumber(in tail: Data) -> UInt64? {
        tail.split(separator: UInt8(ascii: "\n")).reversed().lazy
            .compactMap { entry($0)?.number }.first
    }

    private static func lines(of path: String) -> [Data.SubSequence] {
        let bytes = FileManager.default.contents(atPath: path) ?? Data()
        return bytes.split(separator: UInt8(ascii: "\n"))
    }

    /// nil for a line that a crash has cut.
    private static func entry(_ line: Data.SubSequence) -> AuditEntry? {
        try? JSONDecoder().decode(AuditEntry.self, from: line)
    }

    private func unwritable(_ code: Int32) -> MartletError {
        MartletError(
            .unavailable, "'\(path)' cannot be written: \(String(cString: strerror(code))).")
    }
}
