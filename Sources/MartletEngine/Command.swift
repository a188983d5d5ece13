// SPDX-License-Identifier: Apache-2.0
//
// What can be asked of the engine, and what comes of it. Commands change state and go through the
// one writer; questions are in Queries. Everything random or secret was made at the edge, so the
// same commands always lead to the same state. Rests on the records.

public import MartletBase

/// A change of state.
public enum Command: Sendable {
    case createProject(id: String, senderID: UInt64, conditionTopicsMax: Int)
    case createKey(project: String, key: NewKey)
    case revokeKey(project: String, keyID: String)
    case register(NewInstance)
    /// With a holder, only while the ordinal is that one's; so below.
    case unregister(project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil)
    /// A device changes its own subscriptions (TOP-5).
    case changeTopics(
        project: ProjectNumber, ordinal: Ordinal, change: TopicOperation, topics: [String],
        holder: Holder? = nil)
    /// A sender changes one topic for many tokens (TOP-4).
    case changeTopic(
        project: ProjectNumber, topic: String, change: TopicOperation, tokens: [String])
    case send(project: ProjectNumber, message: SendCommand)
    case acknowledge([Acknowledgement])
}

/// A server key to be: ID, name and digest, made at the edge.
public struct NewKey: Sendable {
    public var id: String
    public var name: String
    public var digest: SecretDigest

    public init(id: String, name: String, digest: SecretDigest) {
        self.id = id
        self.name = name
        self.digest = digest
    }
}

/// An instance to be. Token and device key were made at the edge.
public struct NewInstance: Sendable {
    public var project: String
    public var app: String
    public var platform: Platform
    public var token: Token
    public var keyDigest: SecretDigest

    public init(
        project: String, app: String, platform: Platform, token: Token, keyDigest: SecretDigest
    ) {
        self.project = project
        self.app = app
        self.platform = platform
        self.token = token
        self.keyDigest = keyDigest
    }
}

/// A message to be sent. The body is a valid message in wire form; the engine looks no further.
public struct SendCommand: Sendable {
    public var target: Target
    public var body: [UInt8]
    /// nil: the default, 28 days (TTL-1).
    public var timeToLiveSeconds: UInt32?
    public var priority: MessagePriority
    /// MSG-7: check everything, send nothing.
    public var validateOnly: Bool

    /// Exactly one by construction (MSG-1).
    public enum Target: Sendable {
        case token(String)
        case topic(String)
        case condition(String)
    }

    public init(
        target: Target, body: [UInt8], timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority = .normal, validateOnly: Bool = false
    ) {
        self.target = target
        self.body = body
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.validateOnly = validateOnly
    }
}

/// What one instance has taken (TTL-4).
public struct Acknowledgement: Sendable {
    public var project: ProjectNumber
    public var ordinal: Ordinal
    public var through: MessageSequence
    /// Single stream IDs above `through`.
    public var single: [UInt64]

    public init(
        project: ProjectNumber, ordinal: Ordinal, through: MessageSequence, single: [UInt64] = []
    ) {
        self.project = project
        self.ordinal = ordinal
        self.through = through
        self.single = single
    }
}

/// What came of a command. Only true once the transaction it was applied in is committed.
public enum Outcome: Sendable {
    case project(Project)
    case key(ServerKey)
    case done
    case registered(Instance, Project)
    case unregistered(project: ProjectNumber, ordinal: Ordinal)
    case topicsChanged(TopicChangeResult)
    /// `fanout` is nil where nobody is to be reached or nothing was to be sent.
    case accepted(Acceptance, fanout: Fanout?)
    case refused(MartletError)
}

/// TOP-4: how a topic request went, item by item.
public struct TopicChangeResult: Sendable, Hashable {
    public struct Failure: Sendable, Hashable {
        public var index: Int
        public var word: ErrorWord

        public init(index: Int, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    public var successCount: Int
    public var failures: [Failure]

    public init(successCount: Int, failures: [Failure]) {
        self.successCount = successCount
        self.failures = failures
    }
}

/// MSG-6: what the sender is told.
public struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 after `validateOnly`.
    public var messageNumber: UInt64
    public var recipientCount: UInt64

    public init(messageNumber: UInt64, recipientCount: UInt64) {
        self.messageNumber = messageNumber
        self.recipientCount = recipientCount
    }
}

/// An accepted message, for the loops to deliver to those of its recipients that are connected.
public final class Fanout: Sendable {
    public let project: ProjectNumber
    public let header: MessageHeader
    public let body: [UInt8]
    public let recipients: Recipients
    /// The project's last sequence when the message was accepted; a stored message's own. Sessions
    /// that are further than this have nothing to do with the message.
    public let position: MessageSequence

    public init(
        project: ProjectNumber, header: MessageHeader, body: [UInt8], recipients: Recipients,
        position: MessageSequence
    ) {
        self.project = project
        self.header = header
        self.body = body
        self.recipients = recipients
        self.position = position
    }
}

extension MessageSequence {
    /// Marks numbers of messages that are not stored (TTL-2): they are no stream IDs to acknowledge.
    public static let notStoredBit: UInt64 = 1 << 63

    @inlinable public var isStored: Bool { rawValue & Self.notStoredBit == 0 }
}
