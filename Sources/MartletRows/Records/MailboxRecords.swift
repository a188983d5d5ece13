// SPDX-License-Identifier: Apache-2.0
//
// What a mailbox is made of, as values: a stored message with its variants per platform, an entry of
// an instance's log, and how far the instance is. Rests on MartletBase.

public import MartletBase

/// A message as the instances of some platforms get it (MSG-5). The variants of a message are for
/// disjoint platforms.
public struct MessageVariant: Sendable, Hashable {
    public var platforms: PlatformSet
    /// TTL-1: per platform.
    public var expires: Instant
    public var priority: MessagePriority
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

    @inlinable public var lane: Lane { Lane(priority, isCollapsible: collapse != .none) }
}

/// A message as it is kept: once, for all its recipients.
public struct StoredMessage: Sendable, Hashable {
    public var sequence: MessageSequence
    /// The number in the message ID: the sequence, but for scheduled messages, which are given a number
    /// when they are accepted and a sequence when they are due.
    public var number: UInt64
    public var accepted: Instant
    public var kind: TargetKind
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String
    /// RCP-1: the sender asked for receipts.
    public var wantsReceipts: Bool
    /// One to three. Recipients on other platforms than theirs do not exist.
    public var variants: [MessageVariant]

    public init(
        sequence: MessageSequence, number: UInt64, accepted: Instant, kind: TargetKind,
        from: String, wantsReceipts: Bool, variants: [MessageVariant]
    ) {
        self.sequence = sequence
        self.number = number
        self.accepted = accepted
        self.kind = kind
        self.from = from
        self.wantsReceipts = wantsReceipts
        self.variants = variants
    }
}

/// Whose log is read: what of a message depends on the instance.
public struct MailboxOwner: Sendable, Hashable {
    public var project: ProjectNumber
    public var ordinal: Ordinal
    public var platform: Platform
    /// The digest of the app's package name: what `CollapseKey.app` stands for.
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

/// A collapse key, told apart by the first eight bytes of its SHA-256. Made where keys are hashed.
public struct CollapseDigest: RawRepresentable, Sendable, Hashable {
    public let rawValue: UInt64
    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// One entry of an instance's log, in the order of the project's sequences. The log has every message
/// the instance was a recipient of since everything before was acknowledged, also what has expired,
/// as long as that can matter for what has not.
public struct LogEntry: Sendable, Hashable {
    public enum Content: Sendable, Hashable {
        /// nil: not collapsible.
        case message(collapse: CollapseDigest?)
        /// STO-2: discarded when it was accepted, because the instance was inactive.
        case discarded
    }

    public var sequence: MessageSequence
    public var accepted: Instant
    public var expires: Instant
    public var priority: MessagePriority
    public var content: Content
    /// Acknowledged although something before it is not.
    public var isAcknowledged: Bool

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

    /// Whether the entry is a message without a collapse key. STO-1 counts plain messages.
    package var isPlain: Bool { content == .message(collapse: nil) }

    @inlinable public var lane: Lane {
        if case .message(.some) = content { return Lane(priority, isCollapsible: true) }
        return Lane(priority, isCollapsible: false)
    }
}

/// How far an instance is, as the store keeps it.
public struct MailboxState: Sendable, Hashable {
    /// In each lane everything up to here is acknowledged, or from before the instance was registered.
    public var acknowledged: LaneMarks
    /// STO-1: where the instance's last connection ended. While it is connected: where the present
    /// connection began, because the absence before that was settled then.
    public var awayFrom: MessageSequence
    /// Where the present connection began; the highest position where the instance has no connection.
    public var awayThrough: MessageSequence
    /// COL-4: when the throttle's bucket will be full again.
    public var throttleFull: Instant
    /// STO-2: when it was last connected.
    public var seen: Instant
    /// STO-1: everything up to here was discarded, if it was not acknowledged. The log begins behind.
    public var discardedThrough: MessageSequence
    /// How many messages that were, of which the instance was not told yet.
    public var discardedCount: UInt64
    /// The broker ended without a word of the connection that the instance had then, and where that
    /// ended is not written into the state yet: it cannot be said what STO-1 counts.
    public var hasLostConnection = false

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

    /// Whether the store knows of a connection of which it was not told that it ended.
    @inlinable public var isConnected: Bool { hasLostConnection || awayThrough.rawValue != .max }

    /// STO-1: what is not seen to yet.
    public var absence: Absence { .away(from: awayFrom, through: awayThrough) }

    /// The log begins behind this.
    @inlinable public var logStart: MessageSequence { max(acknowledged.lowest, discardedThrough) }
}

/// An instance's connection, as it begins.
public struct ConnectionStart: Sendable, Hashable {
    /// Rises with every connection since the broker began.
    public var number: UInt64
    /// The project's last message by then.
    public var position: MessageSequence
    /// STO-1: the doze that the device is in, which more messages wait for the end of than may be stored.
    public var held: Absence?

    public init(number: UInt64, position: MessageSequence, held: Absence? = nil) {
        self.number = number
        self.position = position
        self.held = held
    }
}
