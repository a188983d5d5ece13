// SPDX-License-Identifier: Apache-2.0
//
// Answers to a sender's requests, as plain values: the broker, the wire and the client have these types in common.
// Answers with parts of a message are in MartletWire. Pure.

/// A topic and the number of its subscribers (TOP-9).
public struct TopicSummary: Sendable, Hashable {
    /// Name of the topic, without `/topics/`.
    public var name: String
    /// Subscribed instances, at least 1.
    public var subscriberCount: UInt64

    package init(name: String, subscriberCount: UInt64) {
        self.name = name
        self.subscriberCount = subscriberCount
    }
}

/// The remaining part of a project's quota (QUO-3, QUO-4).
public struct QuotaSummary: Sendable, Hashable {
    /// Name of the limit on the command line, such as `topic-changes-per-second`.
    public var name: String
    /// The whole quota, in the unit of `name`: per second, per minute, or at a time.
    public var limit: UInt64
    /// The part of `limit` that the project can still use now.
    public var remaining: UInt64
    /// Milliseconds until the whole quota is available again, without further use. nil: unknown, because the
    /// quota counts open connections or fanouts in progress.
    public var untilFullMilliseconds: UInt64?

    package init(
        name: String, limit: UInt64, remaining: UInt64, untilFullMilliseconds: UInt64?
    ) {
        self.name = name
        self.limit = limit
        self.remaining = remaining
        self.untilFullMilliseconds = untilFullMilliseconds
    }
}

/// A group without the tokens of its members.
public struct GroupSummary: Sendable, Hashable {
    /// Name of the group, unique in the project.
    public var name: String
    /// The notification key, by which senders address the group.
    public var key: String
    /// Members, 1 to 20.
    public var memberCount: Int

    package init(name: String, key: String, memberCount: Int) {
        self.name = name
        self.key = key
        self.memberCount = memberCount
    }
}

/// A device's report on a message: received, displayed or opened (RCP-2).
public struct DeliveryReceipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// Token of the reporting instance at the time of the report.
    public var token: String
    /// Event on the device: received, displayed or opened.
    public var kind: ReceiptKind
    /// The instant at which the broker received the report.
    public var instant: Instant
    /// Place among the project's receipts. Event IDs rise.
    public var eventID: UInt64

    package init(
        messageID: String, token: String, kind: ReceiptKind, instant: Instant, eventID: UInt64
    ) {
        self.messageID = messageID
        self.token = token
        self.kind = kind
        self.instant = instant
        self.eventID = eventID
    }
}
