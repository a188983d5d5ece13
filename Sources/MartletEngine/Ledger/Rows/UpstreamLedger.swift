// SPDX-License-Identifier: Apache-2.0
//
// Upstream messages (UPS-1): those that wait for senders, and the message IDs that devices have used. Rests on the
// rows.

package import MartletBase
package import MartletRows

/// The rows of upstream messages.
package struct UpstreamLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// A device's message; nil if a sender has taken it (UPS-1).
    package func messages(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> UpstreamRecord? {
        guard let found = try raw.get(.upstream, .number(number, in: project)) else { return nil }
        return try Self.record(number, found)
    }

    /// The upstream messages after `number`, in order, at most `limit`.
    package func messages(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [UpstreamRecord] {
        guard number < .max else { return [] }
        let prefix = Key(project)
        let cursor = try Cursor(raw, .upstream)
        var found = try cursor.seek(.number(number + 1, in: project))
        var records: [UpstreamRecord] = []
        while let entry = found, prefix.isPrefix(of: entry.key), records.count < limit {
            guard entry.key.count == 12 else {
                throw RecordReader(entry.key.bytes, of: .upstream).damaged()
            }
            records.append(
                try Self.record(entry.key.number, entry.value))
            found = try cursor.next()
        }
        return records
    }

    private static func record(
        _ number: UInt64, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> UpstreamRecord {
        var reader = RecordReader(bytes, of: .upstream)
        let expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return UpstreamRecord(number: number, expires: expires, bytes: Array(reader.rest()))
    }

    package func count(
        in project: ProjectNumber
    ) throws(StorageError) -> UInt64 { try row(of: project).count }

    /// Takes the next number (UPS-1). Numbers rise from 1 and are never used again.
    package func takeNumber(
        in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        var row = try row(of: project)
        row.last += 1
        try put(row, of: project)
        return row.last
    }

    /// Keeps a message until it is removed or expires. `takeNumber` has given its number.
    package func put(
        _ record: UpstreamRecord, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(record.expires.millisecondsSince1970)
        writer.bytes += record.bytes
        try raw.put(.upstream, .number(record.number, in: project), writer.bytes)
        try raw.put(.due, .due(.upstream, record.expires, project, record.number), [])
        var row = try row(of: project)
        invariant(
            (1...max(row.last, 1)).contains(record.number),
            "The number of a device's message was taken before.")
        row.count += 1
        try put(row, of: project)
    }

    /// - Returns: false if there is no such message.
    package func remove(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let key = Key.number(number, in: project)
        guard let found = try raw.get(.upstream, key) else { return false }
        let expires = try Self.record(number, found).expires
        try raw.delete(.due, .due(.upstream, expires, project, number))
        try raw.deleteFound(.upstream, key)
        var row = try row(of: project)
        row.count = try row.count.less(in: .upstream)
        try put(row, of: project)
        return true
    }

    func row(
        of project: ProjectNumber
    ) throws(StorageError) -> (last: UInt64, count: UInt64) {
        guard let found = try raw.get(.upstream, Key(project)) else { return (0, 0) }
        var reader = RecordReader(found, of: .upstream)
        return (try reader.read(UInt64.self), try reader.read(UInt64.self))
    }

    private func put(
        _ row: (last: UInt64, count: UInt64), of project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(row.last)
        writer.append(row.count)
        try raw.put(.upstream, Key(project), writer.bytes)
    }

    /// Which message an instance sent with an ID; nil if the ID isn't known at `now`.
    package func number(
        ofID id: String, of ordinal: Ordinal, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> UInt64? {
        guard let row = try ids(of: ordinal, in: project) else { return nil }
        let digest = AnswerDigest(of: id)
        return row.ids.last { $0.digest == digest && $0.until > now }?.number
    }

    /// Remembers which message an instance sent with an ID, until `until`, or until it has sent `idsMax` others.
    package func putNumber(
        _ number: UInt64, ofID id: String, of ordinal: Ordinal, in project: ProjectNumber,
        now: Instant, until: Instant, idsMax: Int
    ) throws(StorageError) {
        let row = try ids(of: ordinal, in: project)
        let digest = AnswerDigest(of: id)
        var ids = (row?.ids ?? []).filter { $0.until > now && $0.digest != digest }
        ids.append(UpstreamID(digest: digest, until: until, number: number))
        // The row stays due at the earlier time. The sweep then sets a later one, because most instances have sent
        // other messages by then.
        try put(ids.suffix(idsMax), due: row?.due ?? until, of: ordinal, in: project)
    }

    /// Forgets an instance's message IDs whose time is over.
    func forgetIDs(
        of ordinal: Ordinal, in project: ProjectNumber, now: Instant
    ) throws(StorageError) {
        guard let row = try ids(of: ordinal, in: project) else { return }
        let ids = row.ids.filter { $0.until > now }
        try removeIDs(of: ordinal, in: project)
        guard let last = ids.map(\.until).max() else { return }
        try put(ids[...], due: last, of: ordinal, in: project)
    }

    func removeIDs(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        guard let row = try ids(of: ordinal, in: project) else { return }
        try raw.delete(.due, .due(.upstreamIDs, row.due, project, UInt64(ordinal.rawValue)))
        try raw.deleteFound(.upstreamIDs, .ordinal(ordinal, in: project))
    }

    private func ids(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> (due: Instant, ids: [UpstreamID])? {
        guard let found = try raw.get(.upstreamIDs, .ordinal(ordinal, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .upstreamIDs)
        let due = Instant(millisecondsSince1970: try reader.read(Int64.self))
        var ids: [UpstreamID] = []
        while reader.offset < found.count {
            let digest = AnswerDigest(bytes: Array(try reader.bytes(16)))
            let until = Instant(millisecondsSince1970: try reader.read(Int64.self))
            ids.append(
                UpstreamID(digest: digest, until: until, number: try reader.read(UInt64.self)))
        }
        return (due, ids)
    }

    private func put(
        _ ids: ArraySlice<UpstreamID>, due: Instant, of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(due.millisecondsSince1970)
        for id in ids {
            writer.bytes += id.digest.bytes
            writer.append(id.until.millisecondsSince1970)
            writer.append(id.number)
        }
        try raw.put(.upstreamIDs, .ordinal(ordinal, in: project), writer.bytes)
        try raw.put(.due, .due(.upstreamIDs, due, project, UInt64(ordinal.rawValue)), [])
    }
}

/// An instance's message ID.
struct UpstreamID {
    static let bytes = 32

    var digest: AnswerDigest
    var until: Instant
    var number: UInt64
}
