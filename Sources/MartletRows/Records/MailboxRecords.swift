// SPDX-License-Identifier: Apache-2.0
//
// The values that make up a mailbox: a stored message with its variants, an entry of an instance's log, and the state
// of the mailbox. Rests on MartletBase.

public import MartletBase

/// The form of a message for some platforms (MSG-5). The variants of one message have disjoint platforms.
public struct MessageVariant: Sendable, Hashable {
    /// Platforms on which instances get the variant.
    public var platforms: PlatformSet
    /// TTL-1: each platform can have its own time to live.
    public var expires: Instant
    /// PRI-1: priority of the variant.
    public var priority: MessagePriority
    /// COL-1: key with which a later message can take the place of the variant; `.none`: not collapsible.
    public var collapse: CollapseKey
    /// A valid message in wire form.
    public var body: [UInt8]

    public init(
        platforms: PlatformSet, expires: Instant, priority: MessagePriority,
        collapse: CollapseKey, body: [UInt8]
    ) {
        self.platforms = platforms
        self.expires = expires
        self.priority = priority
        self.collapse = collapse
        self.body = body
    }

    /// Lane in which recipients get the variant.
    @inlinable public var lane: Lane { Lane(priority, isCollapsible: collapse.isCollapsible) }
}

/// A message in the store: one record for all recipients.
public struct StoredMessage: Sendable, Hashable {
    /// Position in the project's order of stored messages.
    public var sequence: MessageSequence
    /// The number in the message ID. The number equals the sequence, except for a message that waited: such a message
    /// gets its number at acceptance, and its sequence when it is sent.
    public var number: UInt64
    /// Acceptance of the message.
    public var accepted: Instant
    /// Kind of the message's target.
    public var kind: TargetKind
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String
    /// The options that the message has for all its recipients.
    public var options: MessageOptions
    /// One to three variants. An instance on a platform of no variant is not a recipient.
    public var variants: [MessageVariant]

    public init(
        sequence: MessageSequence, number: UInt64, accepted: Instant, kind: TargetKind,
        from: String, options: MessageOptions, variants: [MessageVariant]
    ) {
        self.sequence = sequence
        self.number = number
        self.accepted = accepted
        self.kind = kind
        self.from = from
        self.options = options
        self.variants = variants
    }
}

/// The owner of a log: the properties of an instance that decide how a message appears in its log.
public struct MailboxOwner: Sendable, Hashable {
    /// Project of the instance.
    public var project: ProjectNumber
    /// Ordinal of the instance.
    public var ordinal: Ordinal
    /// Platform of the instance. The platform selects the variant.
    public var platform: Platform
    /// The digest of the app's package name. `CollapseKey.app` stands for that name.
    public var appKey: CollapseDigest

    public init(
        project: ProjectNumber, ordinal: Ordinal, platform: Platform, appKey: CollapseDigest
    ) {
        self.project = project
        self.ordinal = ordinal
        self.platform = platform
        self.appKey = appKey
    }
}

/// The first eight bytes of the SHA-256 of a collapse key. `init(of:)` computes the digest.
public struct CollapseDigest: RawRepresentable, Sendable, Hashable {
    /// Eight bytes of the digest as an integer.
    public let rawValue: UInt64
    /// Makes a digest from a stored number.
    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// One entry of an instance's log, in the order of the project's sequences. The log begins behind the last sequence
/// up to which all messages are acknowledged. It has every later message to the instance, also an expired message, as
/// long as that message can matter for the fate of another.
public struct LogEntry: Sendable, Hashable {
    /// A message, or the trace of a discarded message.
    public enum Content: Sendable, Hashable {
        /// A message. `collapse` is nil if the message is not collapsible.
        case message(collapse: CollapseDigest?)
        /// MSG-11: an opaque message. `topic` is nil if the message replaces no other message.
        case opaque(topic: CollapseDigest?)
        /// STO-2: the message was discarded at acceptance, because the instance was inactive.
        case discarded
    }

    /// Position in the project's order of stored messages.
    public var sequence: MessageSequence
    /// Acceptance of the message.
    public var accepted: Instant
    /// End of the message's time to live on the instance's platform.
    public var expires: Instant
    /// PRI-1: priority of the message.
    public var priority: MessagePriority
    /// Message, or the trace of a discarded message.
    public var content: Content
    /// Acknowledged, possibly before an earlier entry of the log.
    public var isAcknowledged: Bool

