// SPDX-License-Identifier: Apache-2.0
//
// What can be asked of the engine, and what comes of it. Commands change state and go through the
// one writer; questions are in Queries. Everything random or secret was made at the edge, so the
// same commands always lead to the same state. Rests on the records.

public import MartletBase
public import MartletRows

/// A change of state. A command changes hands five times on its way, so its payload stays in one place.
public indirect enum Command: Sendable {
    case createProject(id: String, senderID: UInt64, conditionTopicsMax: Int)
    /// FAN-1, FAN-2, CON-3; nil: as it is.
    case changeProject(
        id: String, weight: Int? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: Int? = nil)
    case createKey(project: String, key: NewKey)
    case revokeKey(project: String, keyID: String)
    /// REG-5. The pair of keys was made where the private one stays.
    case createServiceAccount(project: String, key: NewServiceAccountKey)
    case revokeServiceAccount(project: String, keyID: String)
    case register(NewInstance)
    /// With a holder, only while the ordinal is that one's; so below.
    case unregister(project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil)
    /// REG-3: a sender unregisters whoever has the token.
    case unregisterToken(project: ProjectNumber, token: String)
    /// A device changes its own subscriptions (TOP-5).
    case changeTopics(
        project: ProjectNumber, ordinal: Ordinal, change: TopicOperation, topics: [String],
        holder: Holder? = nil)
    /// A sender changes one topic for many tokens (TOP-4), in one transaction or in several.
    case changeTopic(
        project: ProjectNumber, topic: String, change: TopicOperation, tokens: [String],
        progress: TopicChangeProgress = TopicChangeProgress())
    /// GRP-1. The key was made at the edge.
    case createGroup(project: ProjectNumber, name: String, key: GroupKey, tokens: [String])
    /// GRP-2: name and key must be those of one group.
    case changeGroup(
        project: ProjectNumber, name: String, key: String, change: GroupOperation,
        tokens: [String])
    case send(project: ProjectNumber, message: SendCommand)
    /// With what was sent since the last of them (REP-1).
    case acknowledge([Acknowledgement], sent: [SentCount] = [])
    /// STO-2: the instance has a connection. Told when that begins, and daily while it lasts.
    case connected(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, connection: ConnectionStart)
    /// REG-4: the instance goes by another token from now on; the old one is not registered any more.
    case rotate(project: ProjectNumber, ordinal: Ordinal, holder: Holder, token: Token)
    /// MSG-10: whoever has not got the message does not get it.
    case cancel(project: ProjectNumber, number: UInt64)
    /// RCP-2: a device tells what became of a message.
    case receipt(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, kind: ReceiptKind,
        streamID: UInt64)
    /// RCP-1: a sender has taken the project's receipts up to here.
    case takeReceipts(project: ProjectNumber, through: UInt64)
    /// UPS-1: a device sends to its project, or to a group of its own (GRP-7).
    case upstream(UpstreamCommand)
    /// UPS-1: senders have taken these messages of the project's devices.
    case takeUpstream(project: ProjectNumber, numbers: [UInt64])
    /// Writes what is there as it is: whether the store takes anything (OPS-12).
    case touch
    /// REP-1: what gathered of messages that are not stored (TTL-2).
    case count([DayCount])
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

/// A service-account key to be: its public half.
public struct NewServiceAccountKey: Sendable {
    public var id: String
    public var name: String
    public var clientEmail: String
    /// SubjectPublicKeyInfo, in DER. Judged where assertions are checked.
    public var publicKey: [UInt8]

    public init(id: String, name: String, clientEmail: String, publicKey: [UInt8]) {
        self.id = id
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
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

/// A message to be sent, as the edges have checked and merged it.
public struct SendCommand: Sendable {
    public var target: Target
    /// One to three, for disjoint platforms. Who is on none of them gets nothing.
    public var variants: [OutgoingVariant]
    /// MSG-7: check everything, send nothing.
    public var validateOnly: Bool
    /// RCP-1.
    public var wantsReceipts: Bool
    /// MSG-9.
    public var idempotencyKey: String?
    /// GW-8: which attempt of the gateway's this is; nil for senders of other kinds.
    public var attempt: SendAttempt?
    /// MSG-10: nil, or not after now: at once.
    public var sendAt: Instant?
    /// REP-2: only to those that an earlier message with this number was for and that have not got it.
    public var notReceived: UInt64?

    /// Exactly one by construction (MSG-1).
    public enum Target: Sendable, Hashable {
        case token(String)
        case topic(String)
        case condition(String)
        /// The group's key.
        case group(String)
        /// Targets of the other kinds: each instance that any of them means, once.
        case several([Target])
    }

    public init(
        target: Target, variants: [OutgoingVariant], validateOnly: Bool = false,
        wantsReceipts: Bool = false, idempotencyKey: String? = nil, sendAt: Instant? = nil,
        notReceived: UInt64? = nil
    ) {
        self.target = target
        self.variants = variants
        self.validateOnly = validateOnly
        self.wantsReceipts = wantsReceipts
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
    }

    /// The same for every platform.
    public init(
        target: Target, body: [UInt8], lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapse: CollapseKey = .none,
        validateOnly: Bool = false
    ) {
        self.init(
            target: target,
            variants: [
                OutgoingVariant(
                    lifespan: lifespan, priority: priority, collapse: collapse, body: body)
            ], validateOnly: validateOnly)
    }
}

/// What one instance has taken (TTL-4), and what is to be kept of its connection when that ends.
public struct Acknowledgement: Sendable {
    public struct Departure: Sendable, Hashable {
        public var connectionNumber: UInt64
        /// The project's last message that the connection could have brought: what comes behind is
        /// accepted while the instance is away (STO-1).
        public var position: MessageSequence
        public var throttleFull: Instant
        public var seen: Instant

        public init(
            connectionNumber: UInt64, position: MessageSequence, throttleFull: Instant,
            seen: Instant
        ) {
            self.connectionNumber = connectionNumber
            self.position = position
            self.throttleFull = throttleFull
            self.seen = seen
        }
    }

    /// The mailbox was read at some time, up to some message: what it did not hold any more by then was
    /// not delivered, although marks move past it.
    public struct Skipped: Sendable, Hashable {
        public var through: MessageSequence
        public var at: Instant

        public init(through: MessageSequence, at: Instant) {
            self.through = through
            self.at = at
        }
    }

    public var project: ProjectNumber
    public var ordinal: Ordinal
    /// Nothing happens if the ordinal is another's by now.
    public var holder: Holder?
    /// Everything up to here is acknowledged, lane by lane.
    public var through: LaneMarks
    /// Single stream IDs above their lane's mark, and of each acknowledged notice (STO-1): marks alone acknowledge
    /// messages, and no notice.
    public var single: [UInt64]
    /// Set when the connection has ended.
    public var departure: Departure?
    /// Set when something was passed over since that was told last.
    public var skipped: Skipped?
    /// Set for the list in HELLO: the project's last message at that time. The store decides on the discards of
    /// the absence (STO-1) before the list is applied.
    public var arrival: MessageSequence?

    public init(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil, through: LaneMarks,
        single: [UInt64] = [], departure: Departure? = nil, skipped: Skipped? = nil,
        arrival: MessageSequence? = nil
    ) {
        self.project = project
        self.ordinal = ordinal
        self.holder = holder
        self.through = through
        self.single = single
        self.departure = departure
        self.skipped = skipped
        self.arrival = arrival
    }
}

extension Command {
    /// Whether what comes of it depends on who has taken which message by then.
    public var asksWhoHas: Bool {
        switch self {
        case .cancel, .unregister, .unregisterToken: true
        default: false
        }
    }
}

/// What came of a command. Only true once the transaction it was applied in is committed. The cases that
/// are rare and large lie apart: outcomes are moved from thread to thread.
public enum Outcome: Sendable {
    indirect case project(Project)
    indirect case key(ServerKey)
    case done
    indirect case registered(Instance, Project)
    case unregistered(project: ProjectNumber, ordinal: Ordinal, holder: Holder)
    case topicsChanged(TopicChangeResult)
    /// GRP-1, GRP-2: the group as it is now; without members it is no more.
    case group(GroupMembers)
    /// A fanout for each variant that reaches somebody; where these are few, one for each of them.
    case accepted(Acceptance, fanouts: [Fanout])
    /// REG-4.
    indirect case rotated(Token)
    /// MSG-10. The sequences to stop delivering: the message's, if it had one by then.
    case cancelled(project: ProjectNumber, number: UInt64, sequence: MessageSequence?)
    /// RCP-2: kept for the project's senders; nil: nobody asked for it, or it was told before.
    case receiptKept(ProjectNumber?)
    /// GRP-7: what is for a group is a message to its other members.
    indirect case upstreamAccepted(UpstreamAcceptance, fanouts: [Fanout])
    case upstreamTaken(ProjectNumber, numbers: [UInt64])
    /// A part of it is done. This is the rest, for another transaction: what comes of that came of it.
    case unfinished(Command)
    indirect case refused(MartletError)
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

/// TOP-4: how far a request has come that is applied in several transactions. Its project's later
/// commands wait for its end; what a crash leaves of it was not answered, and the request may be repeated.
public struct TopicChangeProgress: Sendable, Hashable {
    /// Tokens that earlier transactions dealt with.
    public var doneCount = 0
    /// What came of those.
    public var result = TopicChangeResult(successCount: 0, failures: [])
    /// In which order the tokens are dealt with; empty: in their own.
    public var order: [UInt16] = []
    /// Tokens of one transaction.
    public var stepMax = Int.max

    public init() {}
}

/// MSG-6: what the sender is told.
public struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 after `validateOnly`.
    public var messageNumber: UInt64
    /// 0 for a message that is scheduled, or deferred.
    public var recipientCount: UInt64
    /// QUO-1: instances that would have been recipients but for their device's quota.
    public var rateLimitedCount: UInt64
    /// STO-2: recipients for which it was discarded at once.
    public var inactiveCount: UInt64
    /// FAN-1: its place among the project's messages that wait until others have ended; 0: it does
    /// not.
    public var deferredPlace: UInt64
    public var named: NamedResults

    public init(
        messageNumber: UInt64, recipientCount: UInt64, rateLimitedCount: UInt64 = 0,
        inactiveCount: UInt64 = 0, deferredPlace: UInt64 = 0, named: NamedResults = .none
    ) {
        self.messageNumber = messageNumber
        self.recipientCount = recipientCount
        self.rateLimitedCount = rateLimitedCount
        self.inactiveCount = inactiveCount
        self.deferredPlace = deferredPlace
        self.named = named
    }
}

/// What became of the instances that a message's target names one by one.
public enum NamedResults: Sendable, Hashable {
    /// It names none, or one.
    case none
    /// GRP-5: the members of a group; of a message that is scheduled nobody, for they are those of then.
    case group(successCount: Int, failures: [GroupFailure])
    /// The tokens among several targets, by their index among all of these. Of a message that waits, as
    /// it is when it is accepted.
    case tokens(successCount: Int, failures: [TopicChangeResult.Failure])

    public struct GroupFailure: Sendable, Hashable {
        public var token: Token
        public var word: ErrorWord

        public init(token: Token, word: ErrorWord) {
            self.token = token
            self.word = word
        }
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
    /// FAN-2: the project's share beside those of others.
    public let weight: Int
    /// FAN-1: who is to be told how far it is; nil for a message to one instance.
    public let progress: FanoutProgress?

    public init(
        project: ProjectNumber, header: MessageHeader, body: [UInt8], recipients: Recipients,
        position: MessageSequence, weight: Int = 1, progress: FanoutProgress? = nil
    ) {
        self.project = project
        self.header = header
        self.body = body
        self.recipients = recipients
        self.position = position
        self.weight = weight
        self.progress = progress
    }
}

extension MessageSequence {
    /// Marks numbers of messages that are not stored (TTL-2): they are no stream IDs to acknowledge.
    public static let notStoredBit: UInt64 = 1 << 63

    @inlinable public var isStored: Bool { rawValue & Self.notStoredBit == 0 }
}
