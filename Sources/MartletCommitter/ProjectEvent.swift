// SPDX-License-Identifier: Apache-2.0
//
// What happens in a project (EMB-3), as plain values. Rests on DeliveryCounts.

public import MartletBase

/// An event in a project: see `Broker.watch(_:)`.
public enum ProjectEvent: Sendable, Hashable {
    /// A message was accepted.
    case accepted(AcceptedMessage)
    /// A message to many instances made progress since the last event of the message, or has ended. Once a second for
    /// each message in progress.
    case progress(DeliveryProgress)
    /// A quota refused a request: `QUOTA_EXCEEDED` or `RESOURCE_EXHAUSTED`. `field` and `message` name the quota.
    case refused(MartletError)
    /// The sums of the watch, once a second if a sum changed, and at the end.
    case sums(ProjectSums)
}

/// EMB-3: an accepted message.
public struct AcceptedMessage: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// Instances that the message is for; 0 for a scheduled or deferred message.
    public var recipientCount: UInt64
    /// FAN-1: the message waits, because too many messages to many of the project are in progress.
    public var isDeferred: Bool
    /// MSG-10: the message waits for its instant.
    public var isScheduled: Bool
}

/// EMB-3: the progress of a message to many instances.
public struct DeliveryProgress: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// Instances that the message is for, connected or not.
    public var recipientCount: UInt64
    /// Messages queued for connections so far. Instances without a connection read their mailbox later.
    public var deliveredCount: UInt64
    /// All recipients were looked at. No further progress of the message follows.
    public var isDone: Bool
}

/// EMB-3: sums of a project since the beginning of a watch.
public struct ProjectSums: Sendable, Hashable {
    /// Instant of the broker's clock.
    public var instant: Instant
    /// Messages accepted from senders. A repetition with the same idempotency key counts again.
    public var acceptedCount: UInt64 = 0
    /// Messages accepted from devices (UPS-1).
    public var upstreamCount: UInt64 = 0
    /// The counts that the project's day reports gained (REP-1): targeted, sent, acknowledged, expired and all other
    /// outcomes, for messages of any age.
    public var counts = DeliveryCounts()
    /// Requests that a quota refused.
    public var refusedCount: UInt64 = 0
    /// Connections of instances that began. Loops count once a second.
    public var connectedCount: UInt64 = 0
    /// Connections of instances that ended.
    public var disconnectedCount: UInt64 = 0
    /// Instances connected now.
    public var connectionCount = 0
    /// Events that did not fit into the watcher's buffer. Sums are never dropped.
    public var droppedCount: UInt64 = 0
}
