// SPDX-License-Identifier: Apache-2.0
//
// The log of administrators' actions in a data folder: who did what, when and from where. An entry is a line of JSON in
// `audit.log`, and is on disk when `append` returns. The log is bounded: a full file becomes `audit.log.1`, and the former
// `audit.log.1` goes. Several processes may append at a time, under a lock. Rests on POSIX files.

import FoundationEssentials
import Glibc
package import Martlet
import MartletAnswers

/// An action of an administrator.
package struct AuditEntry: Codable, Sendable, Hashable {
    /// Number of the entry, rising by 1; 0 before the entry is in the log.
    package var number: UInt64 = 0
    /// Milliseconds since 1970.
    package var at: Int64
    /// Name of the user of the console; `link` for a one-time link; `command` for a command on the folder.
    package var who: String
    /// Network address; `this machine` for a command.
    package var from: String
    /// ID of the project; nil: the action concerns the broker.
    package var project: String?
    /// The action, such as `key.create`.
    package var action: String
    /// The object of the action, such as a key's ID. Never a secret.
    package var what: String

    package init(
        at: Instant, who: String, from: String, project: String?, action: String, what: String
    ) {
        self.at = at.millisecondsSince1970
        self.who = who
        self.from = from
        self.project = project
        self.action = action
        self.what = what
    }
}

/// A page of the log, the newest entry first.
package struct AuditPage: Encodable, Sendable {
    package var entries: [AuditEntry]
    /// Number below which the next page begins; nil at the end.
    package var next: UInt64?
}

/// The log of administrators' actions.
package struct AuditLog: Sendable {
    /// Longest object of an entry, in bytes; the rest is cut.
    private static let whatBytesMax = 1024
    private static let pageMax = 1000

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
        guard lock >= 0, flock(lock, LOCK_EX) == 0 else { throw unwritable() }
        defer { close(lock) }
        FolderOwner.give(lock, in: folder)
        var entry = entry
        entry.number = (lastNumber ?? 0) + 1
        if entry.what.utf8.count > Self.whatBytesMax {
            entry.what = String(decoding: entry.what.utf8.prefix(Self.whatBytesMax), as: UTF8.self)
        }
        var status = stat()
        if stat(path, &status) == 0, status.st_size >= Limits.auditFileBytesMax {
            guard rename(path, path + ".1") == 0 else { throw unwritable() }
        }
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw unwritable() }
        defer { close(file) }
        FolderOwner.give(file, in: folder)
        var rest = Array((JSON.line(entry) + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw unwritable() }
            rest = rest.dropFirst(count)
        }
        guard fdatasync(file) == 0 else { throw unwritable() }
    }

    /// A page, the newest entry first.
    /// - Parameters:
    ///   - project: only entries of this project; nil: all entries.
    ///   - before: entries with lower numbers; nil: from the newest entry on.
    ///   - limit: 1 to 1000 entries.
    package func page(project: String?, before: UInt64?, limit: Int) -> AuditPage {
        let limit = min(max(limit, 1), Self.pageMax)
        var page = AuditPage(entries: [], next: nil)
        for name in [path, path + ".1"] {
            for line in Self.lines(of: name).reversed() {
                guard let entry = Self.entry(line), entry.number < before ?? .max,
                    project == nil || entry.project == project
                else { continue }
                guard page.entries.count < limit else {
                    page.next = page.entries.last?.number
                    return page
                }
                page.entries.append(entry)
            }
        }
        return page
    }

    private var lastNumber: UInt64? {
        for name in [path, path + ".1"] {
            for line in Self.lines(of: name).reversed() {
                if let entry = Self.entry(line) { return entry.number }
            }
        }
        return nil
    }

    private static func lines(of path: String) -> [Data.SubSequence] {
        let bytes = FileManager.default.contents(atPath: path) ?? Data()
        return bytes.split(separator: UInt8(ascii: "\n"))
    }

    /// nil for a line that a crash has cut.
    private static func entry(_ line: Data.SubSequence) -> AuditEntry? {
        try? JSONDecoder().decode(AuditEntry.self, from: line)
    }

    private func unwritable() -> MartletError {
        MartletError(
            .unavailable, "'\(path)' cannot be written: \(String(cString: strerror(errno))).")
    }
}
