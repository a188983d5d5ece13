// SPDX-License-Identifier: Apache-2.0
//
// What the calls of `Broker` answer. Plain values. Rests on MartletBase.

public import MartletBase
import MartletCondition
import MartletEngine
import MartletRows
public import MartletWire

/// A project as it is now.
public struct ProjectSummary: Sendable, Hashable {
    public var id: String
    /// The numeric sender ID (REG-5), 12 digits.
    public var senderID: UInt64
    /// CON-3: distinct topics allowed in one condition.
    public var conditionTopicsMax: Int
    public var instanceCount: UInt64
    public var topicCount: UInt64
    /// FAN-2: its share beside those of others, 1 to 1000.
    public var weight: Int
    /// FAN-1.
    public var overload: OverloadPolicy

    init(_ project: Project) {
        id = project.id
        senderID = project.senderID
        conditionTopicsMax = project.conditionTopicsMax
        instanceCount = project.instanceCount
        topicCount = project.topicCount
        weight = project.weight
        overload = project.overload
    }
}

/// A new server key. The text is told this once and kept nowhere.
public struct NewServerKey: Sendable, Hashable {
    public var id: String
    public var text: String
}

/// A server key without its secret.
public struct ServerKeySummary: Sendable, Hashable {
    public var id: String
    public var name: String
    public var created: Instant
    public var isRevoked: Bool
}

/// What a new instance needs to connect (REG-1). The device key is told this once.
public struct InstanceCredentials: Sendable, Hashable {
    public var token: String
    public var deviceKey: String

    public init(token: String, deviceKey: String) {
        self.token = token
        self.deviceKey = deviceKey
    }
}

/// An instance without its secrets (REG-1).
public struct InstanceSummary: Sendable, Hashable {
    /// A package name or bundle ID.
    public var app: String
    public var platform: Platform
    public var registered: Instant
}

/// How a change of subscriptions went (TOP-4).
public struct TopicChangeSummary: Sendable, Hashable {
    public struct Failure: Sendable, Hashable {
        /// In the request's list.
        public var index: Int
        public var word: ErrorWord
    }

    public var successCount: Int
    public var failures: [Failure]
}

