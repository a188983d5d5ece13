// SPDX-License-Identifier: Apache-2.0
//
// Due rows: each has a record, and each record with a due time has its row. Then the records kept for senders. Rests on
// Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    /// Reads all rows of `due`. If their kind has a source, they are summed up, and `compareDue` compares the sums with
    /// the records'. The others are compared with their records here.
    mutating func checkDue(_ projects: [UInt32: Project]) throws(StorageError) {
        let rows = try Cursor(raw, .due)
        var row = try rows.seek(.first)
        while let entry = row {
            guard let kind = Self.dueKind(entry.key) else {
                note(.damagedRecord, in: nil, "due: a key of \(entry.key.count) bytes")
                row = try rows.next()
                continue
            }
            let project = entry.key.dueProject
            if kind.source != nil {
                let isOwned = sums!.add(
                    RowSums.hash(
                        due: UInt64(bitPattern: entry.key.dueTime.millisecondsSince1970),
                        id: Self.dueID(entry.key)),
                    RowSums.Slot(kind), in: project.rawValue)
                if !isOwned { note(.rowsWithoutProject, in: project, "due") }
            } else if projects[project.rawValue] == nil {
                note(.rowsWithoutProject, in: project, "due")
            } else {
                try checkDueRow(entry.key, kind)
            }
            row = try rows.next()
        }
    }

    /// Checks that a due row has its record. If the record is unreadable, the row is skipped, because the check of the
    /// record's table reports that.
    private mutating func checkDueRow(_ key: RowKey, _ kind: DueKind) throws(StorageError) {
        let time = key.dueTime.millisecondsSince1970
        let expected: Int64?
        do throws(StorageError) {
            expected = try dueTime(kind, Array(Self.dueID(key)), in: key.dueProject)?
                .millisecondsSince1970
        } catch {
            guard error.code == 0 else { throw error }
            return
        }
        if expected.map({ max($0, 0) }) != time {
            note(.due, in: key.dueProject, "a row of kind \(kind) at \(time) is for nothing")
        }
    }

    /// Compares the sums of the project's records and of its due rows. If they differ, the records are looked up in
    /// `due`, and the project is noted for `checkSuspectDue`.
    mutating func compareDue() throws(StorageError) {
        guard let found = sums?[project.number] else { return }
        for kind in DueKind.allCases {
            guard let source = kind.source, case let slot = RowSums.Slot(kind),
                found[slot] != records[slot]
            else { continue }
            suspects.insert(Suspect(project: project.number, slot: slot))
            let rows = try Cursor(raw, source.table)
            var row = try rows.seek(Key(project.number))
            while let entry = row, entry.key.count >= 4, entry.key.project == project.number {
                // Keys of other sizes, and rows of strangers, are reported by the check of the table.
                let isOfStranger = kind == .seen && !universe.contains(entry.key.ordinal.rawValue)
                if entry.key.count == source.keyBytes, !isOfStranger { try findDue(kind, entry) }
                row = try rows.next()
            }
        }
    }

    /// Compares due rows with their records one by one, where a project's sums of a kind differ.
    mutating func checkSuspectDue() throws(StorageError) {
        let rows = try Cursor(raw, .due)
        var row = try rows.seek(.first)
        while let entry = row {
            if let kind = Self.dueKind(entry.key),
                suspects.contains(
                    Suspect(project: entry.key.dueProject, slot: RowSums.Slot(kind)))
            {
                try checkDueRow(entry.key, kind)
            }
            row = try rows.next()
        }
    }

    /// nil for a key that no due row has.
    private static func dueKind(_ key: RowKey) -> DueKind? {
        guard key.count >= 13, let kind = DueKind(rawValue: key[0]),
            key.count == 13 + idBytes(kind)
        else { return nil }
        return kind
    }

    private static func dueID(_ key: RowKey) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: key.bytes[13...])
    }

    private static func idBytes(_ kind: DueKind) -> Int {
        switch kind {
        case .expiry, .discarded, .seen, .scheduled, .receiptsWanted, .settlement, .upstream,
            .upstreamIDs, .report, .reportDay,
            .leavingApp, .deletedApp:
            8
        case .answer: 16
        case .ticket: 32
        case .receiptsTold: 12
        case .collection, .receiptsTaken, .expiryLine: 0
        }
    }

    /// The due time that the record says; nil if it says none, or if there is no record.
    private func dueTime(
        _ kind: DueKind, _ id: [UInt8], in project: ProjectNumber
    ) throws(StorageError) -> Instant? {
        let number = id.prefix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        func first(_ table: Table, _ key: Key) throws(StorageError) -> Instant? {
            guard let found = try raw.get(table, key) else { return nil }
            return try Self.firstInstant(found, of: table)
        }
        if let source = kind.source {
            let ordinal = UInt32(truncatingIfNeeded: number)
            if kind == .seen, try isInactive(ordinal, in: project) { return nil }
            var key = Key(project)
            key.append(name: source.keyBytes == 8 ? id[4...] : id[...])
            if kind == .discarded { key.append(byte: 1) }
            guard let found = try raw.get(source.table, key) else { return nil }
            return try Self.dueTime(of: found, in: source.table)
        }
        switch kind {
        case .settlement:
            let key = Key.ordinal(Ordinal(UInt32(truncatingIfNeeded: number)), in: project)
            let exists = try raw.get(.instances, key) != nil
            return exists ? Instant(millisecondsSince1970: 0) : nil
        case .report:
            return try transaction.reports.row(of: MessageSequence(number), in: project)?
                .accepted
        case .reportDay:
            let day = UInt32(truncatingIfNeeded: number)
            let rows = try Cursor(raw, .projects)
            let found = try rows.seek(.reportDay(day, AppNumber(0), in: project))
            let prefix = Key.reportDay(day, in: project)
            return found.map { prefix.isPrefix(of: $0.key) } ?? false
                ? Instant(startOfDay: day) : nil
        case .receiptsTaken:
            let taken = try transaction.receipts.row(of: project).taken
            let first = try transaction.receipts.first(of: project)
            return first.map { $0 <= taken } ?? false ? Instant(millisecondsSince1970: 0) : nil
        case .expiryLine:
            let due = try transaction.expiryLines.line(of: project).due
            return due == ExpiryLineRow.never ? nil : due
        case .leavingApp, .deletedApp:
            let app = AppNumber(UInt32(truncatingIfNeeded: number))
            let time = try first(.deletedApps, .app(app, in: project))
            let isLeaving = time?.millisecondsSince1970 == 0
            return isLeaving == (kind == .leavingApp) ? time : nil
        case .collection:
            let due = try first(.collections, Key(project))
            return due?.millisecondsSince1970 == .max ? nil : due
        case .expiry, .discarded, .seen, .answer, .scheduled, .receiptsWanted, .receiptsTold,
            .upstream, .upstreamIDs, .ticket:
            return nil
        }
    }

    /// The due time that a record of the kind's source says; nil if it says none.
    private static func dueTime(
        of record: UnsafeRawBufferPointer, in table: Table
    ) throws(StorageError) -> Instant? {
        switch table {
        case .messages:
            let record = try MessageRecord(record)
            let isDue = !record.isInLine && !record.flags.contains(.isExpired)
            return isDue ? try record.expires() : nil
        case .mailboxes: return try MailboxRow.state(record).seen
        default: return try firstInstant(record, of: table)
        }
    }

    private static func firstInstant(
        _ record: UnsafeRawBufferPointer, of table: Table
    ) throws(StorageError) -> Instant {
        var reader = RecordReader(record, of: table)
        return Instant(millisecondsSince1970: try reader.read(Int64.self))
    }

    private func isInactive(
        _ ordinal: UInt32, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let block = ordinal >> BlockGeometry.strideShift
        do throws(StorageError) {
            let view = try transaction.sets.storedView(
                ofBlock: block, of: SetKey.number(of: .inactive), in: project)
            return view.contains(bit: Int(ordinal & BlockGeometry.bitMask))
        } catch {
            // Reported by the check of the sets.
            guard error.code == 0 else { throw error }
            return false
        }
    }

    /// Expects a due row for a record of the kind's source: adds it to the sums, or looks it up if the due rows were
    /// not read.
    mutating func expectDue(_ kind: DueKind, _ record: Cursor.Entry) throws(StorageError) {
        guard sums != nil else { return try findDue(kind, record) }
        guard let time = try dueTime(kind, of: record) else { return }
        Self.withDueID(of: record.key) { id in
            records[RowSums.Slot(kind)] &+= RowSums.hash(
                due: UInt64(clamping: time.millisecondsSince1970), id: id)
        }
    }

    /// Looks up the due row of a record of the kind's source.
    private mutating func findDue(
        _ kind: DueKind, _ record: Cursor.Entry
    ) throws(StorageError) {
        guard let time = try dueTime(kind, of: record) else { return }
        let key = Self.withDueID(of: record.key) { id in
            Key.due(kind, time, project.number, id)
        }
        guard try raw.get(.due, key) == nil else { return }
        let what =
            switch kind.source?.table {
            case .messages: "message \(record.key.sequence.rawValue)"
            case .mailboxes, .upstreamIDs: "ordinal \(record.key.ordinal.rawValue)"
            case let table: "a row of \(table?.name ?? "")"
            }
        note(.due, "\(what) has no row of kind \(kind)")
    }

    /// The due time of a record of the kind's source. Also nil if it is unreadable, because the check of its table
    /// reports that.
    private func dueTime(
        _ kind: DueKind, of record: Cursor.Entry
    ) throws(StorageError) -> Instant? {
        guard let source = kind.source,
            kind != .seen || !universe.isInactive(record.key.ordinal.rawValue)
        else { return nil }
        do throws(StorageError) {
            return try Self.dueTime(of: record.value, in: source.table)
        } catch {
            guard error.code == 0 else { throw error }
            return nil
        }
    }

    /// The ID that a record has in its due row: its key without project, with ordinals as eight bytes.
    private static func withDueID<Result>(
        of key: RowKey, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        guard key.count > 8 else {
            return withUnsafeBytes(of: UInt64(key.ordinal.rawValue).bigEndian, body)
        }
        let end = key.count == 13 ? 12 : key.count
        return body(UnsafeRawBufferPointer(rebasing: key.bytes[4..<end]))
    }

    /// Looks up the due row of a record whose kind has no source.
    mutating func expectDue(
        _ kind: DueKind, _ id: [UInt8], _ what: @autoclosure () -> String
    ) throws(StorageError) {
        let time: Instant?
        do throws(StorageError) {
            time = try dueTime(kind, id, in: project.number)
        } catch {
            guard error.code == 0 else { throw error }
            return
        }
        guard let time, try raw.get(.due, .due(kind, time, project.number, id)) == nil else {
            return
        }
        note(.due, "\(what()) has no row of kind \(kind)")
    }

    // MARK: Records kept for senders

    mutating func checkSending() throws(StorageError) {
        try forEachRow(of: .answers, keyBytes: 20...20) { (it, entry) throws(StorageError) in
            try it.expectDue(.answer, entry)
        }
        var scheduled: UInt64 = 0
        try forEachRow(of: .scheduled, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            scheduled += 1
            try it.expectDue(.scheduled, entry)
        }
        let counted = try raw.get(.scheduled, Key(project.number))
        if counted?.loadLittleEndian(UInt64.self, at: 0) ?? 0 != scheduled {
            note(.projectCounter, "there are \(scheduled) scheduled messages, others are counted")
        }
        var deferred: UInt64 = 0
        try forEachRow(of: .deferred, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            deferred += 1
            if entry.value.count < 8 {
                it.note(.damagedRecord, "deferred: a value of \(entry.value.count) bytes")
            }
        }
        let waiting = try raw.get(.deferred, Key(project.number))
        if waiting?.loadLittleEndian(UInt64.self, at: 0) ?? 0 != deferred {
            note(.projectCounter, "\(deferred) messages wait for room, others are counted")
        }
        try forEachRow(of: .numbers, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            guard entry.value.count == 8 else {
                it.note(.damagedRecord, "numbers: a value of \(entry.value.count) bytes")
                return
            }
            let row = LogRow(MessageSequence(entry.value.loadLittleEndian(UInt64.self, at: 0)))
            let found = try it.raw.get(.messages, .log(row, in: it.project.number))
            let number = try? found.map { try MessageRecord($0).rest(row.sequence).number }
            if number != entry.key.number {
                it.note(.messageNumber, "a number leads to message \(row.sequence.rawValue)")
            }
        }
    }

    mutating func checkReceipts() throws(StorageError) {
        try forEachRow(of: .receiptsWanted, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            try it.expectDue(.receiptsWanted, entry)
        }
        try forEachRow(of: .receiptsTold, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            if !it.universe.contains(ordinal) {
                it.note(.receipts, "ordinal \(ordinal) told something and is not registered")
            }
            try it.expectDue(.receiptsTold, entry)
        }
        let found = try raw.get(.receipts, Key(project.number))
        let last = found?.loadLittleEndian(UInt64.self, at: 0) ?? 0
        var previous: UInt64?
        try forEachRow(of: .receipts, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            let number = entry.key.number
            if number > last || previous.map({ $0 + 1 != number }) ?? false {
                it.note(.receipts, "event \(number) does not follow the one before, up to \(last)")
            }
            previous = number
        }
        if let previous, previous != last {
            note(.receipts, "the last event is \(previous), not \(last)")
        }
        try expectDue(.receiptsTaken, [], "events that were taken")
    }

    mutating func checkCollection() throws(StorageError) {
        var phase = CollectionRow.Phase.idle
        if let found = try raw.get(.collections, Key(project.number)) {
            do throws(StorageError) {
                phase = try CollectionRow(found).phase
            } catch {
                try noteDamage(error, in: project.number)
                return
            }
            try expectDue(.collection, [], "the collection")
        }
        try forEachRow(of: .live, keyBytes: 12...13) { (it, entry) throws(StorageError) in
            let row = LogRow(entry.key)
            let blob = try it.raw.get(.recipients, .log(row, in: it.project.number))
            if phase == .idle || blob == nil {
                it.note(.collection, "message \(row.sequence.rawValue) is marked")
            }
        }
    }
}

extension DueKind {
    /// The table whose records have one due row each, and the bytes of its keys; nil if the kind has other rules.
    var source: (table: Table, keyBytes: Int)? {
        switch self {
        case .expiry: (.messages, 12)
        case .discarded: (.messages, 13)
        case .seen: (.mailboxes, 8)
        case .answer: (.answers, 20)
        case .scheduled: (.scheduled, 12)
        case .receiptsWanted: (.receiptsWanted, 12)
        case .receiptsTold: (.receiptsTold, 16)
        case .upstream: (.upstream, 12)
        case .upstreamIDs: (.upstreamIDs, 8)
        case .ticket: (.spentTickets, 36)
        case .settlement, .collection, .receiptsTaken, .report, .reportDay, .expiryLine,
            .leavingApp, .deletedApp:
            nil
        }
    }
}
