// SPDX-License-Identifier: Apache-2.0
//
// Results of the calls of `Broker`, as plain values. Rests on MartletBase.

public import MartletBase
import MartletCondition
import MartletEngine
import MartletRows
public import MartletWire

/// A project, as stored at the time of the call.
public struct ProjectSummary: Sendable, Hashable {
    /// ID of the project: 1 to 64 characters of `[a-z0-9-]`.
    public var id: String
    /// The numeric sender ID (REG-5), 12 digits.
    public var senderID: UInt64
    /// CON-3: limit of distinct topics in a condition.
    public var conditionTopicsMax: Int
    /// Registered instances.
    public var instanceCount: UInt64
    /// Topics with at least one subscriber.
    public var topicCount: UInt64
    /// FAN-2: share of capacity relative to other projects, 1 to 1000.
    public var weight: Int
    /// FAN-1: whether a message is deferred or refused while too many fanouts of the project are in progress.
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

/// A new server key with its secret. The broker stores only a digest, so the text is told here and never again.
public struct NewServerKey: Sendable, Hashable {
    /// ID of the key: the part of `text` before the dot.
    public var id: String
    /// `ID.SECRET`, as a sender presents the key.
    public var text: String
}

/// A server key without its secret.
public struct ServerKeySummary: Sendable, Hashable {
    /// ID of the key, by which `Broker.revokeServerKey(_:in:)` finds the key.
    public var id: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Instant at which the key was created.
    public var created: Instant
    /// True for a revoked key. A revoked key stays in the list, and senders with the key are refused.
    public var isRevoked: Bool
}

/// Credentials with which a new instance connects (REG-1). The device key is told here and never again.
public struct InstanceCredentials: Sendable, Hashable {
    /// Registration token, by which senders address the instance.
    public var token: String
    /// Secret with which the instance proves its identity to the broker.
    public var deviceKey: String

    /// Joins a token with the device key of its instance. `Broker.register(app:platform:in:)` makes both.
    public init(token: String, deviceKey: String) {
        self.token = token
        self.deviceKey = deviceKey
    }
}

/// An instance without its secrets (REG-1).
public struct InstanceSummary: Sendable, Hashable {
    /// Package name or bundle ID.
    public var app: String
    /// Platform of the app.
    public var platform: Platform
    /// Instant of the registration.
    public var registered: Instant
}

/// Result of a change of subscriptions (TOP-4).
public struct TopicChangeSummary: Sendable, Hashable {
    /// A failed token of the request. The other tokens are not affected.
    public struct Failure: Sendable, Hashable {
        /// Position in the request's list of tokens, from 0.
        public var index: Int
        /// Reason for the failure, such as `NOT_FOUND` or `TOO_MANY_TOPICS`.
        public var word: ErrorWord
    }

