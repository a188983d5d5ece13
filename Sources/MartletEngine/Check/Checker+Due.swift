// SPDX-License-Identifier: Apache-2.0
//
// Due rows: each row of `due` has a record, and each record with a due time has its row in `due`. Then records kept
// for senders. Rests on Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    /// Checks the rows of `due` of all projects. Rows whose record cannot be read are skipped.
    mutating func checkDue(_ projects: [UInt32: Project]) throws(StorageError) {
        let rows = try Cursor(raw, .due)
        var row = try rows.seek(.first)
        while let entry = row {
            row = try rows.next()
            guard entry.key.count >= 13, let kind = DueKind(rawValue: entry.key[0]),
                entry.key.count == 13 + Self.idBytes(kind)
            else {
                note(.damagedRecord, in: nil, "due: a key of \(entry.key.count) bytes")
                continue
            }
            let time = entry.key.dueTime.millisecondsSince1970
            let project = entry.key.dueProject
            guard projects[project.rawValue] != nil else {
                note(.rowsWithoutProject, in: project, "due")
                continue
            }
            let id = Array(entry.key.dropFirst(13))
            let expected: Int64?
            do throws(StorageError) {
                expected = try dueTime(kind, id, in: project)?.millisecondsSince1970
            } catch {
                // The check of the record's table reports the damage.
                guard error.code == 0 else { throw error }
                continue
            }
            if expected.map({ max($0, 0) }) != time {
                note(.due, in: project, "a row of kind \(kind) at \(time) is for nothing")
            }
        }
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

    /// The due time according to the record; nil: the record has no due time, or there is no record.
    private func dueTime(
        _ kind: DueKind, _ id: [UInt8], in project: ProjectNumber
    ) throws(StorageError) -> Instant? {
        let number = id.prefix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        func first(_ table: Table, _ key: Key) throws(StorageError) -> Instant? {
            guard let found = try raw.get(table, key) else { return nil }
            var reader = RecordReader(found, of: table)
            return Instant(millisecondsSince1970: try reader.read(Int64.self))
        }
        switch kind {
        case .expiry, .discarded:
            let row = LogRow(MessageSequence(number), isDiscarded: kind == .discarded)
            guard let found = try raw.get(.messages, .log(row, in: project)) else { return nil }
            let record = try MessageRecord(found)
            let isDue = !record.isInLine && !record.flags.contains(.isExpired)
            return isDue ? try record.expires() : nil
        case .seen:
            let key = Key.ordinal(Ordinal(UInt32(truncatingIfNeeded: number)), in: project)
            guard try !isInactive(UInt32(truncatingIfNeeded: number), in: project) else {
                return nil
            }
            return try raw.get(.mailboxes, key).map(MailboxRow.state)?.seen
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
        case .answer: return try first(.answers, .answer(AnswerDigest(bytes: id), in: project))
        case .scheduled: return try first(.scheduled, .number(number, in: project))
        case .receiptsWanted: return try first(.receiptsWanted, .number(number, in: project))
        case .upstream: return try first(.upstream, .number(number, in: project))
        case .upstreamIDs:
            let ordinal = Ordinal(UInt32(truncatingIfNeeded: number))
            return try first(.upstreamIDs, .ordinal(ordinal, in: project))
        case .receiptsTold:
            var key = Key(project)
            key.append(name: id)
            return try first(.receiptsTold, key)
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
        case .ticket:
            var key = Key(project)
            key.append(name: id)
            return try first(.spentTickets, key)
        case .collection:
            let due = try first(.collections, Key(project))
            return due?.millisecondsSince1970 == .max ? nil : due
        }
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
            // The check of the sets reports the damage.
            guard error.code == 0 else { throw error }
            return false
        }
    }

    /// Checks that a record with a due time has its row in `due`.
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
            try it.expectDue(.answer, Array(entry.key.dropFirst(4)), "an answer")
        }
        var scheduled: UInt64 = 0
        try forEachRow(of: .scheduled, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            scheduled += 1
            try it.expectDue(.scheduled, Array(entry.key.dropFirst(4)), "a scheduled message")
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
            try it.expectDue(
                .receiptsWanted, Array(entry.key.dropFirst(4)), "a wish for receipts")
        }
        try forEachRow(of: .receiptsTold, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            if !it.universe.contains(ordinal) {
                it.note(.receipts, "ordinal \(ordinal) told something and is not registered")
            }
            try it.expectDue(.receiptsTold, Array(entry.key.dropFirst(4)), "a receipt")
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
