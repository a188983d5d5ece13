// SPDX-License-Identifier: Apache-2.0
//
// What is answered to those who ask what became of messages (REP-1, REP-2). Rests on the ledgers.

public import MartletBase
public import MartletRows

/// REP-1: what became of one message.
public struct MessageReport: Sendable, Hashable {
    public var messageNumber: UInt64
    public var accepted: Instant
    public var counts: ReportCounts
    /// Of those that are pending, how many mailboxes were not looked into because there were too many:
    /// some of these may wait for nothing any more. Mostly 0.
    public var unsettledCount: UInt64

    public init(
        messageNumber: UInt64, accepted: Instant, counts: ReportCounts, unsettledCount: UInt64
    ) {
        self.messageNumber = messageNumber
        self.accepted = accepted
        self.counts = counts
        self.unsettledCount = unsettledCount
    }
}

/// REP-1: what became of the messages that were accepted on one day, for the instances of one app. What
/// was sent, displayed and opened counts for the day on which that happened.
public struct DayReport: Sendable, Hashable {
    /// Days since 1970-01-01, UTC.
    public var day: UInt32
    public var app: App
    public var counts: ReportCounts

    public init(day: UInt32, app: App, counts: ReportCounts) {
        self.day = day
        self.app = app
        self.counts = counts
    }
}

/// REP-1: outcomes that are certain and not counted yet, by day and app.
public struct DueOutcomes: Sendable {
    private struct Place: Hashable {
        var day: UInt32
        var app: AppNumber
    }

    private var counts: [Place: ReportCounts] = [:]

    public init() {}

    public mutating func add(_ event: ReportEvent, of day: UInt32, by app: AppNumber) {
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
    public var day: UInt32 {
        UInt32(clamping: max(millisecondsSince1970, 0) / (86_400 * 1000))
    }
}

/// Answers to questions about messages that were sent.
public enum Reports {
    /// REP-1: exact at the snapshot's instant.
    /// - Returns: nil if there is no such message, or its report is not kept any more.
    public static func message(
        _ number: UInt64, in project: ProjectNumber, limits: MailboxLimits, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> MessageReport? {
        guard let sequence = try storage.reporting.reportSequence(ofNumber: number, in: project)
        else {
            return nil
        }
        return try storage.reporting.report(of: sequence, in: project, limits: limits, now: now)
    }

    /// REP-1: day by day, and for each day app by app, in the order of their numbers.
    /// - Parameters:
    ///   - days: since 1970-01-01, UTC.
    ///   - due: of the same snapshot, since the first of the days or longer.
    public static func days(
        _ days: ClosedRange<UInt32>, in project: ProjectNumber, _ due: DueOutcomes,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [DayReport] {
        try storage.reporting.reportDays(days, in: project).map { due.adding(to: $0) }
    }

    /// REP-2: tokens of instances that a message was for and that have not got it, for whatever reason,
    /// in the order of their ordinals. Those that have left are not among them.
    /// - Returns: nil if there is no such message, or its report is not kept any more. The page's total
    ///   is not counted: 0.
    public static func notReceived(
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
