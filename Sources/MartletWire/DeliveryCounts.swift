// SPDX-License-Identifier: Apache-2.0
//
// What was counted of messages (REP-1), shared by the embedding interface, the client library and the
// wire. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// What became of a message, or of the messages of a day: counts of instances. Every instance that a
/// message was for has exactly one outcome or is pending, so that at any moment
/// `targeted == outcomes + pending`.
public struct DeliveryCounts: Sendable, Hashable {
    /// Instances that the message was for.
    public var targeted: UInt64 = 0
    /// How often it was written to a connection; what is written again counts again.
    public var sent: UInt64 = 0
    /// RCP-2: devices that reported that they showed it, each once.
    public var displayed: UInt64 = 0
    /// RCP-2: devices that reported that it was opened, each once.
    public var opened: UInt64 = 0
    /// Outcome: the device took it, and said so.
    public var acknowledged: UInt64 = 0
    /// Outcome: a later message took its place before (COL-1, COL-3).
    public var collapsed: UInt64 = 0
    /// Outcome: its time to live ended before.
    public var expired: UInt64 = 0
    /// Outcome: the device had had too many messages (QUO-1).
    public var rateLimited: UInt64 = 0
    /// Outcome: discarded with everything that was stored, which was too many (STO-1).
    public var discardedTooMany: UInt64 = 0
    /// Outcome: discarded, for the instance had not been connected for too long (STO-2).
    public var discardedInactive: UInt64 = 0
    /// Outcome: the instance left before (REG-3).
    public var unregistered: UInt64 = 0
    /// Outcome: the sender cancelled it before (MSG-10).
    public var cancelled: UInt64 = 0
    /// Outcome: it was now or never (TTL-2). No device acknowledges that; `sent` says how often it was
    /// given to one.
    public var nowOrNever: UInt64 = 0

    public init() {}

    typealias Field = any WritableKeyPath<DeliveryCounts, UInt64> & Sendable

    /// In the order of the wire, the outcomes last.
    static let fields: [Field] =
        [
            \.targeted, \.sent, \.displayed, \.opened,
        ] + outcomeFields

    private static let outcomeFields: [Field] = [
        \.acknowledged, \.collapsed, \.expired, \.rateLimited, \.discardedTooMany,
        \.discardedInactive, \.unregistered, \.cancelled, \.nowOrNever,
    ]

    /// Both kinds of what was discarded.
    public var discarded: UInt64 { discardedTooMany &+ discardedInactive }

    /// All outcomes together.
    public var outcomes: UInt64 {
        Self.outcomeFields.reduce(0) { $0 &+ self[keyPath: $1] }
    }

    /// Instances that wait for the message, or have it and have not said so.
    public var pending: UInt64 { targeted - min(targeted, outcomes) }

    public static func += (left: inout DeliveryCounts, right: DeliveryCounts) {
        for field in fields { left[keyPath: field] &+= right[keyPath: field] }
    }

    static let byteCount = 13 * 8

    init(from reader: inout WireReader) throws(WireError) {
        for field in Self.fields { self[keyPath: field] = try reader.u64() }
    }

    func encode(into writer: inout WireWriter) {
        for field in Self.fields { writer.u64(self[keyPath: field]) }
    }
}

/// REP-1: what became of one message.
public struct DeliveryReport: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    public var accepted: Instant
    public var counts: DeliveryCounts
    /// Of those that are pending, how many mailboxes were not looked into because there were too many:
    /// some of these may wait for nothing any more. Mostly 0.
    public var unsettledCount: UInt64

    public init(
        messageID: String, accepted: Instant, counts: DeliveryCounts, unsettledCount: UInt64
    ) {
        self.messageID = messageID
        self.accepted = accepted
        self.counts = counts
        self.unsettledCount = unsettledCount
    }
}

/// REP-1: what became of the messages that were accepted on one day, for the instances of one app. What
/// was sent, displayed and opened counts for the day on which that happened.
public struct DailyCounts: Sendable, Hashable {
    public var day: Day
    /// Package name or bundle ID.
    public var app: String
    public var platform: Platform
    public var counts: DeliveryCounts

    public init(day: Day, app: String, platform: Platform, counts: DeliveryCounts) {
        self.day = day
        self.app = app
        self.platform = platform
        self.counts = counts
    }
}
