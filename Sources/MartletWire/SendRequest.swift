// SPDX-License-Identifier: Apache-2.0
//
// SEND and its answer. The message stays raw bytes here: the broker validates them in place and
// passes them on as they are. Rests on `MessageTarget`.

public import MartletBase

/// 0x20: a sender's request to send one message.
public struct SendRequest: WireFrame {
    public var correlation: UInt32
    /// MSG-7: check everything and send nothing.
    public var validateOnly: Bool
    public var target: MessageTarget
    /// nil is the default, 28 days. May be more than allowed: that is the broker's to refuse.
    public var timeToLiveSeconds: UInt32?
    /// nil is the default.
    public var priority: MessagePriority?
    /// The message as encoded by `Message`, not yet validated.
    public var message: [UInt8]

    public init(
        correlation: UInt32, target: MessageTarget, message: [UInt8],
        timeToLiveSeconds: UInt32? = nil, priority: MessagePriority? = nil,
        validateOnly: Bool = false
    ) {
        self.correlation = correlation
        self.target = target
        self.message = message
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.validateOnly = validateOnly
    }

    public var type: FrameType { .send }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        let flags = try reader.u8()
        guard flags & ~1 == 0 else { throw .unknownValue(field: "flags", value: UInt64(flags)) }
        validateOnly = flags & 1 == 1
        let kind: TargetKind = try reader.choice("target kind")
        target = MessageTarget(kind: kind, text: try reader.string())
        timeToLiveSeconds = try reader.optionalU32()
        let number = try reader.u8()
        priority = MessagePriority(rawValue: number)
        guard priority != nil || number == 0 else {
            throw .unknownValue(field: "priority", value: UInt64(number))
        }
        message = [UInt8](reader.rest())
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(validateOnly)
        writer.u8(target.kind.rawValue)
        writer.string(target.text)
        writer.optionalU32(timeToLiveSeconds)
        writer.u8(priority?.rawValue ?? 0)
        writer.raw(message)
    }
}

/// 0x21: MSG-6, the message is on disk.
public struct Accepted: WireFrame {
    public var correlation: UInt32
    /// The number in the message ID; 0 after *validate only*.
    public var messageNumber: UInt64
    /// Instances that the message was accepted for.
    public var recipients: UInt64

    public init(correlation: UInt32, messageNumber: UInt64, recipients: UInt64) {
        self.correlation = correlation
        self.messageNumber = messageNumber
        self.recipients = recipients
    }

    public var type: FrameType { .accepted }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
        recipients = try reader.u64()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
        writer.u64(recipients)
    }
}
