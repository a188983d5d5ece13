// SPDX-License-Identifier: Apache-2.0
//
// Scheduled messages (MSG-10). Rests on DueLedger.

package import MartletBase
package import MartletRows

/// The rows of scheduled messages.
package struct ScheduleLedger: Ledger {
    package let context: LedgerContext
    private var dueRows: DueLedger { DueLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// A scheduled message; nil if there is none of this number (MSG-10).
    package func message(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> ScheduledMessage? {
        guard let found = try raw.get(.scheduled, .number(number, in: project)) else { return nil }
        var reader = RecordReader(found, of: .scheduled)
        let due = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return ScheduledMessage(
            project: project, number: number, due: due, bytes: Array(reader.rest()))
    }

    /// A project's scheduled messages, in the order of their numbers.
    /// - Parameter first: the lowest number to return.
    package func messages(
        in project: ProjectNumber, from first: UInt64, limit: Int
    ) throws(StorageError) -> [(number: UInt64, due: Instant)] {
        let prefix = Key(project)
        let cursor = try Cursor(raw, .scheduled)
        var found = try cursor.seek(.number(max(first, 1), in: project))
        var messages: [(number: UInt64, due: Instant)] = []
        while messages.count < limit, let entry = found, prefix.isPrefix(of: entry.key) {
            var reader = RecordReader(entry.value, of: .scheduled)
            let due = Instant(millisecondsSince1970: try reader.read(Int64.self))
            let number = entry.key.dropFirst(4).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            messages.append((number, due))
            found = try cursor.next()
        }
        return messages
    }

    package func count(
        in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        guard let found = try raw.get(.scheduled, Key(project)) else { return 0 }
        var reader = RecordReader(found, of: .scheduled)
        return try reader.read(UInt64.self)
    }

    /// The first message due at `now`, of any project.
    package func next(
        dueAt now: Instant
    ) throws(StorageError) -> ScheduledMessage? {
        guard let next = try dueRows.next(.scheduled, through: now) else { return nil }
        guard let message = try message(next.number, in: next.project) else {
            throw StorageError(
                operation: "read due", code: 0,
                text: "a scheduled message is missing; run 'martlet check'", isFull: false)
        }
        return message
    }

    /// Keeps a message until it is removed (MSG-10). Its number is new.
    package func put(_ message: ScheduledMessage) throws(StorageError) {
        invariant(message.number > 0, "The numbers of messages begin at 1.")
        var writer = RecordWriter()
        writer.append(message.due.millisecondsSince1970)
        writer.bytes += message.bytes
        try raw.put(.scheduled, .number(message.number, in: message.project), writer.bytes)
        try raw.put(.due, .due(.scheduled, message.due, message.project, message.number), [])
        try putCount(try count(in: message.project) + 1, in: message.project)
    }

    /// - Returns: false if there is no such message.
    package func remove(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let message = try message(number, in: project) else { return false }
        try raw.deleteFound(.scheduled, .number(number, in: project))
        try raw.delete(.due, .due(.scheduled, message.due, project, number))
        try putCount(try count(in: project).less(in: .scheduled), in: project)
        return true
    }

    private func putCount(
        _ count: UInt64, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(count)
        try raw.put(.scheduled, Key(project), writer.bytes)
    }
}
