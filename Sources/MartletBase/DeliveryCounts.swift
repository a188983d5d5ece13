// SPDX-License-Identifier: Apache-2.0
//
// Counts for the reports on messages (REP-1), shared by the embedding interface, the client library and the wire.
// Rests on Day and Instant.

/// Counts of instances by outcome, for one message or for the messages of one day. Every targeted instance either
/// has exactly one outcome or is pending, so `targeted == outcomes + pending` holds at any moment.
public struct DeliveryCounts: Sendable, Hashable {
    /// Instances that the message was for.
    public var targeted: UInt64 = 0
    /// Writes of the message to a connection. A repeated write counts again.
    public var sent: UInt64 = 0
    /// RCP-2: devices that reported showing the message. Each device counts once.
    public var displayed: UInt64 = 0
    /// RCP-2: devices that reported that the user opened the message. Each device counts once.
    public var opened: UInt64 = 0
    /// Outcome: the device acknowledged the message.
    public var acknowledged: UInt64 = 0
    /// Outcome: a later message replaced the message before the acknowledgement (COL-1, COL-3).
    public var collapsed: UInt64 = 0
    /// Outcome: the message's time to live ended before the acknowledgement.
    public var expired: UInt64 = 0
    /// Outcome: the device had already got as many messages as its quota allows (QUO-1).
    public var rateLimited: UInt64 = 0
    /// Outcome: the instance had too many stored messages, so the broker discarded the whole mailbox (STO-1).
    public var discardedTooMany: UInt64 = 0
    /// Outcome: discarded, because the instance had not connected for too long (STO-2).
    public var discardedInactive: UInt64 = 0
    /// Outcome: the instance unregistered before the acknowledgement (REG-3).
    public var unregistered: UInt64 = 0
    /// Outcome: the sender cancelled the message before the acknowledgement (MSG-10).
    public var cancelled: UInt64 = 0
    /// Outcome: the message was now or never (TTL-2). Devices do not acknowledge messages of this kind; `sent`
    /// counts the writes to connections.
    public var nowOrNever: UInt64 = 0
    /// Outcome: a foreign push service, such as Apple's, took the message for the instance (GW-11).
    public var handedOver: UInt64 = 0
    /// Outcome: a foreign push service refused the message for good (GW-11).
    public var refused: UInt64 = 0

    /// Counts that are all 0.
    public init() {}

    package typealias Field = any WritableKeyPath<DeliveryCounts, UInt64> & Sendable

    /// All counts in wire order, the outcomes last.
    package static let fields: [Field] =
        [
            \.targeted, \.sent, \.displayed, \.opened,
        ] + outcomeFields

    private static let outcomeFields: [Field] = [
        \.acknowledged, \.collapsed, \.expired, \.rateLimited, \.discardedTooMany,
        \.discardedInactive, \.unregistered, \.cancelled, \.nowOrNever, \.handedOver,
        \.refused,
    ]

    /// Instances with either of the two discarded outcomes.
    public var discarded: UInt64 { discardedTooMany &+ discardedInactive }

    /// Instances with any of the eleven outcomes.
    public var outcomes: UInt64 {
        Self.outcomeFields.reduce(0) { $0 &+ self[keyPath: $1] }
    }

    /// Instances without an outcome: they wait for the message, or have got the message and not acknowledged yet.
    public var pending: UInt64 { targeted - min(targeted, outcomes) }

    /// Adds each count of `right` to the count of `left`. Overflow wraps around.
    public static func += (left: inout DeliveryCounts, right: DeliveryCounts) {
        for field in fields { left[keyPath: field] &+= right[keyPath: field] }
    }
}

/// REP-1: the report on one message.
public struct DeliveryReport: Sendable, Hashable {
    /// Message ID: `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// Counts of the instances by outcome.
    public var counts: DeliveryCounts
    /// Pending instances whose mailboxes the broker did not look into, because there were too many. Some of them
    /// may no longer wait for the message. Mostly 0.
    public var unsettledCount: UInt64
    /// GW-11: why foreign push services refused the message.
    public var refusals: [RefusalCount]

    public init(
        messageID: String, accepted: Instant, counts: DeliveryCounts, unsettledCount: UInt64,
        refusals: [RefusalCount] = []
    ) {
        self.messageID = messageID
        self.accepted = accepted
        self.counts = counts
        self.unsettledCount = unsettledCount
        self.refusals = refusals
    }
}

/// REP-1: counts of the messages accepted on one day, for the instances of one app. `sent`, `displayed` and
/// `opened` count for the day on which the event happened.
public struct DailyCounts: Sendable, Hashable {
    /// UTC day of the acceptance; for `sent`, `displayed` and `opened`, UTC day of the event.
    public var day: Day
    /// Package name or bundle ID of the app.
    public var app: String
    /// Platform of the app.
    public var platform: Platform
    /// Counts of the app's instances by outcome.
    public var counts: DeliveryCounts

    public init(day: Day, app: String, platform: Platform, counts: DeliveryCounts) {
        self.day = day
        self.app = app
        self.platform = platform
        self.counts = counts
    }
}
