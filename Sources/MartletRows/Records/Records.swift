// SPDX-License-Identifier: Apache-2.0
//
// The records of the store as values: projects, keys, apps, instances, topics, messages. Rests on MartletBase and
// MartletBits.

public import MartletBase
public import MartletBits

/// A tenant and its counters.
public struct Project: Sendable, Hashable {
    public var number: ProjectNumber
    public var id: String
    /// The numeric sender ID (REG-5).
    public var senderID: UInt64
    /// CON-3: the number of distinct topics allowed in one condition.
    public var conditionTopicsMax: Int
    /// FAN-2: the project's share beside the shares of other projects, 1 to 1000.
    public var weight: Int
    /// FAN-1: whether messages past the bound of fanouts are deferred or refused.
    public var overload: OverloadPolicy
    /// The sequence of the last accepted stored message.
    public var lastSequence: MessageSequence
    public var instanceCount: UInt64
    public var topicCount: UInt64
    /// REP-1: the number of messages that have a report.
    public var reportCount: UInt64
    /// The first message whose report can still exist. Earlier reports were removed.
    public var reportsFrom: MessageSequence
    /// The lowest ordinal that was never issued.
    public var nextOrdinal: Ordinal
    public var nextTopic: TopicNumber
    public var nextApp: AppNumber

    public init(
        number: ProjectNumber, id: String, senderID: UInt64, conditionTopicsMax: Int,
        weight: Int = 1, overload: OverloadPolicy = .defer,
        lastSequence: MessageSequence = .none, instanceCount: UInt64 = 0, topicCount: UInt64 = 0,
        reportCount: UInt64 = 0, reportsFrom: MessageSequence = .none,
        nextOrdinal: Ordinal = Ordinal(0), nextTopic: TopicNumber = TopicNumber(0),
        nextApp: AppNumber = AppNumber(0)
    ) {
        self.number = number
        self.id = id
        self.senderID = senderID
        self.conditionTopicsMax = conditionTopicsMax
        self.weight = weight
        self.overload = overload
        self.lastSequence = lastSequence
        self.instanceCount = instanceCount
        self.topicCount = topicCount
        self.reportCount = reportCount
        self.reportsFrom = reportsFrom
        self.nextOrdinal = nextOrdinal
        self.nextTopic = nextTopic
        self.nextApp = nextApp
    }
}

/// A server key (REG-5). The creation request returns the secret once; only its digest is kept.
public struct ServerKey: Sendable {
    public var id: String
    public var project: ProjectNumber
    public var name: String
    public var digest: SecretDigest
    public var created: Instant
    public var isRevoked: Bool

