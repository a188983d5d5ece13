// SPDX-License-Identifier: Apache-2.0
//
// What waits for its time, for room or for a sender, as values: each is bytes that the engine made. Rests on
// MartletBase.

public import MartletBase

/// A message that waits: for its time (MSG-10), or for room (FAN-1).
public struct ScheduledMessage: Sendable, Hashable {
    public var project: ProjectNumber
    /// The number in the message ID.
    public var number: UInt64
    /// What its life is counted from: when it is to be sent, or was to be.
    public var due: Instant
    /// Whatever the engine made of it.
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
    public var number: UInt64
    /// Whatever the engine made of it.
    public var bytes: [UInt8]

    public init(number: UInt64, bytes: [UInt8]) {
        self.number = number
        self.bytes = bytes
    }
}

/// UPS-1: a message of a device that waits for a sender.
public struct UpstreamRecord: Sendable, Hashable {
    public var number: UInt64
    public var expires: Instant
    /// Whatever the engine made of it.
    public var bytes: [UInt8]

    public init(number: UInt64, expires: Instant, bytes: [UInt8]) {
        self.number = number
        self.expires = expires
        self.bytes = bytes
    }
}
