// SPDX-License-Identifier: Apache-2.0
//
// Records of messages and events that wait: for a time, for room, or for a sender. The engine encodes and decodes the
// bytes in a record. Rests on MartletBase.

public import MartletBase

/// A message that waits for a time (MSG-10), or for room among the fanouts of its project (FAN-1).
public struct ScheduledMessage: Sendable, Hashable {
    /// Project of the message.
    public var project: ProjectNumber
    /// The number in the message ID.
    public var number: UInt64
    /// When the time to live begins: the time for which the message was scheduled, or when a deferred message was
    /// accepted.
    public var due: Instant
    /// The message in the engine's encoding.
    public var bytes: [UInt8]

    public init(project: ProjectNumber, number: UInt64, due: Instant, bytes: [UInt8]) {
        self.project = project
        self.number = number
        self.due = due
        self.bytes = bytes
    }
}

/// RCP-1: an event that waits for a sender.
public struct ReceiptRecord: Sendable, Hashable {
    /// Number of the event in the project, from 1. Senders acknowledge events up to a number.
    public var number: UInt64
    /// The event in the engine's encoding.
    public var bytes: [UInt8]

    public init(number: UInt64, bytes: [UInt8]) {
        self.number = number
        self.bytes = bytes
    }
}

/// UPS-1: a message of a device that waits for a sender.
public struct UpstreamRecord: Sendable, Hashable {
    /// Number of the message among the messages of the project's devices.
    public var number: UInt64
    /// End of the message's time to live.
    public var expires: Instant
    /// The message in the engine's encoding.
    public var bytes: [UInt8]

    public init(number: UInt64, expires: Instant, bytes: [UInt8]) {
        self.number = number
        self.expires = expires
        self.bytes = bytes
    }
}
