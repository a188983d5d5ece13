// SPDX-License-Identifier: Apache-2.0
//
// Answers to an administrator's requests, as plain values: the broker, the wire and the client have these types in
// common. Pure.

/// A project that was just created.
public struct NewProject: Sendable, Hashable {
    /// The project as created.
    public var summary: ProjectSummary
    /// REG-7: text of the project's first registration key. The broker stores only a digest, so the text is told here
    /// and never again.
    public var registrationKey: String

    package init(summary: ProjectSummary, registrationKey: String) {
        self.summary = summary
        self.registrationKey = registrationKey
    }
}

/// A project, as stored at the time of the request.
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

    package init(
        id: String, senderID: UInt64, conditionTopicsMax: Int, instanceCount: UInt64,
        topicCount: UInt64, weight: Int = 1, overload: OverloadPolicy = .defer
    ) {
        self.id = id
        self.senderID = senderID
        self.conditionTopicsMax = conditionTopicsMax
        self.instanceCount = instanceCount
        self.topicCount = topicCount
        self.weight = weight
        self.overload = overload
    }
}

/// A key whose text the broker has just made: a server key or a registration key. The broker stores only a digest, so
/// the text is told here and never again.
public struct IssuedKey: Sendable, Hashable {
    /// ID of the key: the part of `text` before the dot.
    public var id: String
    /// `ID.SECRET`, as a sender or a new device presents the key.
    public var text: String

    package init(id: String, text: String) {
        self.id = id
        self.text = text
    }
}

/// A server key or a registration key, without its secret.
public struct KeySummary: Sendable, Hashable {
    /// ID of the key, by which `revokeServerKey(_:in:)` or `revokeRegistrationKey(_:in:)` finds the key.
    public var id: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Instant at which the key was created.
    public var created: Instant
    /// True for a revoked key. A revoked key stays in the list, and senders or new devices with the key are refused.
    public var isRevoked: Bool

    package init(id: String, name: String, created: Instant, isRevoked: Bool) {
        self.id = id
        self.name = name
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// A service-account key without the key itself.
public struct ServiceAccountSummary: Sendable, Hashable {
    /// ID of the key, 1 to 64 characters of `[a-z0-9]`; unique in the broker.
    public var keyID: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Issuer of the key's assertions.
    public var clientEmail: String
    /// Instant at which the key was registered.
    public var created: Instant
    /// True for a revoked key. A revoked key mints no access token, and the key's access tokens are refused.
    public var isRevoked: Bool

    package init(
        keyID: String, name: String, clientEmail: String, created: Instant, isRevoked: Bool
    ) {
        self.keyID = keyID
        self.name = name
        self.clientEmail = clientEmail
        self.created = created
        self.isRevoked = isRevoked
    }
}

/// The state of a broker at an instant (FAN-8). Counts begin when the broker is opened.
public struct BrokerStatus: Sendable, Hashable {
    /// Instant of the broker's clock.
    public var now: Instant
    /// Open connections.
    public var connectionCount = 0
    /// Messages queued for connections.
    public var deliveredCount: UInt64 = 0
    /// Acknowledgements of devices. An acknowledgement may cover several messages.
    public var acknowledgedCount: UInt64 = 0
    /// How often a session could not keep up and continued from its mailbox (FAN-6).
    public var fellBehindCount: UInt64 = 0
    /// Commands that wait in the committer's inbox.
    public var commandsWaiting = 0
    /// Bytes of frames that wait to be sent.
    public var frameBytes = 0
    /// Bytes of unanswered requests, and of frames that have not arrived whole.
    public var requestBytes = 0
    /// Bytes of the store's file in use.
    public var storeBytesUsed = 0
    /// Bytes allocated by the process, over all its brokers; nil: not known.
    public var allocatedBytes: Int?
    /// Projects with a connection, a request or a fanout, the busiest first, at most 1000.
    public var projects: [ProjectStatus] = []
    /// OPS-7: the nodes of a cluster, whose sums the counts above are; empty for a broker alone. The store's bytes are
    /// those of the asked node.
    public var nodes: [NodeStatus] = []

    package init(now: Instant) { self.now = now }
}

/// OPS-7: the load of one node of a cluster, about a second ago.
public struct NodeStatus: Sendable, Hashable {
    /// Name of the node.
    public var node: String
    /// Whether the node applies the changes of the cluster.
    public var isActive: Bool
    /// Open connections.
    public var connectionCount: Int
    /// Messages queued for connections.
    public var deliveredCount: UInt64
    /// Acknowledgements of devices.
    public var acknowledgedCount: UInt64

    package init(
        node: String, isActive: Bool, connectionCount: Int, deliveredCount: UInt64,
        acknowledgedCount: UInt64
    ) {
        self.node = node
        self.isActive = isActive
        self.connectionCount = connectionCount
        self.deliveredCount = deliveredCount
        self.acknowledgedCount = acknowledgedCount
    }
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

    package init(
        project: String, weight: Int, connectionCount: Int, deliveredCount: UInt64,
        fanoutsInProgress: Int, fanoutsDeferred: Int, fanoutBytes: Int, frameBytes: Int,
        requestBytes: Int, share: Double
    ) {
        self.project = project
        self.weight = weight
        self.connectionCount = connectionCount
        self.deliveredCount = deliveredCount
        self.fanoutsInProgress = fanoutsInProgress
        self.fanoutsDeferred = fanoutsDeferred
        self.fanoutBytes = fanoutBytes
        self.frameBytes = frameBytes
        self.requestBytes = requestBytes
        self.share = share
    }
}