    /// Tokens whose subscription is now as requested.
    public var successCount: Int
    /// Failed tokens; empty if every token succeeded.
    public var failures: [Failure]
}

/// The answer to an accepted message (MSG-6).
public struct SendReceipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`; nil after `validateOnly`.
    public var messageID: String?
    /// Instances for which the message was accepted; 0 for a scheduled or deferred message.
    public var recipientCount: UInt64
    /// QUO-1: instances left out of the recipients, because their devices had too many messages.
    public var rateLimitedCount: UInt64
    /// STO-2: recipients for which the message was discarded at once, because the instance has not connected
    /// for more than 30 days.
    public var inactiveCount: UInt64
    /// FAN-1: place among the project's deferred messages, from 1. nil: the message is not deferred.
    public var deferredPlace: Int?
    /// GRP-5: results for the members of a group, or for the tokens among several targets. nil for any other
    /// target.
    public var tokens: TokenResults?
}

/// A group without the tokens of its members.
public struct GroupSummary: Sendable, Hashable {
    /// Name of the group, unique in the project.
    public var name: String
    /// The notification key, by which senders address the group.
    public var key: String
    /// Members, 1 to 20.
    public var memberCount: Int
}

/// A group with the tokens of its members (GRP-1).
public struct GroupDetails: Sendable, Hashable {
    /// Name of the group, unique in the project.
    public var name: String
    /// The notification key, by which senders address the group.
    public var key: String
    /// Tokens of the members, in the order of their joining. Empty: the group has ended (GRP-4).
    public var tokens: [String]
}

/// A message to many instances, in progress or deferred (FAN-8).
public struct FanoutSummary: Sendable, Hashable {
    /// ID of the project.
    public var project: String
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// The target of the message. A topic or condition is cut after 200 characters. Of several targets the
    /// first eight are listed.
    public var target: MessageTarget
    /// Start of the fanout. For a deferred message: the instant of acceptance, or the instant for which the
    /// message was scheduled.
    public var since: Instant
    /// Place among the project's deferred messages, from 1. nil: the fanout is in progress.
    public var deferredPlace: Int?
    /// Recipients; 0 for a deferred message, because the audience is resolved when the fanout begins.
    public var recipientCount: UInt64
    /// Messages queued for connections. A recipient without a connection gets the message from the mailbox.
    public var deliveredCount: UInt64
    /// Finished part of the fanout, 0 to 1.
    public var progress: Double
    /// Mean number of deliveries per second since the start of the fanout.
    public var deliveriesPerSecond: Double
    /// Part of all capacity, 0 to 1, as long as no fanout begins or ends.
    public var share: Double
    /// Estimated seconds to the end, at the speed so far. nil: unknown.
    public var secondsLeft: Double?
}

/// The load of a broker by one project.
public struct ProjectStatus: Sendable, Hashable {
    /// ID of the project.
    public var project: String
    /// FAN-2: share of capacity relative to other projects, 1 to 1000.
    public var weight: Int
    /// Connected instances. Each loop counts once a second.
    public var connectionCount: Int
    /// Messages that fanouts queued for connections since the broker was opened. Each loop counts once a
    /// second.
    public var deliveredCount: UInt64
    /// FAN-1: fanouts in progress.
    public var fanoutsInProgress: Int
    /// FAN-1: messages that wait until their fanouts may begin.
    public var fanoutsDeferred: Int
    /// Bytes held for the fanouts in progress.
    public var fanoutBytes: Int
    /// Bytes of frames that wait to be sent to the project's connections.
    public var frameBytes: Int
    /// Bytes of unanswered requests of the project's connections, and of frames that have not arrived whole.
    public var requestBytes: Int
    /// Part of all capacity, 0 to 1.
    public var share: Double
}

/// The result of a cancellation (MSG-10).
public struct CancelSummary: Sendable, Hashable {
    /// Whether the message was still scheduled or deferred, so no instance had been sent the message.
    public var wasScheduled: Bool
    /// Recipients that had acknowledged the message before the cancellation.
    public var deliveredCount: UInt64
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
}

/// A message of a device to its project (UPS-1).
public struct DeviceMessage: Sendable, Hashable {
    /// Number among the messages of the project's devices. A message that comes twice keeps its number.
    public var number: UInt64
    /// The last known token of the sending instance.
    public var token: String
    /// The device's app: package name or bundle ID.
    public var app: String
    /// Message ID chosen by the device.
    public var messageID: String
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// End of the message's life. A now-or-never message expires at `accepted`.
    public var expires: Instant
    /// Data of the message, with distinct keys. A message of a device has no other contents.
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

    /// The value of a data key; nil if the message does not have the key.
    public subscript(key: String) -> String? { data.first { $0.key == key }?.value }
}

/// A topic and the number of its subscribers (TOP-9).
public struct TopicSummary: Sendable, Hashable {
    /// Name of the topic, without `/topics/`.
    public var name: String
    /// Subscribed instances, at least 1.
    public var subscriberCount: UInt64
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

    init(_ amount: QuotaAmount) {
        name = amount.name
        limit = amount.limit
        remaining = amount.remaining
        untilFullMilliseconds = amount.untilFullMilliseconds
    }
}

/// A page of a list. The call that returned the page takes `next` as `after` and returns the following page.
public struct ListPage<Element: Sendable>: Sendable {
    /// Entries of the page, in the order of the list.
    public var entries: [Element]
    /// Cursor of the next page; nil at the end of the list.
    public var next: String?
}

/// CON-8: the exact number of instances selected by a condition.
public struct AudienceSummary: Sendable, Hashable {
    /// An app with at least one selected instance.
    public struct AppCount: Sendable, Hashable {
        /// Package name or bundle ID.
        public var app: String
        /// Platform of the app.
        public var platform: Platform
        /// Selected instances of the app, at least 1.
        public var count: UInt64
    }

    /// Selected instances over all apps.
    public var total: UInt64
    /// Selected instances of each platform; platforms without a selected instance are left out.
    public var perPlatform: [Platform: UInt64]
    /// Selected instances of each app; apps without a selected instance are left out.
    public var perApp: [AppCount]

    init(_ audience: Audience) {
        total = audience.total
        perPlatform = audience.perPlatform
        perApp = audience.perApp.map {
            AppCount(app: $0.app.name, platform: $0.app.platform, count: $0.count)
        }
    }
}

/// CON-9: the parts of a condition.
public struct ConditionExplanation: Sendable, Hashable {
    /// A sub-expression of the condition with its audience.
    public struct Part: Sendable, Hashable {
        /// The sub-expression in normal form.
        public var text: String
        /// Range of the sub-expression in the UTF-8 bytes of the condition.
        public var byteRange: Range<Int>
        /// Depth below the whole condition, from 0.
        public var depth: Int
        /// Instances selected by the sub-expression.
        public var count: UInt64
    }

    /// A construct that is legal but probably a mistake, such as a topic without subscribers.
    public struct Advice: Sendable, Hashable {
        /// Place of the construct in the UTF-8 bytes of the condition, from 0.
        public var byteOffset: UInt32
        /// A sentence for people about the probable mistake.
        public var message: String
    }

    /// The condition with parentheses that show the order of evaluation.
    public var normalForm: String
    /// The sub-expressions, from the whole condition down.
    public var parts: [Part]
    /// Instructions of the compiled condition as text, one per element.
    public var bytecode: [String]
    /// Probable mistakes, in the order of their byte offsets; empty if none was found.
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

/// Counters since the broker was opened, and gauges of this moment.
public struct BrokerStatistics: Sendable, Hashable {
    /// Open connections of all loops.
    public var connectionCount = 0
    /// Accepted messages of senders. Validated messages and repeated messages count too.
    public var acceptedCount: UInt64 = 0
    /// Messages queued for connections.
    public var deliveredCount: UInt64 = 0
    /// Acknowledgements of devices. An acknowledgement may cover several messages.
    public var acknowledgedCount: UInt64 = 0
    /// How often a session could not keep up and continued from its mailbox (FAN-6).
    public var fellBehindCount: UInt64 = 0
    /// Sends handed to the kernel. A send may carry several messages to a connection.
    public var sendCallCount: UInt64 = 0
    /// Connections ended for a violation of the protocol (NET-3).
    public var protocolViolationCount: UInt64 = 0
    /// How often accepting connections had to pause.
    public var acceptFailureCount: UInt64 = 0
    /// Commands that wait in the committer's inbox.
    public var commandsWaiting = 0
    /// Bytes held for frames that wait to be sent.
    public var frameBytes = 0
    /// Bytes of unanswered requests, and of frames that have not arrived whole.
    public var requestBytes = 0
    /// NET-6: the part of `requestBytes` that peers without a credential hold.
    public var strangerBytes = 0
    /// Peers without a credential that were turned away for a bound by address or on their memory, since the broker
    /// was opened.
    public var turnedAwayCount: UInt64 = 0
    /// Bytes of the store's file in use; 0 after the broker is closed.
    public var storeBytesUsed = 0
    /// Bytes allocated by the process, over all its brokers; nil without jemalloc.
    public var allocatedBytes: Int?

    /// Statistics with all counts 0. `Broker.statistics` has the present values.
    public init() {}
}
