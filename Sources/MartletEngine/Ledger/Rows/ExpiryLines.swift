// SPDX-License-Identifier: Apache-2.0
//
// A project's expiry line (`ExpiryLineRow`). Messages join it when they are stored, and the sweep goes along it. Nobody tells
// the line of messages that leave earlier: the sweep just doesn't find their records. Rests on DueLedger.

import MartletBase
import MartletRows

/// The expiry lines of projects.
package struct ExpiryLines: Ledger {
    package let context: LedgerContext
    private var dueRows: DueLedger { DueLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Adds a message to the line, if it doesn't expire before the last one there.
    /// - Returns: whether it joined; otherwise it needs a row of its own in `due`.
    func join(
        _ sequence: MessageSequence, expires: Instant, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        var line = try line(of: project)
        guard expires >= line.last else { return false }
        line.last = expires
        if line.due == ExpiryLineRow.never {
            line.first = sequence
            try setDue(expires, &line, in: project)
        }
        try put(line, in: project)
        return true
    }

    /// Goes along the lines that are due.
    /// - Parameter expire: handles an expired message, and returns whether that is done.
    func sweep(
        now: Instant, rows: inout Int,
        expire: (LogRow, ProjectNumber, inout Int) throws(StorageError) -> Bool
    ) throws(StorageError) {
        while rows > 0, let due = try dueRows.next(.expiryLine, through: now) {
            let project = due.project
            var line = try line(of: project)
            var isDone = false
            while rows > 0, !isDone {
                switch try nextInLine(from: line.first, in: project, rows: &rows) {
                case .message(let sequence, let expires):
                    invariant(
                        sequence >= line.first, "The sweep goes forward along an expiry line.")
                    line.first = sequence
                    if expires > now {
                        try setDue(expires, &line, in: project)
                        isDone = true
                    } else if try expire(LogRow(sequence), project, &rows) {
                        line.first = MessageSequence(sequence.rawValue + 1)
                    } else {
                        // The next step goes on with this one.
                        rows = 0
                    }
                case .paused(let next):
                    invariant(next >= line.first, "The sweep goes forward along an expiry line.")
                    line.first = next
                case .none:
                    // The line is empty, so the next message joins whatever its time to live.
                    try setDue(ExpiryLineRow.never, &line, in: project)
                    line = ExpiryLineRow()
                    isDone = true
                }
            }
            try put(line, in: project)
        }
    }

    private enum LineScan {
        case message(MessageSequence, expires: Instant)
        case paused(MessageSequence)
        case none
    }

    /// A line's first message from `start` on.
    private func nextInLine(
        from start: MessageSequence, in project: ProjectNumber, rows: inout Int
    ) throws(StorageError) -> LineScan {
        let prefix = Key(project)
        let cursor = try Cursor(raw, .messages)
        var found = try cursor.seek(.sequence(start, in: project))
        while let entry = found, prefix.isPrefix(of: entry.key) {
            let row = LogRow(entry.key)
            guard rows > 0 else { return .paused(row.sequence) }
            rows -= 1
            let record = try MessageRecord(entry.value)
            if !row.isDiscarded, record.isInLine, !record.flags.contains(.isExpired) {
                return .message(row.sequence, expires: try record.expires())
            }
            found = try cursor.next()
        }
        return .none
    }

    func line(of project: ProjectNumber) throws(StorageError) -> ExpiryLineRow {
        if let line = tally?.lines[project] { return line }
        guard let found = try raw.get(.projects, .expiryLine(of: project)) else {
            return ExpiryLineRow()
        }
        return try ExpiryLineRow(found)
    }

    private func put(
        _ line: ExpiryLineRow, in project: ProjectNumber
    ) throws(StorageError) {
        guard let tally else { return try write(line, in: project) }
        tally.lines.set(line, of: project)
    }

    /// Writes the lines that this transaction changed.
    func write() throws(StorageError) {
        guard let tally else { return }
        for (project, line) in tally.lines.sorted { try write(line, in: project) }
        tally.lines = ByProject()
    }

    private func write(
        _ line: ExpiryLineRow, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.put(.projects, .expiryLine(of: project), line.bytes)
    }

    private func setDue(
        _ due: Instant, _ line: inout ExpiryLineRow, in project: ProjectNumber
    ) throws(StorageError) {
        if line.due != ExpiryLineRow.never {
            try raw.delete(.due, .due(.expiryLine, line.due, project))
        }
        if due != ExpiryLineRow.never { try raw.put(.due, .due(.expiryLine, due, project), []) }
        line.due = due
    }
}
