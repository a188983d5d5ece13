// SPDX-License-Identifier: Apache-2.0
//
// Reports on sent messages, and the instances without a message (REP-1, REP-2). Rests on Broker.

import MartletEngine
import MartletStore
import MartletWire

extension Broker {
    /// REP-1: exact counts of a message's outcomes so far. `counts.targeted` is the sum of all outcomes and
    /// `counts.pending`.
    /// - Parameter messageID: as in `SendReceipt`, or the number alone.
    /// - Throws: `NOT_FOUND` for the project, for an unknown message, for a message that is now or never on
    ///   each platform, and for a message older than `limits.reportSeconds`; `INVALID_ARGUMENT` for text that
    ///   is no message ID.
    public func report(
        of messageID: String, in project: String
    ) throws(MartletError) -> DeliveryReport {
        let number = try MessageID.number(messageID, projectID: project)
        return DeliveryReport(
            try answer(ReportRequest(messageNumber: number), in: project), projectID: project)
    }

    /// REP-1: counts of a project's messages by day and app, in pages. Entries with zero counts alone are left
    /// out.
    /// - Parameters:
    ///   - days: UTC, at most 3660 days. Outcomes count for the day on which the message was accepted. Sent,
    ///     displayed and opened messages count for the day of the event.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT`.
    public func reports(
        days: ClosedRange<Day>, in project: String, after: String = "",
        limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<DailyCounts> {
        let page = try answer(
            ListDaysRequest(
                first: days.lowerBound, last: days.upperBound, cursor: after,
                limit: UInt16(clamping: limit)), in: project)
        return ListPage(entries: page.entries, nextCursor: page.nextCursor)
    }

    /// REP-1: counts of a single app by day, the oldest day first. Days without counts are left out.
    /// - Parameters:
    ///   - start: the earliest day.
    ///   - limit: the highest number of days.
    /// - Returns: nil if the project has no such app on the platform.
    package func reports(
        ofApp name: String, on platform: Platform, in project: String, from start: Day, limit: Int
    ) throws(MartletError) -> [DailyCounts]? {
        let number = try number(of: project)
        let today = Day(of: clock())
        let kept = answerer.limits.reportDaysMax
        let days = kept > 0 ? min(kept, Limits.reportDaysAskedMax) : Limits.reportDaysAskedMax
        let first = max(start, today.before(UInt32(days - 1)))
        return try ask { (transaction) throws -> [DailyCounts]? in
            guard let app = try transaction.projects.app(named: name, on: platform, in: number)
            else {
                return nil
            }
            var entries: [DailyCounts] = []
            var day = first.rawValue
            let due = try transaction.reporting.dueOutcomes(
                since: day, in: number, limits: answerer.limits, now: clock())
            while day <= today.rawValue, entries.count < limit {
                let reports = try Reports.days(day...day, in: number, due, transaction)
                if let report = reports.first(where: { $0.app == app }) {
                    entries.append(DailyCounts(report))
                }
                day += 1
            }
            return entries
        }
    }

    /// REP-2: tokens of the recipients that have not got a message, for any reason, in pages. Unregistered
    /// instances are left out. `OutgoingMessage.notReceived` sends to the listed instances.
    /// - Parameters:
    ///   - messageID: as in `SendReceipt`, or the number alone.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: the errors of `report(of:in:)`.
    public func notReceived(
        _ messageID: String, in project: String, after: String = "",
        limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<String> {
        let number = try MessageID.number(messageID, projectID: project)
        return ListPage(
            try answer(
                ListNotReceivedRequest(
                    messageNumber: number, cursor: after, limit: UInt16(clamping: limit)),
                in: project))
    }
}
