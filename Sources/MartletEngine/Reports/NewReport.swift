// SPDX-License-Identifier: Apache-2.0
//
// The first counts of a report (REP-1). Rests on ReportCounts.

package import MartletBase
package import MartletRows

/// An accepted message: the recipients by app, and the instances left out.
package struct NewReport: Sendable {
    /// The counts for the instances of an app.
    package struct Share: Sendable, Hashable {
        /// App of the instances.
        package var app: AppNumber
        /// Counts for the app's instances by event.
        package var counts: ReportCounts

        package init(app: AppNumber, counts: ReportCounts) {
            self.app = app
            self.counts = counts
        }

        init(app: AppNumber, targeted count: UInt64) {
            self.app = app
            counts = ReportCounts()
            counts[.targeted] = count
        }
    }

    /// The message's sequence; nil if it counts for its day only, without a report.
    package var sequence: MessageSequence?
    /// The number in the message ID.
    package var number: UInt64
    /// When it was accepted, which is the day that it counts for.
    package var accepted: Instant
    /// Counts by the instances' app.
    package var shares: [Share]
    /// Disjoint sets of instances left out: over their quota, or inactive.
    package var missed: [Recipients]

    package init(
        sequence: MessageSequence?, number: UInt64, accepted: Instant, shares: [Share],
        missed: [Recipients]
    ) {
        self.sequence = sequence
        self.number = number
        self.accepted = accepted
        self.shares = shares
        self.missed = missed
    }
}

/// Messages that loops queued for connections since the last report (REP-1).
package struct SentCount: Sendable, Hashable {
    /// Project of the messages.
    package var project: ProjectNumber
    /// nil if `count` is over all messages, for the instances of `app`; otherwise it is one message's, over all apps.
    package var sequence: MessageSequence?
    /// App of the instances; 0 if `sequence` is set.
    package var app: AppNumber
    /// Messages, counted once per connection.
    package var count: UInt64

    package init(
        project: ProjectNumber, sequence: MessageSequence?, app: AppNumber, count: UInt64
    ) {
        self.project = project
        self.sequence = sequence
        self.app = app
        self.count = count
    }
}
