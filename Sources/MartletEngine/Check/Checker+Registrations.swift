// SPDX-License-Identifier: Apache-2.0
//
// Policies, keys, used tickets, topics of tickets, and deleted apps: each record is readable, each deadline has its due
// row, and the project's count of apps that take a place is right. Rests on Checker.

import MartletBase
import MartletRows

extension Checker {
    mutating func checkRegistrations() throws(StorageError) {
        do throws(StorageError) {
            _ = try transaction.registrations.policies(of: project.number)
            report.counts.keys += UInt64(
                try transaction.registrations.registrationKeys(of: project.number).count)
            report.counts.keys += UInt64(
                try transaction.registrations.ticketKeys(of: project.number).count)
        } catch {
            try noteDamage(error, in: project.number)
        }
        try forEachRow(of: .spentTickets, keyBytes: 36...36) { (it, entry) throws(StorageError) in
            try it.expectDue(.ticket, entry)
        }
        try forEachRow(of: .topicGrants, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal
            guard it.universe.contains(ordinal.rawValue) else {
                it.note(
                    .registration,
                    "a ticket's topics belong to ordinal \(ordinal.rawValue), not registered")
                return
            }
            do throws(StorageError) {
                _ = try it.transaction.registrations.grants(of: ordinal, in: it.project.number)
            } catch {
                try it.noteDamage(error, in: it.project.number)
            }
        }
        try checkDeletedApps()
    }

    private mutating func checkDeletedApps() throws(StorageError) {
        var goneCount = 0
        try forEachRow(of: .deletedApps, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let app = entry.key.app
            guard entry.value.count == 8 else {
                it.note(.damagedRecord, "deletedApps: a value of \(entry.value.count) bytes")
                return
            }
            let isLeaving = entry.value.loadLittleEndian(Int64.self, at: 0) == 0
            if it.apps[app.rawValue] == nil {
                it.note(.registration, "app \(app.rawValue) is deleted and does not exist")
            }
            if !isLeaving {
                goneCount += 1
                let members = it.standing[SetKey.number(of: .app(app))] ?? 0
                if members > 0 {
                    it.note(.registration, "deleted app \(app.rawValue) has \(members) instances")
                }
            }
            let id = withUnsafeBytes(of: UInt64(app.rawValue).bigEndian) { Array($0) }
            try it.expectDue(isLeaving ? .leavingApp : .deletedApp, id, "a deleted app")
        }
        let placed = apps.count - goneCount
        if placed != Int(project.appCount) {
            note(.projectCounter, "its record counts \(project.appCount) apps, there are \(placed)")
        }
    }
}
