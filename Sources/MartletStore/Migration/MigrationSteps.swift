// SPDX-License-Identifier: Apache-2.0
//
// The steps from each format to the next. A step knows the bytes of both formats and uses no code that knows only the
// present format, because that code changes with later formats. A transaction changes a bounded number of rows. No
// step has to survive a crash: the store under change is a copy. Rests on Environment and FormerTable.
//
//   6 → 7    the count of a project's reports goes from the row p of `reports` into the project's record, and the
//            counts of days go from `reportDays`, p ‖ day ‖ app, into `projects`, p ‖ ~day ‖ app
//   7 → 8    nothing: messages outside of the expiry line have rows of their own in `due`, as before
//   8 → 9    a project counts the reports that lie in message records too, and knows its first kept report; the
//            oldest report of either form is due
//   9 → 10   nothing: recipients may be stored as runs
//  10 → 11   a project counts its apps. Projects get an open policy of registration, because programs of format 10
//            let every device register
//  11 → 12   the limits of a project's own stand behind its ID, each u8 limit ‖ u32 value. The topics per condition are
//            one of them, except the 5 that a project had from its creation: the broker's value holds for such a project
//  12 → 13   nothing: the tables of bridge addresses and of keys for push services are empty. Programs of format 12
//            would leave the address of an instance behind that unregisters

import MartletBase
import MartletEngine
import MartletRows

struct MigrationSteps {
    /// Rows that one transaction reads or changes.
    static let rowsMax = 1024
    /// Offset behind the fields of a project's record that the formats 6 to 11 have: u64 sender ID, last sequence, instances,
    /// topics; u32 next ordinal, topic, app, topics per condition, weight; u8 policy.
    private static let projectBytes6 = 53
    /// Offset of the topics per condition, up to format 11.
    private static let conditionTopicsOffset = 44
    /// The topics per condition that a project had from its creation, up to format 11.
    private static let conditionTopicsDefault: UInt32 = 5
    /// The number of that limit from format 12 on.
    private static let conditionTopicsLimit: UInt8 = 7
    /// Bit 6 of the kind of target in a message's record: the record is the message's report.
    private static let reportBit: UInt8 = 1 << 6
    private static let kindOffset = 12
    private static let flagsOffset = 13
    /// The expiry was handled: an outcome was counted in a row of `reports`. A message without bodies may wait still.
    private static let expiredFlag: UInt8 = 1 << 7
    private static let reportDue: UInt8 = 13
    /// Everybody registers, and devices choose all topics.
    private static let openPolicy: [UInt8] = [3, 0]

    let environment: Environment

    /// - Parameter advance: called with the finished part of the step, 0 to 1.
    func change(from format: UInt32, _ advance: (_ part: Double) -> Void) throws {
        switch format {
        case 6: try moveReportCounts(advance)
        case 8: try countCarriedReports(advance)
        case 10: try countApps()
        case 11: try moveConditionTopics()
        default: break
        }
    }

    func writeFormat() throws {
        try write { (rows) throws(StorageError) in
            try rows.put(.meta, Key(bytes: Array("format".utf8)), Self.little(storeFormatVersion))
        }
    }

    // MARK: 6 → 7

    private func moveReportCounts(_ advance: (_ part: Double) -> Void) throws {
        try forEachProject { (project, record, rows) throws(StorageError) in
            let found = try rows.get(.reports, Key(project))
            let count = found.map { $0.count == 8 ? $0.loadLittleEndian(UInt64.self, at: 0) : 0 }
            try rows.delete(.reports, Key(project))
            return try Self.inserting(Self.little(count ?? 0), into: record, at: Self.projectBytes6)
        }
        guard let days = try FormerTable(named: "reportDays", in: environment) else { return }
        let count = try write { (rows) in days.rowCount(of: rows.transaction) }
        var done = 0
        while true {
            let moved = try write { (rows) throws(StorageError) in
                try days.takeFirst(Self.rowsMax, of: rows.transaction) {
                    (key, value) throws(StorageError) in
                    guard key.count == 12 else { return }
                    // The day's bits are turned, so that the newest day comes first.
                    let turned = key.enumerated().map { (4..<8).contains($0) ? ~$1 : $1 }
                    try rows.put(.projects, Key(bytes: turned), value)
                }
            }
            guard moved == Self.rowsMax else { break }
            done += moved
            advance(Double(done) / Double(max(done, count)))
        }
        try write { (rows) throws(StorageError) in try days.drop(in: rows.transaction) }
    }