    public init(
        id: String, project: ProjectNumber, name: String, digest: SecretDigest, created: Instant,
        isRevoked: Bool
    ) {
        self.id = id
        self.project = project
        self.name = name
        self.digest = digest
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// A service-account key (REG-5), for the check of a sender's assertions.
public struct ServiceAccountKey: Sendable {
    public var id: String
    public var project: ProjectNumber
    public var name: String
    public var clientEmail: String
    /// SubjectPublicKeyInfo, in DER.
    public var publicKey: [UInt8]
    public var created: Instant
    public var isRevoked: Bool

    public init(
        id: String, project: ProjectNumber, name: String, clientEmail: String,
        publicKey: [UInt8], created: Instant, isRevoked: Bool
    ) {
        self.id = id
        self.project = project
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// An application of a project: one name on one platform.
public struct App: Sendable, Hashable {
    public var number: AppNumber
    public var platform: Platform
    public var name: String

    public init(number: AppNumber, platform: Platform, name: String) {
        self.number = number
        self.platform = platform
        self.name = name
    }
}

/// One installed copy of an app.
public struct Instance: Sendable {
    public var project: ProjectNumber
    public var ordinal: Ordinal
    public var token: Token
    /// REG-4: the earlier tokens, the latest last, at most `Limits.formerTokensMax`.
    public var formerTokens: [Token]
    public var keyDigest: SecretDigest
    public var app: AppNumber
    public var platform: Platform
    public var registered: Instant
    /// The project's last sequence at registration. A message up to this sequence can only be for a former holder of
    /// the ordinal.
    public var registeredBehind: MessageSequence

    public init(
        project: ProjectNumber, ordinal: Ordinal, token: Token, formerTokens: [Token] = [],
        keyDigest: SecretDigest, app: AppNumber, platform: Platform, registered: Instant,
        registeredBehind: MessageSequence = .none
    ) {
        self.project = project
        self.ordinal = ordinal
        self.token = token
        self.formerTokens = formerTokens
        self.keyDigest = keyDigest
        self.app = app
        self.platform = platform
        self.registered = registered
        self.registeredBehind = registeredBehind
    }
}

/// Identifies one of the successive holders of an ordinal. Ordinals are used again, so a command that may arrive late
/// names the holder beside the ordinal.
public struct Holder: Sendable, Hashable {
    /// The first eight bytes of the device key's digest. They stay with the instance, and no two instances share
    /// them.
    package let word: UInt64

    package init(word: UInt64) { self.word = word }

    /// - Parameter digestStart: the first eight bytes of the device key's digest, big-endian.
    public init(digestStart: UInt64) { word = digestStart }

    public init(keyDigest: SecretDigest) {
        word = keyDigest.firstWord
    }
}

extension Instance {
    @inlinable public var holder: Holder { Holder(keyDigest: keyDigest) }
}

/// A topic with at least one subscriber.
public struct Topic: Sendable, Hashable {
    public var number: TopicNumber
    public var name: TopicName
    public var subscriberCount: UInt64

    public init(number: TopicNumber, name: TopicName, subscriberCount: UInt64) {
        self.number = number
        self.name = name
        self.subscriberCount = subscriberCount
    }
}

/// A set of instances of one project that the store keeps as blocks of bits.
public enum InstanceSet: Sendable, Hashable {
    case topic(TopicNumber)
    /// All registered instances: `!` selects from this set (CON-4).
    case everyone
    case platform(Platform)
    case app(AppNumber)
    /// STO-2: the instances that have not connected for longer than the limit.
    case inactive
}

/// The fields that are equal for all recipients of one variant of a message.
public struct MessageHeader: Sendable, Hashable {
    public var sequence: MessageSequence
    /// The number in the message ID; see `StoredMessage`.
    public var number: UInt64
    public var accepted: Instant
    public var expires: Instant
    public var kind: TargetKind
    public var priority: MessagePriority
    public var isCollapsible: Bool
    /// RCP-1: the sender asked for receipts.
    public var wantsReceipts: Bool
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String

    public init(
        sequence: MessageSequence, number: UInt64, accepted: Instant, expires: Instant,
        kind: TargetKind, priority: MessagePriority, isCollapsible: Bool = false,
        wantsReceipts: Bool = false, from: String
    ) {
        self.sequence = sequence
        self.number = number
        self.accepted = accepted
        self.expires = expires
        self.kind = kind
        self.priority = priority
        self.isCollapsible = isCollapsible
        self.wantsReceipts = wantsReceipts
        self.from = from
    }

    @inlinable public var lane: Lane { Lane(priority, isCollapsible: isCollapsible) }
}

extension StoredMessage {
    /// The header for the recipients of a variant.
    public func header(of variant: MessageVariant) -> MessageHeader {
        MessageHeader(
            sequence: sequence, number: number, accepted: accepted, expires: variant.expires,
            kind: kind, priority: variant.priority, isCollapsible: variant.collapse != .none,
            wantsReceipts: wantsReceipts, from: from)
    }
}

/// The kinds of numbers that are issued again after the last row with the number is gone.
public enum FreeNumberKind: UInt8, Sendable {
    case ordinal = 1
    case topic = 2
}

/// The recipients of a message.
public enum Recipients: Sendable {
    case one(Ordinal)
    case many(RecipientSet)

    @inlinable public var count: UInt64 {
        switch self {
        case .one: 1
        case .many(let set): UInt64(set.count)
        }
    }
}
