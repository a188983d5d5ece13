// SPDX-License-Identifier: Apache-2.0
//
// Commands to the engine, and their outcomes. Commands change state and are applied by the one writer; questions are
// in Queries. Random values and secrets are made before a command reaches the engine, so equal commands always lead
// to equal states. Rests on the records.

public import MartletBase
public import MartletRows

/// A change of state. The enum is indirect, because a command changes hands five times on its way and the payload
/// then stays in place.
public indirect enum Command: Sendable {
    /// REG-7: creates a project with a registration policy. `key` is the project's first registration key.
    case createProject(
        id: String, senderID: UInt64, conditionTopicsMax: Int,
        registration: RegistrationPolicy = .key, key: NewKey? = nil)
    /// FAN-1, FAN-2, CON-3: changes the settings of a project. nil leaves a setting unchanged.
    case changeProject(
        id: String, weight: Int? = nil, overload: OverloadPolicy? = nil,
        conditionTopicsMax: Int? = nil)
    case createKey(project: String, key: NewKey)
    case revokeKey(project: String, keyID: String)
    /// REG-5: adds the public key of a service account. The key pair is made where the private key stays.
    case createServiceAccount(project: String, key: NewServiceAccountKey)
    case revokeServiceAccount(project: String, keyID: String)
    /// REG-7, REG-8: changes a project's policies, keys or apps.
    case changeRegistry(project: String, RegistryChange)
    case register(NewInstance)
    /// Unregisters an instance. With a holder, the command applies only while the ordinal belongs to the holder.
    case unregister(project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil)
    /// REG-3: a sender unregisters the instance that has the token.
    case unregisterToken(project: ProjectNumber, token: String)
    /// TOP-5: a device changes its own subscriptions. With a holder, the command applies only while the ordinal
    /// belongs to the holder.
    case changeTopics(
        project: ProjectNumber, ordinal: Ordinal, change: TopicOperation, topics: [String],
        holder: Holder? = nil)
    /// TOP-4: a sender changes one topic for many tokens, in one transaction or in several.
    case changeTopic(
        project: ProjectNumber, topic: String, change: TopicOperation, tokens: [String],
        progress: TopicChangeProgress = TopicChangeProgress())
    /// GRP-1: makes a group. The broker makes the key before the command reaches the engine.
    case createGroup(project: ProjectNumber, name: String, key: GroupKey, tokens: [String])
    /// GRP-2: changes a group. `name` and `key` must belong to the same group.
    case changeGroup(
        project: ProjectNumber, name: String, key: String, change: GroupOperation,
        tokens: [String])
    case send(project: ProjectNumber, message: SendCommand)
    /// TTL-4, REP-1: acknowledgements of a loop's devices, with the counts of messages that the loop queued since its
    /// last report.
    case acknowledge([Acknowledgement], sent: [SentCount] = [])
    /// STO-2: an instance has a connection. The loop sends the command at the beginning of the connection, and daily
    /// while the connection lasts.
    case connected(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, connection: ConnectionStart)
    /// REG-4: gives an instance a new token. The old token becomes a former token.
    case rotate(project: ProjectNumber, ordinal: Ordinal, holder: Holder, token: Token)
    /// MSG-10: cancels a message for all recipients that have not acknowledged it.
    case cancel(project: ProjectNumber, number: UInt64)
    /// RCP-2: a device reports a receipt of a message.
    case receipt(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder, kind: ReceiptKind,
        streamID: UInt64)
    /// RCP-1: a sender has taken the project's receipts up to and including event `through`.
    case takeReceipts(project: ProjectNumber, through: UInt64)
    /// UPS-1, GRP-7: a device sends to its project, or to a group that the device belongs to.
    case upstream(UpstreamCommand)
    /// UPS-1: senders have acknowledged messages of the project's devices.
    case takeUpstream(project: ProjectNumber, numbers: [UInt64])
    /// OPS-12: writes an existing row unchanged, to test whether the store accepts writes.
    case touch
    /// REP-1, TTL-2: counts of messages that are not stored.
    case count([DayCount])
}

/// A server key or registration key to be created. The broker makes ID and digest.
public struct NewKey: Sendable {
    /// ID of the key, made by the broker.
    public var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// REG-5: digest of the secret. The broker returns the secret once and keeps only the digest.
    public var digest: SecretDigest

    public init(id: String, name: String, digest: SecretDigest) {
        self.id = id
        self.name = name
        self.digest = digest
    }
}

/// The public half of a service-account key to be created.
public struct NewServiceAccountKey: Sendable {
    /// REG-5: ID of the key, 1 to `Limits.serviceAccountIDBytesMax` bytes.
    public var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    public var name: String
    /// REG-5: e-mail address of the service account, 1 to `Limits.clientEmailBytesMax` bytes.
    public var clientEmail: String
    /// SubjectPublicKeyInfo in DER. The engine checks only the form (`RSAPublicKey`).
    public var publicKey: [UInt8]

    public init(id: String, name: String, clientEmail: String, publicKey: [UInt8]) {
        self.id = id
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
    }
}

