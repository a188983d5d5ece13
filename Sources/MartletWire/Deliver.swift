// SPDX-License-Identifier: Apache-2.0
//
// DELIVER, a message for a device. All recipients of a message get equal DELIVER bytes, so the broker encodes the frame once
// (`DeliverHeader`). The `Deliver` type here serves the client and tests. Rests on `WireReader`.

public import MartletBase

/// DELIVER (0x10): a message for a device.
public struct Deliver: WireFrame {
    /// The message's place in its project. Bit 63 is set if the message is now or never; the device then must not
    /// acknowledge.
    public var streamID: UInt64
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// Instant at which the message's time to live ends.
    public var expires: Instant
    public var kind: TargetKind
    public var priority: MessagePriority
    /// The options that the message has for all its recipients.
    public var options: MessageOptions
    /// Number in the message ID, if different from the stream ID; else nil. Scheduled messages have such a number,
    /// because a scheduled message gets its stream ID at its due instant.
    public var ownNumber: UInt64?
    /// `/topics/NAME` for a message to a topic, the notification key for a message from a member of a group, else
    /// the sender ID in decimal.
    public var from: String
    /// The encoded message for the device's platform; `Message.init(decoding:unknownTags:)` reads the bytes.
    public var message: [UInt8]

    public init(
        streamID: UInt64, accepted: Instant, expires: Instant, kind: TargetKind,
        priority: MessagePriority, from: String, message: [UInt8],
        options: MessageOptions = MessageOptions(), ownNumber: UInt64? = nil
    ) {
        self.streamID = streamID
        self.accepted = accepted
        self.expires = expires
        self.kind = kind
        self.priority = priority
        self.from = from
        self.message = message
        self.options = options
        self.ownNumber = ownNumber
    }

    /// True if the broker keeps the message until the device acknowledges.
    public var isStored: Bool { streamID & WireVersion.nowOrNeverBit == 0 }
    /// Number in the message ID: `ownNumber` if present, else the stream ID without bit 63.
    public var messageNumber: UInt64 { ownNumber ?? streamID & ~WireVersion.nowOrNeverBit }

    package var type: FrameType { .deliver }

    package init(from reader: inout WireReader) throws(WireError) {
        streamID = try reader.u64()
        accepted = Instant(millisecondsSince1970: try reader.i64())
        expires = Instant(millisecondsSince1970: try reader.i64())
        kind = try reader.choice("target kind")
        priority = try reader.choice("priority")
        let flags = try reader.u8()
        guard flags & ~(MessageOptions.Bits.deliver.all | DeliverHeader.ownNumberFlag) == 0 else {
            throw .unknownValue(field: "flags", value: UInt64(flags))
        }
        options = MessageOptions(flags, in: .deliver)
        from = try reader.string()
        ownNumber = flags & DeliverHeader.ownNumberFlag != 0 ? try reader.u64() : nil
        message = [UInt8](reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(streamID)
        writer.i64(accepted.millisecondsSince1970)
        writer.i64(expires.millisecondsSince1970)
        writer.u8(kind.rawValue)
        writer.u8(priority.rawValue)
        writer.u8(DeliverHeader.flags(options, ownNumber: ownNumber))
        writer.string(from)
        if let ownNumber { writer.u64(ownNumber) }
        writer.raw(message)
    }
}
