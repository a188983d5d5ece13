// SPDX-License-Identifier: Apache-2.0
//
// The records of the store as values: projects, keys, apps, instances, topics, messages. Rests on MartletBase and
// MartletBits.

public import MartletBase
public import MartletBits

/// A tenant and its counters.
public struct Project: Sendable, Hashable {
    /// Number of the project in keys of the store.
    public var number: ProjectNumber
    /// REG-1: ID for people and requests, 1 to 64 characters of `[a-z0-9-]`.
    public var id: String
    /// The numeric sender ID (REG-5).
    public var senderID: UInt64
    /// The limits that the project has of its own.
    public var limits: ProjectLimits
    /// FAN-2: the project's share beside the shares of other projects, 1 to 1000.
    public var weight: Int
    /// FAN-1: whether messages past the bound of fanouts are deferred or refused.
    public var overload: OverloadPolicy
    /// The sequence of the last accepted stored message.
    public var lastSequence: MessageSequence
    /// Registered instances.
    public var instanceCount: UInt64
    /// Topics with at least one subscriber.
    public var topicCount: UInt64
    /// REP-1: the number of messages that have a report.
    public var reportCount: UInt64
    /// The first message whose report can still exist. Earlier reports were removed.
    public var reportsFrom: MessageSequence
    /// The lowest ordinal that was never issued.
    public var nextOrdinal: Ordinal
    /// Lowest topic number that was never issued.
    public var nextTopic: TopicNumber
    /// Lowest app number that was never issued.
    public var nextApp: AppNumber
    /// REG-8: apps that take a place: all but those whose deletion is done.
    public var appCount: UInt32

    /// Makes a project. By default, the counters are those of a new project.
    public init(
        number: ProjectNumber, id: String, senderID: UInt64,
        limits: ProjectLimits = ProjectLimits(), weight: Int = 1, overload: OverloadPolicy = .defer,
        lastSequence: MessageSequence = .none, instanceCount: UInt64 = 0, topicCount: UInt64 = 0,
        reportCount: UInt64 = 0, reportsFrom: MessageSequence = .none,
        nextOrdinal: Ordinal = Ordinal(0), nextTopic: TopicNumber = TopicNumber(0),
        nextApp: AppNumber = AppNumber(0), appCount: UInt32 = 0
    ) {
        self.number = number
        self.id = id
        self.senderID = senderID
        self.limits = limits
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
        self.appCount = appCount
    }
}

extension Project {
    /// CON-3: distinct topics in one condition of the project.
    /// - Parameter broker: the broker's limits, for a project without a value of its own.
    package func conditionTopicsMax(_ broker: BrokerLimits) -> Int {
        limits[.topicsPerCondition] ?? broker.conditionTopicsMax
    }
}

/// A server key (REG-5). The creation request returns the secret once; only its digest is kept.
public struct ServerKey: Sendable {
    /// ID of the key.
    public var id: String
    /// Project that the key belongs to.
    public var project: ProjectNumber
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// REG-5: digest of the secret.
    public var digest: SecretDigest
    /// Creation of the key.
    public var created: Instant
    /// Whether the key is revoked. The record of a revoked key stays.
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
    /// REG-5: ID of the key.
    public var id: String
    /// Project that the key belongs to.
    public var project: ProjectNumber
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// REG-5: e-mail address of the service account.
    public var clientEmail: String
    /// SubjectPublicKeyInfo, in DER.
    public var publicKey: [UInt8]
    /// Creation of the key.
    public var created: Instant
    /// Whether the key is revoked. The record of a revoked key stays.
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
    /// Number of the app in the project, from 0 in the order of first registrations.
    public var number: AppNumber
    /// Platform of the app.
    public var platform: Platform
    /// REG-1: package name or bundle ID, 1 to 255 bytes.
    public var name: String

    public init(number: AppNumber, platform: Platform, name: String) {
        self.number = number
        self.platform = platform
        self.name = name
    }
}

/// One installed copy of an app.
public struct Instance: Sendable {
    /// Project of the instance.
    public var project: ProjectNumber
    /// Number of the instance in the project. After the instance leaves, another instance can get the number.
    public var ordinal: Ordinal
    /// REG-4: present token.
    public var token: Token
    /// REG-4: the earlier tokens, the latest last, at most `Limits.formerTokensMax`.
    public var formerTokens: [Token]
    /// REG-1: digest of the device key. The key itself is never stored.
    public var keyDigest: SecretDigest
    /// App of the instance.
    public var app: AppNumber
    /// Platform of the app.
    public var platform: Platform
    /// Registration of the instance.
    public var registered: Instant
    /// The project's last sequence at registration. A message up to this sequence can only be for a former holder of
    /// the ordinal.
    public var registeredBehind: MessageSequence

    /// Makes an instance. By default, the instance has no former tokens.
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

    /// The instance with the device key, as a holder.
    public init(keyDigest: SecretDigest) {
        word = keyDigest.firstWord
    }
}

extension Instance {
    /// Holder of the ordinal while the instance is registered.
    @inlinable public var holder: Holder { Holder(keyDigest: keyDigest) }
}

/// A topic with at least one subscriber.
public struct Topic: Sendable, Hashable {
    /// Number of the topic in the project. After the last subscriber leaves, another topic can get the number.
    public var number: TopicNumber
    /// Name of the topic.
    public var name: TopicName
    /// Subscribers. At least 1, because a topic without subscribers has no row.
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
    /// Position in the project's order of stored messages, or a number of a now-or-never message.
    public var sequence: MessageSequence
    /// The number in the message ID; see `StoredMessage`.
    public var number: UInt64
    /// Acceptance of the message.
    public var accepted: Instant
    /// End of the variant's time to live.
    public var expires: Instant
    /// Kind of the message's target.
    public var kind: TargetKind
    /// PRI-1: priority of the variant.
    public var priority: MessagePriority
    /// Whether the variant has a collapse key (COL-1).
    public var isCollapsible: Bool
    /// The options that the message has for all its recipients.
    public var options: MessageOptions
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String

    /// Makes a header. By default, the message is not collapsible and all options are off.
    public init(
        sequence: MessageSequence, number: UInt64, accepted: Instant, expires: Instant,
        kind: TargetKind, priority: MessagePriority, isCollapsible: Bool = false,
        options: MessageOptions = MessageOptions(), from: String
    ) {
        self.sequence = sequence
        self.number = number
        self.accepted = accepted
        self.expires = expires
        self.kind = kind
        self.priority = priority
        self.isCollapsible = isCollapsible
        self.options = options
        self.from = from
    }

    /// Lane in which recipients get the message.
    @inlinable public var lane: Lane { Lane(priority, isCollapsible: isCollapsible) }
}

extension StoredMessage {
    /// The header for the recipients of a variant.
    public func header(of variant: MessageVariant) -> MessageHeader {
        MessageHeader(
            sequence: sequence, number: number, accepted: accepted, expires: variant.expires,
            kind: kind, priority: variant.priority, isCollapsible: variant.collapse.isCollapsible,
            options: options, from: from)
    }
}

/// The kinds of numbers that are issued again after the last row with the number is gone.
public enum FreeNumberKind: UInt8, Sendable {
    case ordinal = 1
    case topic = 2
    case app = 3
}

/// The recipients of a message.
public enum Recipients: Sendable {
    case one(Ordinal)
    case many(RecipientSet)

    /// Number of recipients.
    @inlinable public var count: UInt64 {
        switch self {
        case .one: 1
        case .many(let set): UInt64(set.count)
        }
    }
}