/// An instance to be registered. The broker makes the token and the device key.
public struct NewInstance: Sendable {
    /// ID of the project.
    public var project: String
    /// REG-1: package name or bundle ID, 1 to `Limits.appNameBytesMax` bytes.
    public var app: String
    /// Platform of the app.
    public var platform: Platform
    /// Token of the new instance.
    public var token: Token
    /// REG-1: digest of the device key. The device keeps the key.
    public var keyDigest: SecretDigest
    /// REG-7: what is known of the device.
    public var proof: RegistrationProof

    public init(
        project: String, app: String, platform: Platform, token: Token, keyDigest: SecretDigest,
        proof: RegistrationProof = .none
    ) {
        self.project = project
        self.app = app
        self.platform = platform
        self.token = token
        self.keyDigest = keyDigest
        self.proof = proof
    }
}

/// A message to be sent, after the checks of the edge and the merge of platform blocks.
public struct SendCommand: Sendable {
    /// MSG-1: target of the message.
    public var target: Target
    /// One to three variants, for disjoint platforms. Instances on other platforms get no message.
    public var variants: [OutgoingVariant]
    /// MSG-7: check the message without sending it.
    public var validateOnly: Bool
    /// RCP-1: whether the sender asks for receipts.
    public var wantsReceipts: Bool
    /// MSG-9: lets the engine recognise a repeated message; 1 to 128 bytes of UTF-8.
    public var idempotencyKey: String?
    /// GW-8: the gateway's attempt; nil for other senders.
    public var attempt: SendAttempt?
    /// MSG-10: the instant to send at. A nil or past instant sends at once.
    public var sendAt: Instant?
    /// REP-2: the number of an earlier message. Only instances that the earlier message was for and that have not
    /// received it are recipients.
    public var notReceived: UInt64?

    /// MSG-1: the target of a message.
    public enum Target: Sendable, Hashable {
        case token(String)
        case topic(String)
        case condition(String)
        /// A group's notification key.
        case group(String)
        /// A union of targets of the other kinds. An instance in several of them gets the message once.
        case several([Target])
    }

    /// Makes a message with the given variants. By default, all options are off. `attempt` is nil.
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

    /// Makes a message with one variant for all platforms.
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

/// TTL-4: acknowledgements of one instance, and at the end of its connection the state of the connection to be kept.
public struct Acknowledgement: Sendable {
    /// State of a connection at its end.
    public struct Departure: Sendable, Hashable {
        /// Number of the connection that ended. A later connection of the instance has a higher number.
        public var connectionNumber: UInt64
        /// The project's last message that the connection could have brought. Later messages are accepted during the
        /// absence of the instance (STO-1).
        public var position: MessageSequence
        /// COL-4: the instant at which the throttle of collapsible messages is full again.
        public var throttleFull: Instant
        /// STO-2: the last instant at which the instance had a connection.
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

    /// A reading of the mailbox passed over messages that the mailbox no longer held. The messages up to `through`
    /// that were gone at `at` do not count as delivered, although the marks of the instance move past them.
    public struct Skipped: Sendable, Hashable {
        /// Sequence up to which messages may have been passed over.
        public var through: MessageSequence
        /// Instant of the reading. Messages that were gone by then do not count as delivered.
        public var at: Instant

        public init(through: MessageSequence, at: Instant) {
            self.through = through
            self.at = at
        }
    }

    /// Project of the instance.
    public var project: ProjectNumber
    /// Ordinal of the instance.
    public var ordinal: Ordinal
    /// The acknowledgement is ignored if the ordinal has another holder; nil: the holder is not checked.
    public var holder: Holder?
    /// By lane, the sequence up to which the instance has acknowledged all messages.
    public var through: LaneMarks
    /// Stream IDs of messages acknowledged one by one above the mark of their lane, and of acknowledged notices
    /// (STO-1). Notices are listed because marks acknowledge only messages.
    public var single: [UInt64]
    /// Set if the connection has ended.
    public var departure: Departure?
    /// Set if a reading has passed over messages since the last report.
    public var skipped: Skipped?
    /// Set for the list in HELLO: the project's last message at that time. The store decides on the discards of the
    /// absence (STO-1) before the list is applied.
    public var arrival: MessageSequence?

    /// Makes an acknowledgement. By default, no message is acknowledged one by one, and the holder is not checked.
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
    /// What a command concerns. The scope decides the command's place among the waiting commands.
    public enum Scope: Sendable, Hashable {
        /// The whole broker, the rows of an administrator, or connections. The command goes before the commands of
        /// projects, and its transaction applies the whole command.
        case broker
        /// New instances of a project that the command names by ID.
        case registrations(String)
        case project(ProjectNumber)
    }

