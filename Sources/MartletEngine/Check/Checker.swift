// SPDX-License-Identifier: Apache-2.0
//
// Walks a snapshot and compares all indexes with each other: first the tables of the whole store, then project by project,
// then the rows of tables whose sums differ (RowSums). It trusts no bytes: keys and values are measured before they are
// decoded, and an unreadable row is a problem of its own. Rests on Schema, Universe and RowSums.

import MartletBase
import MartletBits
import MartletRows

struct Checker {
    let raw: Rows
    var report = CheckReport()

    /// The project being checked.
    var project = Project(number: ProjectNumber(0), id: "", senderID: 0)
    var apps: [UInt32: Platform] = [:]
    var universe = Universe()
    /// How many members each standing set should have, by set number.
    var standing: [UInt32: UInt64] = [:]
    /// The subscribers that the project's topics say they have, by topic number; `.max` if the record is damaged.
    var topics: [UInt32: UInt64] = [:]
    /// Topics with an unreadable set. Their subscribers' lists can't be compared.
    var unreadable: Set<UInt32> = []

    /// Sums of the rows in `tokens`, `formerTokens` and `due`; nil if these tables were not read, and rows are looked
    /// up instead.
    var sums: StoreSums?
    /// Sums of the rows that the project's records should have in these tables.
    var records = RowSums()
    /// Rows of a project whose sum differs from that of its records.
    struct Suspect: Hashable {
        let project: ProjectNumber
        let slot: RowSums.Slot
    }
    var suspects: Set<Suspect> = []

    init(_ raw: Rows) { self.raw = raw }

    var transaction: Transaction { Transaction(raw) }

    mutating func note(_ kind: CheckProblem.Kind, _ detail: String) {
        note(kind, in: project.number, detail)
    }

    mutating func note(
        _ kind: CheckProblem.Kind, in project: ProjectNumber?, _ detail: String
    ) {
        report.problemCount += 1
        guard report.problems.count < CheckReport.problemsListedMax else { return }
        report.problems.append(CheckProblem(kind: kind, project: project, detail: detail))
    }

    /// Reports a damaged record as a problem. An error of the file is thrown.
    mutating func noteDamage(
        _ error: StorageError, in project: ProjectNumber?
    ) throws(StorageError) {
        // Damage has no LMDB error number.
        guard error.code == 0 else { throw error }
        note(.damagedRecord, in: project, error.operation + ": " + error.text)
    }

    // MARK: The whole store

    mutating func run(_ progress: (CheckProgress) -> Void) throws(StorageError) {
        try checkFormat()
        let projects = try checkProjects()
        try checkKeys(projects)
        try checkServiceAccounts(projects)
        try checkOwners(projects)
        sums = StoreSums(projects: projects.keys)
        try checkTokens()
        try checkDue(projects)
        let sorted = projects.values.sorted { $0.number < $1.number }
        for (index, project) in sorted.enumerated() {
            let tell = { (counts: CheckCounts) in
                progress(
                    CheckProgress(
                        project: project.id, projectsDone: index, projectCount: sorted.count,
                        counts: counts))
            }
            try check(project, tell)
        }
        guard !suspects.isEmpty else { return }
        try checkSuspectTokens()
        try checkSuspectDue()
    }

    private mutating func checkFormat() throws(StorageError) {
        let found = try raw.get(.meta, Key(bytes: Array("format".utf8)))
        guard let found, found.count == 4,
            found.loadLittleEndian(UInt32.self, at: 0) == storeFormatVersion
        else {
            note(.format, in: nil, "the format version is not \(storeFormatVersion)")
            return
        }
    }

