// SPDX-License-Identifier: Apache-2.0
//
// Answers to questions about the outcomes of messages (REP-1, REP-2). Rests on the ledgers.

package import MartletBase
package import MartletRows

/// The outcomes of a message (REP-1).
package struct MessageReport: Sendable, Hashable {
    /// Number in the message ID.
    package var messageNumber: UInt64
    /// Acceptance of the message.
    package var accepted: Instant
    /// Instances by outcome and event.
    package var counts: ReportCounts
    /// Pending instances whose mailboxes were not looked into, because there are too many. Some may have an outcome
    /// already. Mostly 0.
    package var unsettledCount: UInt64
    /// Why push services refused the message, in the order of services and reasons (GW-11).
    package var refusals: [RefusalCount] = []

    package init(
        messageNumber: UInt64, accepted: Instant, counts: ReportCounts, unsettledCount: UInt64
    ) {
        self.messageNumber = messageNumber
        self.accepted = accepted
        self.counts = counts
        self.unsettledCount = unsettledCount
    }
}

/// What became of a day's messages for the instances of an app (REP-1). A message counts on the day of its acceptance;
/// sent, displayed and opened count on their own day.
package struct DayReport: Sendable, Hashable {
    /// Days since 1970-01-01, UTC.
    package var day: UInt32
    /// App of the instances.
    package var app: App
    /// Messages for the app's instances on the day, by event.
    package var counts: ReportCounts

    package init(day: UInt32, app: App, counts: ReportCounts) {
        self.day = day
        self.app = app
        self.counts = counts
    }
}

/// Outcomes that are certain but not counted yet, by day and app (REP-1).
package struct DueOutcomes: Sendable {
    private struct Place: Hashable {
        var day: UInt32
        var app: AppNumber
    }

    private var counts: [Place: ReportCounts] = [:]

    /// Makes an empty table.
    package init() {}

    /// Adds one message with an outcome to the day and the app.
    package mutating func add(_ event: ReportEvent, of day: UInt32, by app: AppNumber) {
        counts[Place(day: day, app: app), default: ReportCounts()][event] += 1
    }

    func adding(to report: DayReport) -> DayReport {
        var report = report
        if let due = counts[Place(day: report.day, app: report.app.number)] {
            report.counts += due
        }
        return report
    }
}

extension Instant {
    /// Days since 1970-01-01, UTC.
    package var day: UInt32 {
        UInt32(clamping: max(millisecondsSince1970, 0) / (86_400 * 1000))
    }
}

/// Answers to questions about reports.
package enum Reports {
    /// A message's report, exact at the instant of the snapshot (REP-1).
    /// - Returns: nil if the project has no report of the message.
    package static func message(
        _ number: UInt64, in project: ProjectNumber, limits: BrokerLimits, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> MessageReport? {
        guard let sequence = try storage.reporting.reportSequence(ofNumber: number, in: project)
        else {
            return nil
        }
        return try storage.reporting.report(of: sequence, in: project, limits: limits, now: now)
    }

    /// Daily reports in the order of days, and within a day in the order of app numbers (REP-1).
    /// - Parameters:
    ///   - days: days since 1970-01-01, UTC.
    ///   - due: due outcomes of the same snapshot, from the first of the days or earlier.
    package static func days(
        _ days: ClosedRange<UInt32>, in project: ProjectNumber, _ due: DueOutcomes,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [DayReport] {
        try storage.reporting.reportDays(days, in: project).map { due.adding(to: $0) }
    }

    /// Tokens of registered recipients that have not received a message, whatever the reason, in the order of ordinals
    /// (REP-2).
    /// - Returns: nil if the project has no report of the message. The page's total is always 0, because recipients
    ///   are not counted.
    package static func notReceived(
        _ number: UInt64, in project: ProjectNumber, from start: Ordinal, limit: Int,
        _ storage: borrowing Transaction
    ) throws -> Listing.Tokens? {
        try Listing.check(limit)
        guard let sequence = try storage.reporting.reportSequence(ofNumber: number, in: project)
        else {
            return nil
        }
        var ordinals: [Ordinal] = []
        var next: Ordinal?
        try storage.reporting.forEachNotReceived(sequence, in: project, from: start) { ordinal in
            guard ordinals.count < limit else {
                next = ordinal
                return false
            }
            ordinals.append(ordinal)
            return true
        }
        var tokens: [Token] = []
        for ordinal in ordinals {
            if let instance = try storage.instances.instance(ordinal, in: project) {
                tokens.append(instance.token)
            }
        }
        return Listing.Tokens(total: 0, tokens: tokens, next: next)
    }
}
