// SPDX-License-Identifier: Apache-2.0
//
// The JSON that `martlet report` prints (REP-1), from either kind of access. Counts of 0 are printed too. Property
// names are the names in the JSON output. Pure.

package import Martlet

package struct CountsAnswer: Encodable, Sendable {
    package var targeted: UInt64
    package var sent: UInt64
    package var displayed: UInt64
    package var opened: UInt64
    package var acknowledged: UInt64
    package var collapsed: UInt64
    package var expired: UInt64
    package var rateLimited: UInt64
    /// Sum of `discardedTooMany` and `discardedInactive`.
    package var discarded: UInt64
    package var discardedTooMany: UInt64
    package var discardedInactive: UInt64
    package var unregistered: UInt64
    package var cancelled: UInt64
    package var nowOrNever: UInt64
    package var handedOver: UInt64
    package var refused: UInt64
    /// Targeted instances without any of the eleven outcomes.
    package var pending: UInt64

    package init(_ counts: DeliveryCounts) {
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
        handedOver = counts.handedOver
        refused = counts.refused
        pending = counts.pending
    }
}

package struct MessageReportAnswer: Encodable, Sendable {
    package var messageID: String
    /// Instant of acceptance, in milliseconds since 1970.
    package var accepted: Int64
    /// Pending instances whose mailboxes were not looked into.
    package var unsettled: UInt64
    package var counts: CountsAnswer
    /// GW-11: why foreign push services refused the message; absent without a refusal.
    package var refusals: [RefusalAnswer]?

    package init(_ report: DeliveryReport) {
        messageID = report.messageID
        accepted = report.accepted.millisecondsSince1970
        unsettled = report.unsettledCount
        counts = CountsAnswer(report.counts)
        guard !report.refusals.isEmpty else { return }
        refusals = report.refusals.map {
            RefusalAnswer(service: $0.kind.name, reason: $0.reason, count: $0.count)
        }
    }
}

/// GW-11: how often a push service refused a message for a reason.
package struct RefusalAnswer: Encodable, Sendable {
    /// `apns` or `webpush`.
    package var service: String
    /// The service's own word.
    package var reason: String
    package var count: UInt64
}

package struct ProjectReportAnswer: Encodable, Sendable {
    package struct Entry: Encodable, Sendable {
        /// A day in UTC: `2026-11-21`.
        package var day: String
        package var app: String
        package var platform: String
        package var counts: CountsAnswer
    }

    package var project: String
    package var firstDay: String
    /// The last day that the report includes.
    package var lastDay: String
    package var total: CountsAnswer
    /// Counts by day and app. Entries with only zeros are left out.
    package var days: [Entry]

    package init(_ report: ProjectReport) {
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
