// SPDX-License-Identifier: Apache-2.0
//
// What a report begins with (REP-1). Rests on ReportCounts.

public import MartletBase
public import MartletRows

/// A message was accepted: whom it was for, and who of them does not get it from the start.
public struct NewReport: Sendable {
    /// What concerns the instances of one app.
    public struct Share: Sendable, Hashable {
        public var app: AppNumber
        public var counts: ReportCounts

        public init(app: AppNumber, counts: ReportCounts) {
            self.app = app
            self.counts = counts
        }

        init(app: AppNumber, targeted count: UInt64) {
            self.app = app
            counts = ReportCounts()
            counts[.targeted] = count
        }
    }

    /// nil: the message is counted in its day, and has no report of its own.
    public var sequence: MessageSequence?
    /// The number in the message ID.
    public var number: UInt64
    public var accepted: Instant
    public var shares: [Share]
    /// Disjoint sets of instances that do not get it.
    public var missed: [Recipients]

    public init(
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

/// Messages that were written to connections since that was told last.
public struct SentCount: Sendable, Hashable {
    public var project: ProjectNumber
    /// nil: of all messages, for the instances of one app; else of one message, for all instances.
    public var sequence: MessageSequence?
    public var app: AppNumber
    public var count: UInt64

    public init(
        project: ProjectNumber, sequence: MessageSequence?, app: AppNumber, count: UInt64
    ) {
        self.project = project
        self.sequence = sequence
        self.app = app
        self.count = count
    }
}
