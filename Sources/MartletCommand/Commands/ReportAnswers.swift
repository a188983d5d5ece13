// SPDX-License-Identifier: Apache-2.0
//
// The JSON that `martlet report` prints (REP-1), from either kind of access. Counts of 0 are printed too. Property
// names are the names in the JSON output. Pure.

import Martlet

struct CountsAnswer: Encodable, Sendable {
    var targeted: UInt64
    var sent: UInt64
    var displayed: UInt64
    var opened: UInt64
    var acknowledged: UInt64
    var collapsed: UInt64
    var expired: UInt64
    var rateLimited: UInt64
    /// Sum of `discardedTooMany` and `discardedInactive`.
    var discarded: UInt64
    var discardedTooMany: UInt64
    var discardedInactive: UInt64
    var unregistered: UInt64
    var cancelled: UInt64
    var nowOrNever: UInt64
    /// Targeted instances without any of the nine outcomes.
    var pending: UInt64

    init(_ counts: DeliveryCounts) {
        targeted = counts.targeted
        sent = counts.sent
        displayed = counts.displayed
        opened = counts.opened
        acknowledged = counts.acknowledged
        collapsed = counts.collapsed
        expired = counts.expired
        rateLimited = counts.rateLimited
        discarded = counts.discarded
        discardedTooMany = counts.discardedTooMany
        discardedInactive = counts.discardedInactive
        unregistered = counts.unregistered
        cancelled = counts.cancelled
        nowOrNever = counts.nowOrNever
        pending = counts.pending
    }
}

struct MessageReportAnswer: Encodable, Sendable {
    var messageID: String
    /// Instant of acceptance, in milliseconds since 1970.
    var accepted: Int64
    /// Pending instances whose mailboxes were not looked into.
    var unsettled: UInt64
    var counts: CountsAnswer

    init(_ report: DeliveryReport) {
        messageID = report.messageID
        accepted = report.accepted.millisecondsSince1970
        unsettled = report.unsettledCount
        counts = CountsAnswer(report.counts)
    }
}

struct ProjectReportAnswer: Encodable, Sendable {
    struct Entry: Encodable, Sendable {
        /// A day in UTC: `2026-11-21`.
        var day: String
        var app: String
        var platform: String
        var counts: CountsAnswer
    }

    var project: String
    var firstDay: String
    /// The last day that the report includes.
    var lastDay: String
    var total: CountsAnswer
    /// Counts by day and app. Entries with only zeros are left out.
    var days: [Entry]

    init(_ report: ProjectReport) {
        project = report.project
        firstDay = report.days.lowerBound.description
        lastDay = report.days.upperBound.description
        total = CountsAnswer(report.total)
        days = report.entries.map {
            Entry(
                day: $0.day.description, app: $0.app, platform: $0.platform.name,
                counts: CountsAnswer($0.counts))
        }
    }
}
