// SPDX-License-Identifier: Apache-2.0
//
// SEND, which is MULTICAST with several targets, and the answer to both. The message stays raw bytes
// here: the broker validates them in place and passes them on as they are. Rests on `MessageTarget`.

public import MartletBase

/// 0x20 and 0x67: a sender's request to send one message.
public struct SendRequest: WireFrame {
    public var correlation: UInt32
    /// MSG-7: check everything and send nothing.
    public var validateOnly: Bool
    /// RCP-1: the project's senders want to know what becomes of it.
    public var wantsReceipts: Bool
    /// Several are said in a frame of another type.
    public var target: MessageTarget
    /// nil is the default, 28 days. May be more than allowed: that is the broker's to refuse.
    public var timeToLiveSeconds: UInt32?
    /// nil is the default.
    public var priority: MessagePriority?
    /// COL-1. Empty: none.
    public var collapseKey: String
    /// MSG-8: only instances of this app. Empty: of any.
    public var restrictedPackageName: String
    /// MSG-9. Empty: none.
    public var idempotencyKey: String
    /// MSG-10: nil is at once. The codec cannot say the first instant of 1970.
    public var sendAt: Instant?
    /// REP-2: only those that the message with this number was for and that have not got it.
    public var notReceived: UInt64?
    /// The message as encoded by `Message`, not yet validated.
    public var message: [UInt8]

    public init(
        correlation: UInt32, target: MessageTarget, message: [UInt8],
        timeToLiveSeconds: UInt32? = nil, priority: MessagePriority? = nil,
        collapseKey: String = "", restrictedPackageName: String = "",
        idempotencyKey: String = "", sendAt: Instant? = nil, notReceived: UInt64? = nil,
        wantsReceipts: Bool = false, validateOnly: Bool = false
    ) {
        self.correlation = correlation
        self.target = target
        self.message = message
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.collapseKey = collapseKey
        self.restrictedPackageName = restrictedPackageName
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
        self.wantsReceipts = wantsReceipts
        self.validateOnly = validateOnly
    }

    public var type: FrameType { target.kind == .several ? .multicast : .send }

    /// - Parameter isMulticast: whether a list of targets stands where one does otherwise.
    public init(isMulticast: Bool, from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        let flags = try reader.u8()
        guard flags & ~7 == 0 else { throw .unknownValue(field: "flags", value: UInt64(flags)) }
        validateOnly = flags & 1 != 0
        wantsReceipts = flags & 2 != 0
        target =
            isMulticast
            ? .several(
                try reader.list(entryBytesMin: 3) { (reader) throws(WireError) in
                    try MessageTarget(from: &reader)
                }) : try MessageTarget(from: &reader)
        timeToLiveSeconds = try reader.optionalU32()
        let number = try reader.u8()
        priority = MessagePriority(rawValue: number)
        guard priority != nil || number == 0 else {
            throw .unknownValue(field: "priority", value: UInt64(number))
        }
        collapseKey = try reader.string()
        restrictedPackageName = try reader.string()
        idempotencyKey = try reader.string()
        let milliseconds = try reader.i64()
        sendAt = milliseconds == 0 ? nil : Instant(millisecondsSince1970: milliseconds)
        notReceived = flags & 4 != 0 ? try reader.u64() : nil
        message = [UInt8](reader.rest())
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        var flags: UInt8 = validateOnly ? 1 : 0
        if wantsReceipts { flags |= 2 }
        if notReceived != nil { flags |= 4 }
        writer.u8(flags)
        if case .several(let targets) = target {
            writer.list(targets) { (writer, target) in target.encode(into: &writer) }
        } else {
            target.encode(into: &writer)
        }
        writer.optionalU32(timeToLiveSeconds)
        writer.u8(priority?.rawValue ?? 0)
        writer.string(collapseKey)
        writer.string(restrictedPackageName)
        writer.string(idempotencyKey)
        writer.i64(sendAt?.millisecondsSince1970 ?? 0)
        if let notReceived { writer.u64(notReceived) }
        writer.raw(message)
    }
}

/// 0x21: MSG-6, the message is on disk.
public struct Accepted: WireFrame {
    public var correlation: UInt32
    /// The number in the message ID; 0 after *validate only*.
    public var messageNumber: UInt64
    /// Instances that the message was accepted for; 0 for one that is scheduled, or deferred.
    public var recipients: UInt64
    /// QUO-1: instances that would have been among them but for their device's quota.
    public var rateLimited: UInt64
    /// STO-2: those of the recipients for which it was discarded at once, as they are inactive.
    public var inactive: UInt64
    /// FAN-1: its place among the project's messages that wait until others have ended; 0: it does
    /// not wait for that.
    public var deferredPlace: UInt64

    public init(
        correlation: UInt32, messageNumber: UInt64, recipients: UInt64, rateLimited: UInt64 = 0,
        inactive: UInt64 = 0, deferredPlace: UInt64 = 0
    ) {
        self.correlation = correlation
        self.messageNumber = messageNumber
        self.recipients = recipients
        self.rateLimited = rateLimited
        self.inactive = inactive
        self.deferredPlace = deferredPlace
    }

    public var type: FrameType { .accepted }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
        recipients = try reader.u64()
        rateLimited = try reader.u64()
        inactive = try reader.u64()
        deferredPlace = try reader.u64()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
        writer.u64(recipients)
        writer.u64(rateLimited)
        writer.u64(inactive)
        writer.u64(deferredPlace)
    }
}