    /// What the command concerns.
    public var scope: Scope {
        switch self {
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry, .acknowledge, .connected, .touch, .count:
            .broker
        case .register(let instance): .registrations(instance.project)
        case .send(let project, _), .changeTopic(let project, _, _, _, _),
            .changeTopics(let project, _, _, _, _), .unregister(let project, _, _),
            .unregisterToken(let project, _), .rotate(let project, _, _, _),
            .cancel(let project, _), .receipt(let project, _, _, _, _),
            .takeReceipts(let project, _), .takeUpstream(let project, _),
            .createGroup(let project, _, _, _), .changeGroup(let project, _, _, _, _):
            .project(project)
        case .upstream(let message): .project(message.project)
        }
    }

    /// Whether the outcome depends on the acknowledgements of earlier commands.
    public var asksWhoHas: Bool {
        switch self {
        case .cancel, .unregister, .unregisterToken: true
        default: false
        }
    }
}

/// The outcome of a command, valid once the transaction of the command is committed. Rare and large cases are
/// indirect, because outcomes are moved from thread to thread.
public enum Outcome: Sendable {
    indirect case project(Project)
    indirect case key(ServerKey)
    case done
    indirect case registered(Instance, Project)
    case unregistered(project: ProjectNumber, ordinal: Ordinal, holder: Holder)
    case topicsChanged(TopicChangeResult)
    /// GRP-1, GRP-2: the group after the change. A group without members is deleted.
    case group(GroupMembers)
    /// MSG-6: a message was accepted. Each variant with recipients has a fanout.
    case accepted(Acceptance, fanouts: [Fanout])
    /// REG-4: the new token of the instance.
    indirect case rotated(Token)
    /// MSG-10: a message was cancelled. The loops stop the delivery of `sequence`; nil: the message had no sequence
    /// yet.
    case cancelled(project: ProjectNumber, number: UInt64, sequence: MessageSequence?)
    /// RCP-2: the project whose senders the receipt is kept for. nil: no sender asked for the receipt, or the device
    /// had reported it before.
    case receiptKept(ProjectNumber?)
    /// UPS-1, GRP-7: a device's message was accepted. Only a message for a group has fanouts, to the other members.
    indirect case upstreamAccepted(UpstreamAcceptance, fanouts: [Fanout])
    case upstreamTaken(ProjectNumber, numbers: [UInt64])
    /// The transaction applied a part of the command. The payload is the rest, for a later transaction, and the
    /// outcome of the rest is the outcome of the command.
    case unfinished(Command)
    indirect case refused(MartletError)
}

/// TOP-4: the result of a topic request, with an entry for each failed item.
public struct TopicChangeResult: Sendable, Hashable {
    /// An item of the request that failed.
    public struct Failure: Sendable, Hashable {
        /// Position of the item in the request, from 0.
        public var index: Int
        /// Reason for the failure.
        public var word: ErrorWord

        public init(index: Int, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    /// Items that the request applied.
    public var successCount: Int
    /// Items that the request did not apply.
    public var failures: [Failure]

    public init(successCount: Int, failures: [Failure]) {
        self.successCount = successCount
        self.failures = failures
    }
}

/// TOP-4: the progress of a request that several transactions apply. Later commands of the project wait for the end
/// of the request. After a crash the sender has no answer, and may repeat the request.
public struct TopicChangeProgress: Sendable, Hashable {
    /// Tokens that earlier transactions have applied.
    public var doneCount = 0
    /// The result for the tokens that earlier transactions have applied.
    public var result = TopicChangeResult(successCount: 0, failures: [])
    /// The order in which tokens are applied, as indexes of tokens; empty: the order of the request.
    public var order: [UInt16] = []
    /// Tokens that one transaction may apply.
    public var stepMax = Int.max

    /// Makes the progress of a request of which no transaction has applied a part.
    public init() {}
}

/// MSG-6: the answer to a sender.
public struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 for `validateOnly`.
    public var messageNumber: UInt64
    /// 0 for a scheduled or deferred message.
    public var recipientCount: UInt64
    /// QUO-1: instances left out because of their device's quota.
    public var rateLimitedCount: UInt64
    /// STO-2: inactive recipients, for which the message was discarded at acceptance.
    public var inactiveCount: UInt64
    /// FAN-1: the place in the project's queue of deferred messages, from 1; 0: the message is not deferred.
    public var deferredPlace: UInt64
    /// Results for the members of a target group, or for single target tokens.
    public var named: NamedResults

    /// Makes an answer. By default, all counts except `recipientCount` are 0, and the target names no instance.
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

/// The results for the members of a message's target group, or for single target tokens.
public enum NamedResults: Sendable, Hashable {
    /// The target names no instance, or one.
    case none
    /// GRP-5: the results for a group's members. For a scheduled message, the count is 0 and the list is empty,
    /// because its members are those at the time of sending.
    case group(successCount: Int, failures: [GroupFailure])
    /// The results for the tokens among several targets, with their index among all targets. For a message that
    /// waits, the results are those at acceptance.
    case tokens(successCount: Int, failures: [TopicChangeResult.Failure])

    /// A member of the group that does not get the message.
    public struct GroupFailure: Sendable, Hashable {
        /// Token of the member.
        public var token: Token
        /// Reason for the failure.
        public var word: ErrorWord

        public init(token: Token, word: ErrorWord) {
            self.token = token
            self.word = word
        }
    }
}