    private mutating func checkProjects() throws(StorageError) -> [UInt32: Project] {
        var projects: [UInt32: Project] = [:]
        var next: ProjectNumber?
        do throws(StorageError) { next = try transaction.projects.nextProjectNumber() } catch {
            try noteDamage(error, in: nil)
        }
        let rows = try Cursor(raw, .projects)
        /// The projects met so far. A project's record comes before its counts of days.
        var numbers: Set<ProjectNumber> = []
        var row = try rows.seek(.first)
        while let entry = row {
            row = try rows.next()
            guard [4, 5, 12].contains(entry.key.count) else {
                note(.damagedRecord, in: nil, "projects: a key of \(entry.key.count) bytes")
                continue
            }
            let number = entry.key.project
            let isNew = numbers.insert(number).inserted
            if entry.key.count != 4 {
                if isNew { note(.rowsWithoutProject, in: number, Table.projects.name) }
                continue
            }
            let project: Project
            do throws(StorageError) {
                guard let found = try transaction.projects.project(number) else { continue }
                project = found
            } catch {
                try noteDamage(error, in: number)
                continue
            }
            projects[number.rawValue] = project
            report.counts.projects += 1
            if let next, number >= next {
                note(.projectCounter, in: number, "the next project number is \(next.rawValue)")
            }
            let back =
                project.id.isEmpty
                ? nil : try raw.get(.projectIDs, Key(bytes: Array(project.id.utf8)))
            if back?.count != 4 || back?.loadLittleEndian(UInt32.self, at: 0) != number.rawValue {
                note(.projectIndex, in: number, "its ID '\(project.id)' does not lead to it")
            }
        }
        let names = try Cursor(raw, .projectIDs)
        row = try names.seek(.first)
        while let entry = row {
            let id = String(decoding: entry.key, as: UTF8.self)
            let number =
                entry.value.count == 4 ? entry.value.loadLittleEndian(UInt32.self, at: 0) : nil
            row = try names.next()
            // The ID leads to nothing, or to a project with another ID.
            guard let number, let project = projects[number], project.id == id else {
                note(.projectIndex, in: nil, "the ID '\(id)' leads to no project of that ID")
                continue
            }
        }
        return projects
    }

    private mutating func checkKeys(_ projects: [UInt32: Project]) throws(StorageError) {
        let rows = try Cursor(raw, .keys)
        var row = try rows.seek(.first)
        while let entry = row {
            let id = String(decoding: entry.key, as: UTF8.self)
            row = try rows.next()
            report.counts.keys += 1
            let key: ServerKey
            do throws(StorageError) {
                guard let found = try transaction.projects.serverKey(id: id) else { continue }
                key = found
            } catch {
                try noteDamage(error, in: nil)
                continue
            }
            if projects[key.project.rawValue] == nil {
                note(.keyWithoutProject, in: key.project, "server key \(id)")
            }
        }
    }

    private mutating func checkServiceAccounts(
        _ projects: [UInt32: Project]
    ) throws(StorageError) {
        let rows = try Cursor(raw, .serviceAccounts)
        var row = try rows.seek(.first)
        while let entry = row {
            let id = String(decoding: entry.key, as: UTF8.self)
            row = try rows.next()
            report.counts.keys += 1
            do throws(StorageError) {
                guard let key = try transaction.projects.serviceAccountKey(id: id) else { continue }
                if projects[key.project.rawValue] == nil {
                    note(.keyWithoutProject, in: key.project, "service-account key \(id)")
                }
            } catch {
                try noteDamage(error, in: nil)
            }
        }
    }

    /// Checks that every row belongs to an existing project, in all tables whose keys begin with one.
    private mutating func checkOwners(_ projects: [UInt32: Project]) throws(StorageError) {
        let owned: [Table] = [
            .apps, .appNames, .instances, .topics, .topicNames, .sets, .instanceTopics, .messages,
            .recipients, .inbox, .mailboxes, .acknowledged, .free, .answers, .scheduled, .numbers,
            .receiptsWanted, .receiptsTold, .receipts, .collections, .live, .connections,
            .runs, .deferred, .upstream, .upstreamIDs, .groups, .groupNames, .instanceGroups,
            .reports, .reportNumbers, .missed, .closings, .policies, .registrationKeys, .ticketKeys,
            .spentTickets, .topicGrants, .deletedApps, .agents, .agentChannels, .bridges,
            .bridgeDigests, .bridgeKeys, .refusals,
        ]
        for table in owned {
            let rows = try Cursor(raw, table)
            var row = try rows.seek(.first)
            while let entry = row {
                guard entry.key.count >= 4 else {
                    note(
                        .damagedRecord, in: nil, "\(table.name): a key of \(entry.key.count) bytes")
                    row = try rows.next()
                    continue
                }
                let number = entry.key.project.rawValue
                if projects[number] == nil {
                    note(.rowsWithoutProject, in: ProjectNumber(number), table.name)
                }
                guard number < .max else { break }
                row = try rows.seek(Key(ProjectNumber(number + 1)))
            }
        }
    }

    // MARK: One project

    mutating func check(
        _ project: Project, _ tell: (CheckCounts) -> Void
    ) throws(StorageError) {
        self.project = project
        apps = [:]
        universe = Universe()
        standing = [:]
        topics = [:]
        unreadable = []
        records = RowSums()
        tell(report.counts)
        try checkApps()
        try checkInstances()
        tell(report.counts)
        try checkTopics()
        try checkSets()
        tell(report.counts)
        try checkReverseIndex()
        try checkGroups()
        try checkFreeNumbers()
        tell(report.counts)
        try checkMessages()
        try checkInbox()
        try checkMailboxes()
        try checkAcknowledgements()
        try checkSending()
        try checkReceipts()
        try checkReports()
        try checkUpstream()
        try checkRegistrations()
        try checkAgents()
        try checkBridges()
        try checkCollection()
        try compareDue()
        tell(report.counts)
    }

