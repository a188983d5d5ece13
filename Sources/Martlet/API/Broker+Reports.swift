// SPDX-License-Identifier: Apache-2.0
//
// What became of messages that were sent, and who has not got one (REP-1, REP-2). Rests on Broker.

import MartletEngine
import MartletStore

extension Broker {
    /// REP-1: what became of a message so far, exactly: `counts.targeted` is what all outcomes and
    /// `counts.pending` add up to.
    /// - Parameter messageID: as `SendReceipt` has it, or its number alone.
    /// - Throws: `NOT_FOUND` for the project, and if no report is kept: no such message, one that is now
    ///   or never as a whole, or one that is older than `limits.reportSeconds`; `INVALID_ARGUMENT` for
    ///   text that is no message ID.
    public func report(
        of messageID: String, in project: String
    ) throws(MartletError) -> DeliveryReport {
        let number = try number(of: project)
        let messageNumber = try MessageID.number(messageID, projectID: project)
        let (limits, now) = (configuration.limits, clock())
        let report = try ask { (transaction) throws in
            try Reports.message(messageNumber, in: number, limits: limits, now: now, transaction)
        }
        guard let report else { throw .noReport(limits) }
        return DeliveryReport(
            messageID: MessageID.text(messageNumber, projectID: project),
            accepted: report.accepted, counts: DeliveryCounts(report.counts),
            unsettledCount: report.unsettledCount)
    }

    /// REP-1: what became of a project's messages, day by day, and for each day app by app, in pages. What
    /// is all zero is left out.
    /// - Parameters:
    ///   - days: UTC, at most 3660. Outcomes count for the day on which the message was accepted; what
    ///     was sent, displayed and opened for the day on which that happened.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries; there may be fewer.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT`.
    public func reports(
        days: ClosedRange<Day>, in project: String, after: String = "", limit: Int = 1000
    ) throws(MartletError) -> ListPage<DailyCounts> {
        let number = try number(of: project)
        let page = try ask {
            try Reports.page(
                from: days.lowerBound.rawValue, through: days.upperBound.rawValue, in: number,
                after: after, limit: limit, limits: configuration.limits, now: clock(), $0)
        }
        return ListPage(entries: page.entries.map { DailyCounts($0) }, next: page.next)
    }

    /// REP-1: the same for one app alone: every day that is kept and has counts, the oldest first.
    /// - Parameters:
    ///   - start: days before it are left out.
    ///   - limit: at most so many days.
    /// - Returns: nil if the project has no such app on that platform.
    package func reports(
        ofApp name: String, on platform: Platform, in project: String, from start: Day, limit: Int
    ) throws(MartletError) -> [DailyCounts]? {
        let number = try number(of: project)
        let today = Day(of: clock())
        let kept = configuration.limits.reportDaysMax
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
                since: day, in: number, limits: configuration.limits, now: clock())
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

    /// REP-2: tokens of the instances that a message was for and that have not got it, for whatever
    /// reason, in pages. Those that have left are not among them. `OutgoingMessage.notReceived` sends to
    /// these.
    /// - Parameters:
    ///   - messageID: as `SendReceipt` has it, or its number alone.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: as `report(of:in:)`.
    public func notReceived(
        _ messageID: String, in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<String> {
        let number = try number(of: project)
        let messageNumber = try MessageID.number(messageID, projectID: project)
        let start = try Ordinal(cursor: after)
        let page = try ask { (transaction) throws in
            try Reports.notReceived(
                messageNumber, in: number, from: start, limit: limit, transaction)
        }
        guard let page else { throw .noReport(configuration.limits) }
        return ListPage(page)
    }
}