/// An accepted message (MSG-6).
public struct SendReceipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`; nil after `validateOnly`.
    public var messageID: String?
    /// Instances that the message was accepted for; 0 for one that is scheduled, or deferred.
    public var recipientCount: UInt64
    /// QUO-1: instances that are not among them, because their device had too many messages.
    public var rateLimitedCount: UInt64
    /// STO-2: those of the recipients for which it was discarded at once, because they have not
    /// connected for more than 30 days.
    public var inactiveCount: UInt64
    /// FAN-1: its place among the project's messages that wait until others have ended; nil: it does
    /// not.
    public var deferredPlace: Int?
    /// GRP-5: what became of a group's members, or of the tokens among several targets; nil for any
    /// other target.
    public var tokens: TokenResults?
}

/// A group without its members' tokens.
public struct GroupSummary: Sendable, Hashable {
    public var name: String
    /// The notification key: what is sent to.
    public var key: String
    public var memberCount: Int
}

/// A group (GRP-1).
public struct GroupDetails: Sendable, Hashable {
    public var name: String
    /// The notification key: what is sent to.
    public var key: String
    /// In the order in which they joined; none: the group is no more (GRP-4).
    public var tokens: [String]
}

/// A message on its way to many instances, or one that waits to be (FAN-8).
public struct FanoutSummary: Sendable, Hashable {
    public var project: String
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// A long condition is cut, and of many targets the first ones are told.
    public var target: MessageTarget
    /// When it began; when it was accepted if it waits.
    public var since: Instant
    /// Its place among those of its project that wait; nil: it is in progress.
    public var deferredPlace: Int?
    public var recipientCount: UInt64
    /// Messages that were queued for a connection. Who is not connected gets it from the mailbox.
    public var deliveredCount: UInt64
    /// 0 to 1.
    public var progress: Double
    /// Since it began.
    public var deliveriesPerSecond: Double
    /// 0 to 1: the part of all capacity that is its own while nothing begins or ends.
    public var share: Double
    /// If it goes on as so far; nil: not known.
    public var secondsLeft: Double?
}

/// What a broker has to do for one project.
public struct ProjectStatus: Sendable, Hashable {
    public var project: String
    public var weight: Int
    /// As of the last second, as the next.
    public var connectionCount: Int
    /// Messages that its fanouts brought to connections since the broker was opened.
    public var deliveredCount: UInt64
    public var fanoutsInProgress: Int
    public var fanoutsDeferred: Int
    /// Bytes held for those in progress.
    public var fanoutBytes: Int
    /// Bytes of frames that wait to be sent to its connections.
    public var frameBytes: Int
    /// Bytes of what its connections have asked and was not answered yet.
    public var requestBytes: Int
    /// 0 to 1: the part of all capacity that is its own.
    public var share: Double
}

/// A message that was cancelled (MSG-10).
public struct CancelSummary: Sendable, Hashable {
    /// Nobody had been sent it yet.
    public var wasScheduled: Bool
    /// Instances that have it already.
    public var deliveredCount: UInt64
}

/// What became of a message on a device (RCP-2).
public struct DeliveryReceipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// The instance that told, by its token at that time.
    public var token: String
    public var kind: ReceiptKind
    /// When the broker got it.
    public var instant: Instant
}

/// What a device sent to its project (UPS-1).
public struct DeviceMessage: Sendable, Hashable {
    /// Its place among the messages of the project's devices. Whatever comes twice has the same.
    public var number: UInt64
    /// The instance that sent it, by the last token that is known.
    public var token: String
    /// The device's application: a package name or bundle ID.
    public var app: String
    /// The device's own.
    public var messageID: String
    public var accepted: Instant
    /// The same as `accepted` if it was for now or never.
    public var expires: Instant
    public var data: [Message.DataEntry]

    init(_ message: UpstreamMessage) throws(MartletError) {
        number = message.number
        token = message.token.text
        app = message.appName
        messageID = message.messageID
        accepted = message.accepted
        expires = message.expires
        do throws(WireError) {
            data = try Message(decoding: message.body, unknownTags: .skip).data
        } catch {
            throw error.martletError
        }
    }

    /// The value of a data key.
    public subscript(key: String) -> String? { data.first { $0.key == key }?.value }
}

/// A topic and its subscribers (TOP-9).
public struct TopicSummary: Sendable, Hashable {
    public var name: String
    public var subscriberCount: UInt64
}

/// What is left of one of a project's quotas (QUO-3, QUO-4).
public struct QuotaSummary: Sendable, Hashable {
    /// As its limit is called on the command line: `topic-changes-per-second`.
    public var name: String
    public var limit: UInt64
    public var remaining: UInt64
    /// How long until all of it is there again, if nobody takes any; nil where nobody can know.
    public var untilFullMilliseconds: UInt64?

    init(_ amount: QuotaAmount) {
        name = amount.name
        limit = amount.limit
        remaining = amount.remaining
        untilFullMilliseconds = amount.untilFullMilliseconds
    }
}

/// One page of a list.
public struct ListPage<Element: Sendable>: Sendable {
    public var entries: [Element]
    /// What to ask for the next page with; nil at the end.
    public var next: String?
}

/// CON-8: exactly how many instances a condition selects.
public struct AudienceSummary: Sendable, Hashable {
    public struct AppCount: Sendable, Hashable {
        public var app: String
        public var platform: Platform
        public var count: UInt64
    }

    public var total: UInt64
    public var perPlatform: [Platform: UInt64]
    public var perApp: [AppCount]

    init(_ audience: Audience) {
        total = audience.total
        perPlatform = audience.perPlatform
        perApp = audience.perApp.map {
            AppCount(app: $0.app.name, platform: $0.app.platform, count: $0.count)
        }
    }
}

/// CON-9: a condition taken apart.
public struct ConditionExplanation: Sendable, Hashable {
    public struct Part: Sendable, Hashable {
        /// The sub-expression in normal form.
        public var text: String
        /// Its bytes in the condition.
        public var byteRange: Range<Int>
        public var depth: Int
        /// Instances it selects.
        public var count: UInt64
    }

    public struct Advice: Sendable, Hashable {
        public var byteOffset: UInt32
        public var message: String
    }

    public var normalForm: String
    /// From the whole condition down.
    public var parts: [Part]
    public var bytecode: [String]
    public var advice: [Advice]

    init(_ explanation: MartletCondition.Explanation) {
        normalForm = explanation.normalForm
        parts = explanation.parts.map {
            Part(text: $0.text, byteRange: $0.byteRange, depth: $0.depth, count: $0.count)
        }
        bytecode = explanation.bytecode
        advice = explanation.lints.map {
            Advice(byteOffset: $0.byteOffset, message: $0.message)
        }
    }
}

/// What a broker does at this moment, and did since it was opened.
public struct BrokerStatistics: Sendable, Hashable {
    public var connectionCount = 0
    /// Messages of senders, those that were only checked and those that were told again too.
    public var acceptedCount: UInt64 = 0
    public var deliveredCount: UInt64 = 0
    public var acknowledgedCount: UInt64 = 0
    /// How often a session could not keep up and went on from its mailbox (FAN-6).
    public var fellBehindCount: UInt64 = 0
    public var sendCallCount: UInt64 = 0
    /// Connections that were ended for breaking the protocol (NET-3).
    public var protocolViolationCount: UInt64 = 0
    /// Times that no connection could be accepted.
    public var acceptFailureCount: UInt64 = 0
    /// Commands that wait to be written.
    public var commandsWaiting = 0
    /// Bytes of frames that wait to be sent.
    public var frameBytes = 0
    /// Bytes of what was asked and not answered yet, and of frames that have not arrived whole.
    public var requestBytes = 0
    public var storeBytesUsed = 0
    /// Bytes that the process has allocated, over all its brokers; nil without jemalloc.
    public var allocatedBytes: Int?

    public init() {}
}
