// SPDX-License-Identifier: Apache-2.0
//
// A message on its way to a device, and the device's answer that its application has taken it.
// Nothing in DELIVER differs between recipients, so the broker encodes it once for all of them
// (`DeliverHeader`); this form is for the client and for tests. Rests on `WireReader`.

public import MartletBase

/// 0x10.
public struct Deliver: WireFrame {
    /// The message's place in its project; bit 63 set: not stored, do not acknowledge.
    public var streamID: UInt64
    /// When the broker accepted it.
    public var accepted: Instant
    /// When it ceases to be of interest.
    public var expires: Instant
    public var kind: TargetKind
    public var priority: MessagePriority
    /// RCP-1: the sender wants to know what becomes of it.
    public var wantsReceipts: Bool
    /// The number in the message ID where that is not the stream ID: scheduled messages get their
    /// place when they are due.
    public var ownNumber: UInt64?
    /// `/topics/NAME`, or the sender ID in decimal.
    public var from: String
    /// The message as it was sent; see `Message`.
    public var message: [UInt8]

    public init(
        streamID: UInt64, accepted: Instant, expires: Instant, kind: TargetKind,
        priority: MessagePriority, from: String, message: [UInt8], wantsReceipts: Bool = false,
        ownNumber: UInt64? = nil
    ) {
        self.streamID = streamID
        self.accepted = accepted
        self.expires = expires
        self.kind = kind
        self.priority = priority
        self.from = from
        self.message = message
        self.wantsReceipts = wantsReceipts
        self.ownNumber = ownNumber
    }

    /// Whether the broker keeps it until it is acknowledged.
    public var isStored: Bool { streamID & WireVersion.notStoredBit == 0 }
    /// The number in the message ID: its own, or the stream ID without its mark.
    public var messageNumber: UInt64 { ownNumber ?? streamID & ~WireVersion.notStoredBit }

    public var type: FrameType { .deliver }

    public init(from reader: inout WireReader) throws(WireError) {
        streamID = try reader.u64()
        accepted = Instant(millisecondsSince1970: try reader.i64())
        expires = Instant(millisecondsSince1970: try reader.i64())
        kind = try reader.choice("target kind")
        priority = try reader.choice("priority")
        let flags = try reader.u8()
        guard flags & ~(DeliverHeader.wantsReceiptsFlag | DeliverHeader.ownNumberFlag) == 0 else {
            throw .unknownValue(field: "flags", value: UInt64(flags))
        }
        wantsReceipts = flags & DeliverHeader.wantsReceiptsFlag != 0
        from = try reader.string()
        ownNumber = flags & DeliverHeader.ownNumberFlag != 0 ? try reader.u64() : nil
        message = [UInt8](reader.rest())
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u64(streamID)
        writer.i64(accepted.millisecondsSince1970)
        writer.i64(expires.millisecondsSince1970)
        writer.u8(kind.rawValue)
        writer.u8(priority.rawValue)
        writer.u8(DeliverHeader.flags(wantsReceipts: wantsReceipts, ownNumber: ownNumber))
        writer.string(from)
        if let ownNumber { writer.u64(ownNumber) }
        writer.raw(message)
    }
}

/// 0x11. Everything delivered on this connection up to `through`, and single messages above it.
public struct Acknowledge: WireFrame {
    public var through: UInt64
    public var streamIDs: [UInt64]

    public init(through: UInt64, streamIDs: [UInt64] = []) {
        self.through = through
        self.streamIDs = streamIDs
    }

    public var type: FrameType { .acknowledge }

    public init(from reader: inout WireReader) throws(WireError) {
        through = try reader.u64()
        streamIDs = try reader.list(entryBytesMin: 8) { (reader) throws(WireError) in
            try reader.u64()
        }
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u64(through)
        writer.list(streamIDs) { (writer, streamID) in writer.u64(streamID) }
    }
}
