// SPDX-License-Identifier: Apache-2.0
//
// MSG-10: a message that was accepted is taken back, before it is due or while it is on its way. Rests
// on `WireReader` and `WireWriter`.

/// 0x40: whoever has not got the message is not to get it.
public struct CancelRequest: WireFrame {
    public var correlation: UInt32
    /// The number in the message ID.
    public var messageNumber: UInt64

    public init(correlation: UInt32, messageNumber: UInt64) {
        self.correlation = correlation
        self.messageNumber = messageNumber
    }

    public var type: FrameType { .cancel }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
    }
}

/// 0x41: it is cancelled, on disk.
public struct Cancelled: WireFrame {
    public var correlation: UInt32
    /// It had not been sent to anybody yet.
    public var wasScheduled: Bool
    /// Recipients that have acknowledged it already.
    public var delivered: UInt64

    public init(correlation: UInt32, wasScheduled: Bool, delivered: UInt64) {
        self.correlation = correlation
        self.wasScheduled = wasScheduled
        self.delivered = delivered
    }

    public var type: FrameType { .cancelled }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        wasScheduled = try reader.flag("flags")
        delivered = try reader.u64()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(wasScheduled)
        writer.u64(delivered)
    }
}