    // MARK: 8 → 9

    private func countCarriedReports(_ advance: (_ part: Double) -> Void) throws {
        var carried: [ProjectNumber: (count: UInt64, first: [UInt8], accepted: UInt64)] = [:]
        try forEachRow(of: .messages, valueBytes: 16, advance) {
            (key, value, rows) throws(StorageError) in
            guard key.count == 12, value.count == 16, value[Self.kindOffset] & Self.reportBit != 0,
                try rows.get(.reports, Key(bytes: key)) == nil
            else { return }
            guard value[Self.flagsOffset] & Self.expiredFlag == 0 else {
                // The message's report had a row once, and is not kept any more.
                guard var record = try rows.get(.messages, Key(bytes: key)).map({ Array($0) })
                else { return }
                record[Self.kindOffset] &= ~Self.reportBit
                return try rows.put(.messages, Key(bytes: key), record)
            }
            let accepted = value.withUnsafeBytes { $0.loadLittleEndian(UInt64.self, at: 0) }
            carried[Self.project(of: key), default: (0, Array(key[4...]), accepted)].count += 1
        }
        try forEachProject { (project, record, rows) throws(StorageError) in
            let at = Self.projectBytes6
            guard record.count >= at + 8 else { throw Self.damaged(record, .projects) }
            let rowCount = record.withUnsafeBytes { $0.loadLittleEndian(UInt64.self, at: at) }
            try Self.putOldestReport(of: project, carried[project], rows)
            let count = rowCount + (carried[project]?.count ?? 0)
            var changed = record
            changed.replaceSubrange(at..<(at + 8), with: Self.little(count))
            return try Self.inserting(Self.little(0 as UInt64), into: changed, at: at + 8)
        }
    }

    /// Makes the oldest report due that has a row or lies in a message's record.
    private static func putOldestReport(
        of project: ProjectNumber, _ carried: (count: UInt64, first: [UInt8], accepted: UInt64)?,
        _ rows: Rows
    ) throws(StorageError) {
        guard let carried else { return }
        func due(_ accepted: UInt64, _ sequence: [UInt8]) -> Key {
            var key = Key()
            key.append(byte: reportDue)
            key.append(UInt64(max(Int64(bitPattern: accepted), 0)))
            key.append(project.rawValue)
            key.append(name: sequence)
            return key
        }
        let cursor = try Cursor(rows, .reports)
        var first: (accepted: UInt64, sequence: [UInt8])?
        if let entry = try cursor.seek(Key(project)), Key(project).isPrefix(of: entry.key) {
            guard entry.value.count >= 8 else { throw damaged(Array(entry.value), .reports) }
            first = (
                entry.value.loadLittleEndian(UInt64.self, at: 0),
                Array(entry.key.bytes.dropFirst(4))
            )
        }
        if let first {
            guard carried.first.lexicographicallyPrecedes(first.sequence) else { return }
            try rows.delete(.due, due(first.accepted, first.sequence))
        }
        try rows.put(.due, due(carried.accepted, carried.first), [])
    }

    // MARK: 10 → 11

    private func countApps() throws {
        var apps: [ProjectNumber: UInt32] = [:]
        try forEachRow(of: .apps, valueBytes: 0) { (key, _, _) in
            if key.count == 8 { apps[Self.project(of: key), default: 0] += 1 }
        }
        try forEachProject { (project, record, rows) throws(StorageError) in
            try rows.put(.policies, Key(project), Self.openPolicy)
            return try Self.inserting(
                Self.little(apps[project] ?? 0), into: record, at: Self.projectBytes6 + 16)
        }
    }

    // MARK: 11 → 12

