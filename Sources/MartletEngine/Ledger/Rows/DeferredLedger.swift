// SPDX-License-Identifier: Apache-2.0
//
// Deferred messages: they wait until their project has room for another fanout (FAN-1). A deferred message has no row
// in `due`, because the engine begins the first message when a fanout ends. Rests on the rows.

package import MartletBase
package import MartletRows

/// The rows of deferred messages.
package struct DeferredLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// FAN-1: the number of deferred messages of each project with at least one.
    package func counts() throws(StorageError) -> [ProjectNumber: Int] {
        let cursor = try Cursor(raw, .deferred)
        var counts: [ProjectNumber: Int] = [:]
        var found = try cursor.seek(.first)
        while let entry = found {
            guard entry.key.count >= 4 else {
                throw RecordReader(entry.key.bytes, of: .deferred).damaged()
            }
            let project = entry.key.project
            let count = try count(in: project)
            if count > 0 { counts[project] = Int(clamping: count) }
            guard project.rawValue < .max else { break }
            found = try cursor.seek(Key(ProjectNumber(project.rawValue + 1)))
        }
        return counts
    }

    /// A deferred message; nil if the number has no row.
    package func message(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> ScheduledMessage? {
        guard let found = try raw.get(.deferred, .number(number, in: project)) else { return nil }
        return try message(number, in: project, found)
    }

    private func message(
        _ number: UInt64, in project: ProjectNumber, _ value: UnsafeRawBufferPointer
    ) throws(StorageError) -> ScheduledMessage {
        var reader = RecordReader(value, of: .deferred)
        let start = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return ScheduledMessage(
            project: project, number: number, due: start, bytes: Array(reader.rest()))
    }

    /// The deferred messages after `number`, in the order of their numbers, at most `limit`.
    package func messages(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [ScheduledMessage] {
        guard number < .max else { return [] }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .deferred)
        var found = try cursor.seek(.number(number + 1, in: project))
        var result: [ScheduledMessage] = []
        while let entry = found, prefix.isPrefix(of: entry.key), result.count < limit {
            guard entry.key.count == 12 else {
                throw RecordReader(entry.key.bytes, of: .deferred).damaged()
            }
            result.append(try message(entry.key.number, in: project, entry.value))
            found = try cursor.next()
        }
        return result
    }

    /// FAN-1: keeps a message until its removal. The number of the message is new.
    package func put(_ message: ScheduledMessage) throws(StorageError) {
        invariant(message.number > 0, "The numbers of messages begin at 1.")
        var writer = RecordWriter()
        writer.append(message.due.millisecondsSince1970)
        writer.bytes += message.bytes
        try raw.put(.deferred, .number(message.number, in: message.project), writer.bytes)
        try putCount(try count(in: message.project) + 1, in: message.project)
    }

    /// - Returns: false if the message does not exist.
    package func remove(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard try raw.delete(.deferred, .number(number, in: project)) else { return false }
        try putCount(try count(in: project).less(in: .deferred), in: project)
        return true
    }

    private func count(
        in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        guard let found = try raw.get(.deferred, Key(project)) else { return 0 }
        var reader = RecordReader(found, of: .deferred)
        return try reader.read(UInt64.self)
    }

    private func putCount(
        _ count: UInt64, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(count)
        try raw.put(.deferred, Key(project), writer.bytes)
    }
}
