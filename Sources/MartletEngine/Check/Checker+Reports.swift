// SPDX-License-Identifier: Apache-2.0
//
// Reports: a message's outcomes and waiting recipients must add up to its recipients. Who waits is worked out from all
// logs. Rests on Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    mutating func checkReports() throws(StorageError) {
        let number = project.number
        var count: UInt64 = 0
        var oldest: MessageSequence?
        try forEachRow(of: .reports, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            count += 1
            let sequence = entry.key.sequence
            let row: ReportRow
            do throws(StorageError) { row = try ReportRow(entry.value) } catch {
                try it.noteDamage(error, in: number)
                return
            }
            // Reported by the check of the messages.
            let waiting = try? it.transaction.reporting.waitingCount(for: sequence, in: number)
            let known = row.counts.outcomeCount + (waiting ?? 0)
            if waiting != nil, known != row.counts[.targeted] {
                it.note(
                    .report,
                    """
                    message \(sequence.rawValue) was for \(row.counts[.targeted]) instances, what \
                    became of \(known) is known
                    """)
            }
            if row.number != sequence.rawValue {
                let back = try it.raw.get(.reportNumbers, .number(row.number, in: number))
                if back?.count != 8
                    || back?.loadLittleEndian(UInt64.self, at: 0) != sequence.rawValue
                {
                    it.note(.report, "the number of message \(sequence.rawValue) leads elsewhere")
                }
            }
            oldest = min(oldest ?? sequence, sequence)
            if sequence < it.project.reportsFrom {
                it.note(
                    .report, "message \(sequence.rawValue) has a report that is not kept any more")
            }
        }
        try forEachRow(of: .messages, keyBytes: 12...13) { (it, entry) throws(StorageError) in
            guard let record = try? MessageRecord(entry.value), record.hasReport,
                try it.raw.get(.reports, Key(bytes: Array(entry.key))) == nil,
                case let sequence = LogRow(entry.key).sequence,
                sequence >= it.project.reportsFrom
            else { return }
            count += 1
            oldest = min(oldest ?? sequence, sequence)
            guard
                let waiting = try? it.transaction.reporting.waitingCount(for: sequence, in: number)
            else { return }
            if waiting != 1 {
                it.note(
                    .report,
                    "message \(sequence.rawValue) was for 1 instance, what became of it is unknown")
            }
        }
        // Reports are removed in the order of their sequences, so only a project's oldest has a due row.
        if let oldest {
            let id = withUnsafeBytes(of: oldest.rawValue.bigEndian) { Array($0) }
            try expectDue(.report, id, "the oldest report")
        }
        if project.reportCount != count {
            note(.report, "there are \(count) reports, \(project.reportCount) are counted")
        }
        try checkReportNumbers()
        try checkDays()
        try forEachRow(of: .missed, keyBytes: 16...16) { (it, entry) throws(StorageError) in
            let key = Key(bytes: Array(entry.key.prefix(12)))
            let block = entry.key.missedBlock
            guard try it.raw.get(.reports, key) != nil else {
                it.note(.report, "those that miss a message without a report")
                return
            }
            if block > BlockGeometry.blockMax || SetRow(checking: entry.value, block: block) == nil
            {
                it.note(.setForm, "missed, block \(block), of \(entry.value.count) bytes")
            }
        }
        try forEachRow(of: .closings, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let key = Key(bytes: Array(entry.key))
            if try it.raw.get(.recipients, key) == nil {
                it.note(.report, "a message is being closed that is not there")
            }
        }
    }

    /// Checks that each number leads to a report of that number. `checkReports` checks the other direction.
    private mutating func checkReportNumbers() throws(StorageError) {
        let project = project.number
        try forEachRow(of: .reportNumbers, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let number = entry.key.number
            guard entry.value.count == 8 else {
                it.note(.damagedRecord, "reportNumbers: a value of \(entry.value.count) bytes")
                return
            }
            let sequence = MessageSequence(entry.value.loadLittleEndian(UInt64.self, at: 0))
            let report = try it.raw.get(.reports, .sequence(sequence, in: project))
            // An unreadable row is reported by the check of the reports.
            if report.map({ ((try? ReportRow($0))?.number ?? number) != number }) ?? true {
                it.note(.report, "number \(number) leads to no report of that number")
            }
        }
    }

    private mutating func checkDays() throws(StorageError) {
        try forEachRow(of: .projects, keyBytes: 4...12) { (it, entry) throws(StorageError) in
            guard entry.key.count == 12 else { return }
            let day = entry.key.day
            let app = entry.key.dayApp.rawValue
            do throws(StorageError) {
                var reader = RecordReader(entry.value, of: .projects)
                let counts = try reader.counts()
                if counts.outcomeCount > counts[.targeted] {
                    it.note(.report, "day \(day) of app \(app) has more outcomes than instances")
                }
            } catch {
                try it.noteDamage(error, in: it.project.number)
            }
            if it.apps[app] == nil { it.note(.report, "day \(day) counts app \(app)") }
            let id = withUnsafeBytes(of: UInt64(day).bigEndian) { Array($0) }
            try it.expectDue(.reportDay, id, "day \(day)")
        }
    }
}