    private func moveConditionTopics() throws {
        try forEachProject { (_, record, _) throws(StorageError) in
            let at = Self.conditionTopicsOffset
            guard record.count >= Self.projectBytes6 else { throw Self.damaged(record, .projects) }
            let count = record.withUnsafeBytes { $0.loadLittleEndian(UInt32.self, at: at) }
            var changed = record
            changed.removeSubrange(at..<(at + 4))
            if count != Self.conditionTopicsDefault {
                changed += [Self.conditionTopicsLimit] + Self.little(count)
            }
            return changed
        }
    }

    // MARK: Rows

    /// Replaces the record of each project.
    private func forEachProject(
        _ body: (ProjectNumber, [UInt8], Rows) throws(StorageError) -> [UInt8]
    ) throws {
        var next: ProjectNumber? = ProjectNumber(0)
        while let start = next {
            next = try write { (rows) throws(StorageError) in
                var position = start
                for _ in 0..<Self.rowsMax {
                    let found: (ProjectNumber, [UInt8])?
                    do {
                        let cursor = try Cursor(rows, .projects)
                        found = try cursor.seek(Key(position)).map {
                            (Self.project(of: Array($0.key.bytes)), Array($0.value))
                        }
                        guard let found else { return nil }
                        guard try rows.get(.projects, Key(found.0)) != nil else {
                            throw Self.damaged(found.1, .projects)
                        }
                    }
                    guard let (project, record) = found else { return nil }
                    try rows.put(.projects, Key(project), try body(project, record, rows))
                    guard project.rawValue < UInt32.max else { return nil }
                    position = ProjectNumber(project.rawValue + 1)
                }
                return position
            }
        }
    }

    /// Visits the rows of a table. `body` may change the row of the key, and rows of other tables.
    /// - Parameters:
    ///   - valueBytes: the bytes at the beginning of a value that `body` gets.
    ///   - advance: called with the visited part of the table, 0 to 1.
    private func forEachRow(
        of table: Table, valueBytes: Int, _ advance: (_ part: Double) -> Void = { _ in },
        _ body: ([UInt8], [UInt8], Rows) throws(StorageError) -> Void
    ) throws {
        var next: [UInt8]? = []
        var (done, count) = (0, 0)
        while let start = next {
            next = try write { (rows) throws(StorageError) in
                count = rows.entryCount(table)
                var page: [(key: [UInt8], value: [UInt8])] = []
                do {
                    let cursor = try Cursor(rows, table)
                    var entry = try cursor.seek(Key(bytes: start.isEmpty ? [0] : start))
                    while let found = entry, page.count < Self.rowsMax {
                        page.append(
                            (Array(found.key.bytes), Array(found.value.prefix(valueBytes))))
                        entry = try cursor.next()
                    }
                }
                for row in page { try body(row.key, row.value, rows) }
                done += page.count
                // A zero byte more is the next key.
                return page.count == Self.rowsMax ? page[page.count - 1].key + [0] : nil
            }
            advance(Double(done) / Double(max(done, count, 1)))
        }
    }

    private func write<Result>(
        _ body: (Rows) throws(StorageError) -> Result
    ) throws -> Result {
        let open = try environment.beginWrite()
        let result: Result
        do throws(StorageError) { result = try body(Rows(open)) } catch {
            environment.abort(open)
            throw error
        }
        try environment.commit(open)
        return result
    }

    // MARK: Bytes

    private static func inserting(
        _ field: [UInt8], into record: [UInt8], at offset: Int
    ) throws(StorageError) -> [UInt8] {
        guard record.count >= offset else { throw damaged(record, .projects) }
        return Array(record[..<offset]) + field + Array(record[offset...])
    }

    private static func damaged(_ record: [UInt8], _ table: Table) -> StorageError {
        record.withUnsafeBytes { RecordReader($0, of: table).damaged() }
    }

    private static func project(of key: [UInt8]) -> ProjectNumber {
        ProjectNumber(key.prefix(4).reduce(0 as UInt32) { $0 << 8 | UInt32($1) })
    }

    private static func little(_ value: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: value.littleEndian) { Array($0) }
    }
}
