// SPDX-License-Identifier: Apache-2.0
//
// Daily reports in pages that fit into a frame, and the error for a missing report. Rests on Reports.

package import MartletBase
import MartletRows

/// A page of daily reports.
package struct DayReportPage: Sendable {
    /// Reports of the page, in the order of days and, within a day, of app numbers.
    package var entries: [DayReport]
    /// The cursor for the next page; nil at the end.
    package var next: String?
}

extension Reports {
    /// Daily reports in the order of days, and within a day in the order of app numbers (REP-1).
    /// - Parameters:
    ///   - first, last: days since 1970-01-01, UTC; both included.
    ///   - cursor: from the page before, or empty.
    package static func page(
        from first: UInt32, through last: UInt32, in project: ProjectNumber,
        after cursor: String, limit: Int, limits: BrokerLimits, now: Instant,
        _ storage: borrowing Transaction
    ) throws -> DayReportPage {
        try Listing.check(limit)
        guard first <= last, last - first < UInt32(Limits.reportDaysAskedMax) else {
            throw MartletError(
                .invalidArgument,
                "One may ask for 1 to \(Limits.reportDaysAskedMax) days, the first one first.",
                field: "days")
        }
        var bytes = 0
        var entries: [DayReport] = []
        let place = try ReportPlace(cursor: cursor)
        var day = max(first, place.day)
        let due = try storage.reporting.dueOutcomes(
            since: day, in: project, limits: limits, now: now)
        while day <= last {
            let end = day + min(last - day, daysPerLook - 1)
            for entry in try days(day...end, in: project, due, storage) {
                let here = ReportPlace(day: entry.day, app: entry.app.number)
                guard here >= place else { continue }
                bytes += entryBytes + entry.app.name.utf8.count
                guard entries.count < limit, bytes <= Listing.bytesPerPageMax else {
                    return DayReportPage(entries: entries, next: here.cursor)
                }
                entries.append(entry)
            }
            guard end < last else { break }
            day = end + 1
        }
        return DayReportPage(entries: entries, next: nil)
    }

    /// Days in a reading. The bound limits the memory, because a project may have many apps.
    private static let daysPerLook: UInt32 = 16
    /// Bytes of an entry in a page, without the app's name.
    private static let entryBytes = 111
}

/// The position at which a page begins.
private struct ReportPlace: Comparable {
    var day: UInt32
    var app: AppNumber

    static func < (a: Self, b: Self) -> Bool { (a.day, a.app) < (b.day, b.app) }

    var cursor: String { "\(day).\(app.rawValue)" }

    init(day: UInt32, app: AppNumber) {
        self.day = day
        self.app = app
    }

    init(cursor: String) throws(MartletError) {
        let parts = cursor.isEmpty ? ["0", "0"] : cursor.split(separator: ".")
        guard parts.count == 2, let day = UInt32(parts[0]), let app = UInt32(parts[1]) else {
            throw MartletError(
                .invalidArgument, "The cursor is not one that a page ended with.", field: "cursor")
        }
        self.init(day: day, app: AppNumber(app))
    }
}

extension MartletError {
    /// The error for a message without a report, because the report was removed or never existed (REP-1).
    /// - Parameter field: the field with the message's ID.
    package static func noReport(
        _ limits: BrokerLimits, field: String = "message_id"
    ) -> MartletError {
        guard limits.reportSeconds > 0 else {
            return MartletError(
                .notFound, "This broker keeps no reports of messages (report-seconds is 0).",
                field: field)
        }
        var kept = "\(limits.reportSeconds) seconds (report-seconds)"
        if limits.reportsPerProjectMax > 0 {
            kept += ", the last \(limits.reportsPerProjectMax) of a project"
            kept += " (reports-per-project-max)"
        }
        return MartletError(
            .notFound,
            """
            No report of this message is kept. Reports are kept for \(kept); a message that is \
            scheduled, or waits for others, has one once it is sent, and one that is now or never \
            (a time to live of 0) has none of its own.
            """, field: field)
    }
}
