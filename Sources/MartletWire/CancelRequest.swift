// SPDX-License-Identifier: Apache-2.0
//
// MSG-10: frames for cancelling an accepted message, either before the message is due or during its fanout. Rests
// on `WireReader` and `WireWriter`.

/// CANCEL (0x40): withholds a message from every recipient that has not got the message yet.
public struct CancelRequest: WireFrame {
    public var correlation: UInt32
    /// Number in the message ID.
    public var messageNumber: UInt64

    public init(correlation: UInt32, messageNumber: UInt64) {
        self.correlation = correlation
        self.messageNumber = messageNumber
    }

    package var type: FrameType { .cancel }

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
public struct Cancelled: WireFrame {
    public var correlation: UInt32
    /// True if the message was scheduled or deferred and had not been sent to any recipient.
    public var wasScheduled: Bool
    /// Recipients that acknowledged the message before the cancellation.
    public var delivered: UInt64

    public init(correlation: UInt32, wasScheduled: Bool, delivered: UInt64) {
        self.correlation = correlation
        self.wasScheduled = wasScheduled
        self.delivered = delivered
    }

    package var type: FrameType { .cancelled }

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
