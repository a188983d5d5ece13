// SPDX-License-Identifier: Apache-2.0
//
// Commands to the engine, and their outcomes. Commands change state and are applied by the one writer; questions are
// in Queries. Random values and secrets are made before a command reaches the engine, so equal commands always lead
// to equal states. Rests on the records.

package import MartletBase
package import MartletRows

/// A change of state. The enum is indirect, because a command changes hands five times on its way and the payload
/// then stays in place.
package indirect enum Command: Sendable {
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
package struct NewKey: Sendable {
    /// ID of the key, made by the broker.
    package var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    package var name: String
    /// REG-5: digest of the secret. The broker returns the secret once and keeps only the digest.
    package var digest: SecretDigest

    package init(id: String, name: String, digest: SecretDigest) {
        self.id = id
        self.name = name
        self.digest = digest
    }
}

/// The public half of a service-account key to be created.
package struct NewServiceAccountKey: Sendable {
    /// REG-5: ID of the key, 1 to `Limits.serviceAccountIDBytesMax` bytes.
    package var id: String
    /// Name for people, at most `Limits.keyNameBytesMax` bytes.
    package var name: String
    /// REG-5: e-mail address of the service account, 1 to `Limits.clientEmailBytesMax` bytes.
    package var clientEmail: String
    /// SubjectPublicKeyInfo in DER. The engine checks only the form (`RSAPublicKey`).
    package var publicKey: [UInt8]

    package init(id: String, name: String, clientEmail: String, publicKey: [UInt8]) {
        self.id = id
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
    }
}

/// An instance to be registered. The broker makes the token and the device key.
package struct NewInstance: Sendable {
    /// ID of the project.
    package var project: String
    /// REG-1: package name or bundle ID, 1 to `Limits.appNameBytesMax` bytes.
    package var app: String
    /// Platform of the app.
    package var platform: Platform
    /// Token of the new instance.
    package var token: Token
    /// REG-1: digest of the device key. The device keeps the key.
    package var keyDigest: SecretDigest
    /// REG-7: what is known of the device.
    package var proof: RegistrationProof

    package init(
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
package struct SendCommand: Sendable {
    /// MSG-1: target of the message.
    package var target: Target
    /// One to three variants, for disjoint platforms. Instances on other platforms get no message.
    package var variants: [OutgoingVariant]
    /// MSG-7: check the message without sending it.
    package var validateOnly: Bool
    /// RCP-1: whether the sender asks for receipts.
    package var wantsReceipts: Bool
    /// MSG-9: lets the engine recognise a repeated message; 1 to 128 bytes of UTF-8.
    package var idempotencyKey: String?
    /// GW-8: the gateway's attempt; nil for other senders.
    package var attempt: SendAttempt?
    /// MSG-10: the instant to send at. A nil or past instant sends at once.
    package var sendAt: Instant?
    /// REP-2: the number of an earlier message. Only instances that the earlier message was for and that have not
    /// received it are recipients.
    package var notReceived: UInt64?

    /// MSG-1: the target of a message.
    package enum Target: Sendable, Hashable {
        case token(String)
        case topic(String)
        case condition(String)
        /// A group's notification key.
        case group(String)
        /// A union of targets of the other kinds. An instance in several of them gets the message once.
        case several([Target])
    }

    /// Makes a message with the given variants. By default, all options are off. `attempt` is nil.
    package init(
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
    package init(
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
package struct Acknowledgement: Sendable {
    /// State of a connection at its end.
    package struct Departure: Sendable, Hashable {
        /// Number of the connection that ended. A later connection of the instance has a higher number.
        package var connectionNumber: UInt64
        /// The project's last message that the connection could have brought. Later messages are accepted during the
        /// absence of the instance (STO-1).
        package var position: MessageSequence
        /// COL-4: the instant at which the throttle of collapsible messages is full again.
        package var throttleFull: Instant
        /// STO-2: the last instant at which the instance had a connection.
        package var seen: Instant

        package init(
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
    package struct Skipped: Sendable, Hashable {
        /// Sequence up to which messages may have been passed over.
        package var through: MessageSequence
        /// Instant of the reading. Messages that were gone by then do not count as delivered.
        package var at: Instant

        package init(through: MessageSequence, at: Instant) {
            self.through = through
            self.at = at
        }
    }

    /// Project of the instance.
    package var project: ProjectNumber
    /// Ordinal of the instance.
    package var ordinal: Ordinal
    /// The acknowledgement is ignored if the ordinal has another holder; nil: the holder is not checked.
    package var holder: Holder?
    /// By lane, the sequence up to which the instance has acknowledged all messages.
    package var through: LaneMarks
    /// Stream IDs of messages acknowledged one by one above the mark of their lane, and of acknowledged notices
    /// (STO-1). Notices are listed because marks acknowledge only messages.
    package var single: [UInt64]
    /// Set if the connection has ended.
    package var departure: Departure?
    /// Set if a reading has passed over messages since the last report.
    package var skipped: Skipped?
    /// Set for the list in HELLO: the project's last message at that time. The store decides on the discards of the
    /// absence (STO-1) before the list is applied.
    package var arrival: MessageSequence?

    /// Makes an acknowledgement. By default, no message is acknowledged one by one, and the holder is not checked.
    package init(
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
    package enum Scope: Sendable, Hashable {
        /// The whole broker, the rows of an administrator, or connections. The command goes before the commands of
        /// projects, and its transaction applies the whole command.
        case broker
        /// New instances of a project that the command names by ID.
        case registrations(String)
        case project(ProjectNumber)
    }

    /// What the command concerns.
    package var scope: Scope {
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
    package var asksWhoHas: Bool {
        switch self {
        case .cancel, .unregister, .unregisterToken: true
        default: false
        }
    }
}

/// The outcome of a command, valid once the transaction of the command is committed. Rare and large cases are
/// indirect, because outcomes are moved from thread to thread.
package enum Outcome: Sendable {
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
package struct TopicChangeResult: Sendable, Hashable {
    /// An item of the request that failed.
    package struct Failure: Sendable, Hashable {
        /// Position of the item in the request, from 0.
        package var index: Int
        /// Reason for the failure.
        package var word: ErrorWord

        package init(index: Int, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    /// Items that the request applied.
    package var successCount: Int
    /// Items that the request did not apply.
    package var failures: [Failure]

    package init(successCount: Int, failures: [Failure]) {
        self.successCount = successCount
        self.failures = failures
    }
}

/// TOP-4: the progress of a request that several transactions apply. Later commands of the project wait for the end
/// of the request. After a crash the sender has no answer, and may repeat the request.
package struct TopicChangeProgress: Sendable, Hashable {
    /// Tokens that earlier transactions have applied.
    package var doneCount = 0
    /// The result for the tokens that earlier transactions have applied.
    package var result = TopicChangeResult(successCount: 0, failures: [])
    /// The order in which tokens are applied, as indexes of tokens; empty: the order of the request.
    package var order: [UInt16] = []
    /// Tokens that one transaction may apply.
    package var stepMax = Int.max

    /// Makes the progress of a request of which no transaction has applied a part.
    package init() {}
}

/// MSG-6: the answer to a sender.
package struct Acceptance: Sendable, Hashable {
    /// The number in the message ID; 0 for `validateOnly`.
    package var messageNumber: UInt64
    /// 0 for a scheduled or deferred message.
    package var recipientCount: UInt64
    /// QUO-1: instances left out because of their device's quota.
    package var rateLimitedCount: UInt64
    /// STO-2: inactive recipients, for which the message was discarded at acceptance.
    package var inactiveCount: UInt64
    /// FAN-1: the place in the project's queue of deferred messages, from 1; 0: the message is not deferred.
    package var deferredPlace: UInt64
    /// Results for the members of a target group, or for single target tokens.
    package var named: NamedResults

    /// Makes an answer. By default, all counts except `recipientCount` are 0, and the target names no instance.
    package init(
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
package enum NamedResults: Sendable, Hashable {
    /// The target names no instance, or one.
    case none
    /// GRP-5: the results for a group's members. For a scheduled message, the count is 0 and the list is empty,
    /// because its members are those at the time of sending.
    case group(successCount: Int, failures: [GroupFailure])
    /// The results for the tokens among several targets, with their index among all targets. For a message that
    /// waits, the results are those at acceptance.
    case tokens(successCount: Int, failures: [TopicChangeResult.Failure])

    /// A member of the group that does not get the message.
    package struct GroupFailure: Sendable, Hashable {
        /// Token of the member.
        package var token: Token
        /// Reason for the failure.
        package var word: ErrorWord

        package init(token: Token, word: ErrorWord) {
            self.token = token
            self.word = word
        }
    }
}