    /// Calls `body` with each row of the project. A row is a problem instead if its key doesn't have `keyBytes` bytes.
    mutating func forEachRow(
        of table: Table, keyBytes: ClosedRange<Int>,
        _ body: (inout Checker, Cursor.Entry) throws(StorageError) -> Void
    ) throws(StorageError) {
        let number = project.number
        let rows = try Cursor(raw, table)
        var row = try rows.seek(Key(number))
        while let entry = row, entry.key.count >= 4, entry.key.project == number {
            if keyBytes.contains(entry.key.count) {
                try body(&self, entry)
            } else {
                note(.damagedRecord, "\(table.name): a key of \(entry.key.count) bytes")
            }
            row = try rows.next()
        }
    }

    private mutating func checkApps() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .apps, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let at = entry.key.app
            let app: App
            do throws(StorageError) {
                guard let found = try it.transaction.projects.app(at, in: number) else { return }
                app = found
            } catch {
                try it.noteDamage(error, in: number)
                return
            }
            it.apps[at.rawValue] = app.platform
            it.report.counts.apps += 1
            if at >= it.project.nextApp {
                it.note(.projectCounter, "app \(at.rawValue) was never issued")
            }
            let back = try it.raw.get(.appNames, .appName(app.name, app.platform, in: number))
            if back?.count != 4 || back?.loadLittleEndian(UInt32.self, at: 0) != at.rawValue {
                it.note(.appIndex, "the name of app \(at.rawValue) does not lead to it")
            }
        }
        try forEachRow(of: .appNames, keyBytes: 6...511) { (it, entry) throws(StorageError) in
            guard entry.value.count == 4 else {
                it.note(.damagedRecord, "appNames: a value of \(entry.value.count) bytes")
                return
            }
            let at = AppNumber(entry.value.loadLittleEndian(UInt32.self, at: 0))
            let app = try it.raw.get(.apps, .app(at, in: number))
            // Both are the platform, then the name.
            guard let app, app.elementsEqual(entry.key.dropFirst(4)) else {
                it.note(.appIndex, "a name leads to app \(at.rawValue), which is not called that")
                return
            }
        }
    }

    private mutating func checkFreeNumbers() throws(StorageError) {
        var free: [UInt8: UInt64] = [:]
        try forEachRow(of: .free, keyBytes: 9...9) { (it, entry) throws(StorageError) in
            let value = entry.key.freeNumber
            let kind = FreeNumberKind(rawValue: entry.key[4])
            switch kind {
            case .ordinal:
                if it.universe.contains(value) {
                    it.note(.freeNumber, "ordinal \(value) is free and in use")
                    return
                }
                if value >= it.project.nextOrdinal.rawValue || !Ordinal(value).isUsable {
                    it.note(.freeNumber, "ordinal \(value) is free and was never issued")
                    return
                }
            case .topic:
                if it.topics[value] != nil {
                    it.note(.freeNumber, "topic number \(value) is free and in use")
                    return
                }
                if value >= it.project.nextTopic.rawValue {
                    it.note(.freeNumber, "topic number \(value) is free and was never issued")
                    return
                }
            case .app:
                if it.apps[value] != nil {
                    it.note(.freeNumber, "app number \(value) is free and in use")
                    return
                }
                if value >= it.project.nextApp.rawValue {
                    it.note(.freeNumber, "app number \(value) is free and was never issued")
                    return
                }
            case nil:
                it.note(.damagedRecord, "free: kind \(entry.key[4])")
                return
            }
            free[entry.key[4], default: 0] += 1
        }
        let next = project.nextOrdinal
        let ordinals =
            UInt64(next.blockIndex) * UInt64(BlockGeometry.bitsPerBlock) + UInt64(next.bitIndex)
        let numbers: [(FreeNumberKind, String, UInt64, UInt64)] = [
            (.ordinal, "ordinals", ordinals, universe.count),
            (.topic, "topic numbers", UInt64(project.nextTopic.rawValue), UInt64(topics.count)),
            (.app, "app numbers", UInt64(project.nextApp.rawValue), UInt64(apps.count)),
        ]
        for (kind, name, issued, used) in numbers {
            let known = used + free[kind.rawValue, default: 0]
            if known < issued {
                note(.numberLost, "\(issued - known) \(name) are neither free nor in use")
            }
        }
    }
}

extension Key {
    /// The lowest key.
    static var first: Key { Key(bytes: [0]) }
}
