// SPDX-License-Identifier: Apache-2.0
//
// Instances, and the tokens that lead to them. They are compared by sums (RowSums), and looked up one by one only if
// these differ. Rests on Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    private static let tokenTables: [(table: Table, slot: RowSums.Slot)] = [
        (.tokens, .tokens), (.formerTokens, .formerTokens),
    ]

    mutating func checkInstances() throws(StorageError) {
        var group: InstanceGroup?
        try forEachRow(of: .instances, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal
            guard let row = InstanceRow.Tokens(entry.value) else {
                try it.noteUnreadable(entry)
                return
            }
            if group?.app != row.app || group?.platform != row.platform {
                if let group { it.count(group) }
                group = InstanceGroup(
                    app: row.app, platform: row.platform,
                    isKnown: it.apps[row.app.rawValue] == row.platform)
            }
            group!.count += 1
            it.universe.insert(ordinal.rawValue, app: row.app.rawValue)
            if ordinal >= it.project.nextOrdinal || !ordinal.isUsable {
                it.note(.projectCounter, "ordinal \(ordinal.rawValue) was never issued")
            }
            if !group!.isKnown { it.note(.instanceWithoutApp, "ordinal \(ordinal.rawValue)") }
            if row.formerCount > Limits.formerTokensMax {
                it.note(.tokenIndex, "ordinal \(ordinal.rawValue) has too many former tokens")
            }
            it.records[.tokens] &+= RowSums.hash(token: row.token, ordinal.rawValue)
            for index in 0..<row.formerCount {
                it.records[.formerTokens] &+= RowSums.hash(
                    token: row.former(at: index), ordinal.rawValue)
            }
        }
        if let group { count(group) }
        if universe.count != project.instanceCount {
            note(
                .projectCounter,
                "its record counts \(project.instanceCount) instances, there are \(universe.count)")
        }
        try compareTokens()
    }

    /// Neighbouring instances of one app on one platform.
    private struct InstanceGroup {
        let app: AppNumber
        let platform: Platform
        /// Whether the project has this app on this platform.
        let isKnown: Bool
        var count: UInt64 = 0
    }

    private mutating func count(_ group: InstanceGroup) {
        report.counts.instances += group.count
        for set in [InstanceSet.everyone, .platform(group.platform), .app(group.app)] {
            standing[SetKey.number(of: set), default: 0] += group.count
        }
    }

    private mutating func noteUnreadable(_ entry: Cursor.Entry) throws(StorageError) {
        universe.insert(entry.key.ordinal.rawValue, app: Universe.unknownApp)
        do throws(StorageError) {
            _ = try transaction.instances.instance(entry.key.ordinal, in: project.number)
        } catch {
            try noteDamage(error, in: project.number)
        }
    }

    // MARK: Tokens

    /// Sums up all rows of `tokens` and `formerTokens`. `compareTokens` compares the sums with the instances'.
    mutating func checkTokens() throws(StorageError) {
        for (table, slot) in Self.tokenTables {
            let rows = try Cursor(raw, table)
            var row = try rows.seek(.first)
            while let entry = row {
                if let (project, ordinal) = Self.place(entry) {
                    let hash = RowSums.hash(token: entry.key.bytes, ordinal.rawValue)
                    if !sums!.add(hash, slot, in: project.rawValue) {
                        noteTokenRow(project, ordinal, table)
                    }
                } else {
                    note(.damagedRecord, in: nil, "\(table.name): a row of other sizes")
                }
                row = try rows.next()
            }
        }
    }

    /// Compares the sums of the project's instances and of the rows that lead to them. If they differ, the instances'
    /// tokens are looked up, and the project is noted for `checkSuspectTokens`.
    private mutating func compareTokens() throws(StorageError) {
        let found = sums?[project.number]
        for (table, slot) in Self.tokenTables where found?[slot] != records[slot] {
            if found != nil { suspects.insert(Suspect(project: project.number, slot: slot)) }
            // `checkInstances` has reported keys of other sizes, and unreadable records.
            try forEachRow(of: .instances, keyBytes: 4...511) { (it, entry) throws(StorageError) in
                guard entry.key.count == 8, let row = InstanceRow.Tokens(entry.value) else {
                    return
                }
                if table == .tokens {
                    try it.findToken(row.token, of: entry.key.ordinal, table)
                } else {
                    for index in 0..<row.formerCount {
                        try it.findToken(row.former(at: index), of: entry.key.ordinal, table)
                    }
                }
            }
        }
    }

    private mutating func findToken(
        _ token: UnsafeRawBufferPointer, of ordinal: Ordinal, _ table: Table
    ) throws(StorageError) {
        let back = try raw.transaction.get(table, token)
        guard let back, back.count == 8,
            back.loadLittleEndian(UInt32.self, at: 0) == project.number.rawValue,
            back.loadLittleEndian(UInt32.self, at: 4) == ordinal.rawValue
        else {
            note(
                .tokenIndex,
                "a token of ordinal \(ordinal.rawValue) does not lead to it in \(table.name)")
            return
        }
    }

    /// Compares rows of `tokens` and `formerTokens` with their instances one by one, where a project's sums differ.
    mutating func checkSuspectTokens() throws(StorageError) {
        for (table, slot) in Self.tokenTables where suspects.contains(where: { $0.slot == slot }) {
            let rows = try Cursor(raw, table)
            var row = try rows.seek(.first)
            while let entry = row {
                if let (project, ordinal) = Self.place(entry),
                    suspects.contains(Suspect(project: project, slot: slot)),
                    try !isToken(entry.key, of: ordinal, in: project, table)
                {
                    noteTokenRow(project, ordinal, table)
                }
                row = try rows.next()
            }
        }
    }

    /// The instance that a row of a token table leads to; nil if the row has another size.
    private static func place(_ entry: Cursor.Entry) -> (ProjectNumber, Ordinal)? {
        guard entry.key.count == Limits.tokenRandomBytes, entry.value.count == 8 else { return nil }
        return (
            ProjectNumber(entry.value.loadLittleEndian(UInt32.self, at: 0)),
            Ordinal(entry.value.loadLittleEndian(UInt32.self, at: 4))
        )
    }

    private mutating func noteTokenRow(
        _ project: ProjectNumber, _ ordinal: Ordinal, _ table: Table
    ) {
        note(
            .tokenIndex, in: project,
            "a row of \(table.name) leads to ordinal \(ordinal.rawValue), which does not hold it")
    }

    /// Whether the instance has the token. If it is unreadable, it counts as having a former token, because
    /// `checkInstances` reports it.
    private func isToken(
        _ token: RowKey, of ordinal: Ordinal, in project: ProjectNumber, _ table: Table
    ) throws(StorageError) -> Bool {
        guard let record = try raw.get(.instances, .ordinal(ordinal, in: project)),
            record.count >= Limits.tokenRandomBytes
        else { return false }
        guard table == .formerTokens else {
            return record.prefix(Limits.tokenRandomBytes).elementsEqual(token)
        }
        guard let row = InstanceRow.Tokens(record) else { return true }
        return (0..<row.formerCount).contains { row.former(at: $0).elementsEqual(token) }
    }
}
