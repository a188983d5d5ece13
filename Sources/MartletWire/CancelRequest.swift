// SPDX-License-Identifier: Apache-2.0
//
// The frames that cancel an accepted message, before it is due or during its fanout (MSG-10). Rests on `WireReader` and
// `WireWriter`.

import MartletBase

/// CANCEL (0x40): withholds a message from every recipient that has not got the message yet.
public struct CancelRequest: WireRequest {
    package typealias Answer = Cancelled

    public var correlation: UInt32
    /// Number in the message ID.
    public var messageNumber: UInt64

    public init(correlation: UInt32 = 0, messageNumber: UInt64) {
        self.correlation = correlation
        self.messageNumber = messageNumber
    }

    package static var type: FrameType { .cancel }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
    }
}

/// CANCELLED (0x41): the answer to CANCEL. The cancellation is on disk.
public struct Cancelled: WireAnswer {
    public var correlation: UInt32
    /// True if the message was scheduled or deferred and had not been sent to any recipient.
    public var wasScheduled: Bool
    /// Recipients that acknowledged the message before the cancellation.
    public var delivered: UInt64

    public init(correlation: UInt32 = 0, wasScheduled: Bool, delivered: UInt64) {
        self.correlation = correlation
        self.wasScheduled = wasScheduled
        self.delivered = delivered
    }

    package static var type: FrameType { .cancelled }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        wasScheduled = try reader.flag("flags")
        delivered = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(wasScheduled)
        writer.u64(delivered)
    }
}

/// The result of a cancellation (MSG-10).
public struct CancelSummary: Sendable, Hashable {
    /// Whether the message was still scheduled or deferred, so no instance had been sent the message.
    public var wasScheduled: Bool
    /// Recipients that had acknowledged the message before the cancellation.
    public var deliveredCount: UInt64

    package init(_ cancelled: Cancelled) {
        wasScheduled = cancelled.wasScheduled
        deliveredCount = cancelled.delivered
    }
}

extension SenderInterface {
    /// MSG-10: cancels a message. Recipients without the message do not get the message any more.
    /// - Parameter messageID: as in `SendReceipt`, or the number alone.
    /// - Throws: `NOT_FOUND` for an unknown or expired message, and for a message that each recipient has already;
    ///   `INVALID_ARGUMENT` for text that is no message ID.
    @discardableResult
    public func cancel(_ messageID: String) async throws -> CancelSummary {
        let number = try MessageID.number(messageID, projectID: projectID)
        return CancelSummary(try await requests.ask(CancelRequest(messageNumber: number)))
    }
}
