// SPDX-License-Identifier: Apache-2.0
//
// Deferred messages, which wait until their project has room for another fanout (FAN-1). They have no row in `due`: the
// engine begins the first one when a fanout ends. Rests on the rows.

package import MartletBase
package import MartletRows

/// The rows of deferred messages.
package struct DeferredLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// How many deferred messages each project has; none with 0 (FAN-1).
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

    /// A deferred message; nil if there is none of this number.
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

    /// The deferred messages after `number`, in order, at most `limit`.
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

    /// Keeps a message until it is removed (FAN-1). Its number is new.
    package func put(_ message: ScheduledMessage) throws(StorageError) {
        invariant(message.number > 0, "The numbers of messages begin at 1.")
        var writer = RecordWriter()
        writer.append(message.due.millisecondsSince1970)
        writer.bytes += message.bytes
        try raw.put(.deferred, .number(message.number, in: message.project), writer.bytes)
        try putCount(try count(in: message.project) + 1, in: message.project)
    }

    /// - Returns: false if there is no such message.
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