    /// Makes an entry. By default, the entry is not acknowledged.
    public init(
        sequence: MessageSequence, accepted: Instant, expires: Instant, priority: MessagePriority,
        content: Content, isAcknowledged: Bool = false
    ) {
        self.sequence = sequence
        self.accepted = accepted
        self.expires = expires
        self.priority = priority
        self.content = content
        self.isAcknowledged = isAcknowledged
    }

    /// Whether the entry counts against the limit of stored messages (STO-1): it has no collapse key, or is opaque.
    package var isPlain: Bool {
        switch content {
        case .message(nil), .opaque: true
        case .message(.some), .discarded: false
        }
    }

    /// Lane of the entry. A discarded message is not in a collapsible lane.
    @inlinable public var lane: Lane {
        if case .message(.some) = content { return Lane(priority, isCollapsible: true) }
        return Lane(priority, isCollapsible: false)
    }
}

/// The state of a mailbox, as the store keeps it.
public struct MailboxState: Sendable, Hashable {
    /// The marks of the lanes. Each message of a lane up to its mark is acknowledged, or is older than the
    /// registration of the instance.
    public var acknowledged: LaneMarks
    /// STO-1: where the last connection of the instance ended. While the instance is connected: where the present
    /// connection began, because the absence before was settled at that time.
    public var awayFrom: MessageSequence
    /// Where the present connection began; the highest sequence if the instance has no connection.
    public var awayThrough: MessageSequence
    /// COL-4: when the throttle's bucket will be full again.
    public var throttleFull: Instant
    /// STO-2: when the instance was last connected.
    public var seen: Instant
    /// STO-1: all unacknowledged messages up to this sequence were discarded. The log begins behind it.
    public var discardedThrough: MessageSequence
    /// The number of discarded messages that the instance was not told of yet.
    public var discardedCount: UInt64
    /// OPS-7: the notice's stream ID that no message has. 0: the notice has the ID of the last discarded message.
    public var noticeStreamID: MessageSequence = .none
    /// The connection was lost in an earlier run of the broker, and its end is not written into the state yet. Until then it is
    /// unknown which messages count against the limit (STO-1).
    public var hasLostConnection = false

    /// Makes the state of a mailbox. By default, the instance has no connection and no messages were discarded.
    public init(
        acknowledged: LaneMarks, awayFrom: MessageSequence,
        awayThrough: MessageSequence = MessageSequence(.max), throttleFull: Instant, seen: Instant,
        discardedThrough: MessageSequence = .none, discardedCount: UInt64 = 0
    ) {
        self.acknowledged = acknowledged
        self.awayFrom = awayFrom
        self.awayThrough = awayThrough
        self.throttleFull = throttleFull
        self.seen = seen
        self.discardedThrough = discardedThrough
        self.discardedCount = discardedCount
    }

    /// Whether the store has a connection of the instance, and no notice of its end.
    @inlinable public var isConnected: Bool { hasLostConnection || awayThrough.rawValue != .max }

    /// STO-1: the absence whose discards are not written down yet.
    public var absence: Absence { .away(from: awayFrom, through: awayThrough) }

    /// STO-1: the stream ID of the notice of the discards.
    package var notice: MessageSequence { max(discardedThrough, noticeStreamID) }

    /// The last sequence before the log.
    @inlinable public var logStart: MessageSequence { max(acknowledged.lowest, discardedThrough) }
}

/// The beginning of an instance's connection.
public struct ConnectionStart: Sendable, Hashable {
    /// A number that rises with every connection since the broker began.
    public var number: UInt64
    /// The project's last sequence at the beginning of the connection.
    public var position: MessageSequence
    /// STO-1: the device's doze, if more messages wait for the end of the doze than the mailbox may store.
    public var held: Absence?

    /// Makes the beginning of a connection. By default, no doze holds back too many messages.
    public init(number: UInt64, position: MessageSequence, held: Absence? = nil) {
        self.number = number
        self.position = position
        self.held = held
    }
}
