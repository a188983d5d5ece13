// SPDX-License-Identifier: Apache-2.0
//
// SEND and MULTICAST, which is a SEND with several targets. The message stays raw bytes, because the broker checks the bytes in
// place and passes them on unchanged. Rests on `MessageTarget`.

public import MartletBase

/// SEND (0x20) and MULTICAST (0x67): a sender's request to send a message.
public struct SendRequest: WireFrame {
    public var correlation: UInt32
    /// MSG-7: true for a request that the broker checks completely without sending the message.
    public var validateOnly: Bool
    /// The options that the message has for all its recipients.
    public var options: MessageOptions
    /// The target. `several` makes the frame a MULTICAST.
    public var target: MessageTarget
    /// Seconds; nil is the default, 28 days. The codec does not check the limit; the broker does.
    public var timeToLiveSeconds: UInt32?
    /// Priority; nil is the default, normal.
    public var priority: MessagePriority?
    /// COL-1: collapse key; empty means none.
    public var collapseKey: String
    /// MSG-8: only instances of this app get the message; empty means any app.
    public var restrictedPackageName: String
    /// MSG-9: idempotency key; empty means none.
    public var idempotencyKey: String
    /// MSG-10: earliest instant of sending; nil is at once. The codec cannot express the first millisecond of 1970,
    /// because 0 on the wire means nil.
    public var sendAt: Instant?
    /// REP-2: number of an earlier message. The new message is limited to instances that the earlier message was
    /// for and that have not got the earlier message.
    public var notReceived: UInt64?
    /// The bytes of the message as encoded by `Message`, not yet checked.
    public var message: [UInt8]

    public init(
        correlation: UInt32, target: MessageTarget, message: [UInt8],
        timeToLiveSeconds: UInt32? = nil, priority: MessagePriority? = nil,
        collapseKey: String = "", restrictedPackageName: String = "",
        idempotencyKey: String = "", sendAt: Instant? = nil, notReceived: UInt64? = nil,
        options: MessageOptions = MessageOptions(), validateOnly: Bool = false
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
        self.options = options
        self.validateOnly = validateOnly
    }

    /// Flags beside those of the options.
    private enum Flag {
        static let validateOnly: UInt8 = 1
        static let notReceived: UInt8 = 4
        static var all: UInt8 { validateOnly | notReceived | MessageOptions.Bits.send.all }
    }

    package var type: FrameType { target.kind == .several ? .multicast : .send }

    /// - Parameter type: `multicast` if the frame has a list of targets in place of a single target, else `send`.
    package init(_ type: FrameType, from reader: inout WireReader) throws(WireError) {
        // The value is made at once, from its fields. Of a value made field by field, the compiler returns a copy,
        // because an error may end the initializer before the last field.
        let correlation = try reader.correlation()
        let flags = try reader.u8()
        guard flags & ~Flag.all == 0 else {
            throw .unknownValue(field: "flags", value: UInt64(flags))
        }
        let target: MessageTarget =
            type == .multicast
            ? .several(
                try reader.list(entryBytesMin: 3) { (reader) throws(WireError) in
                    try MessageTarget(from: &reader)
                }) : try MessageTarget(from: &reader)
        let timeToLiveSeconds = try reader.optionalU32()
        let number = try reader.u8()
        let priority = MessagePriority(rawValue: number)
        guard priority != nil || number == 0 else {
            throw .unknownValue(field: "priority", value: UInt64(number))
        }
        let collapseKey = try reader.string()
        let restrictedPackageName = try reader.string()
        let idempotencyKey = try reader.string()
        let milliseconds = try reader.i64()
        let notReceived = flags & Flag.notReceived != 0 ? try reader.u64() : nil
        self.init(
            correlation: correlation, target: target, message: [UInt8](reader.rest()),
            timeToLiveSeconds: timeToLiveSeconds, priority: priority, collapseKey: collapseKey,
            restrictedPackageName: restrictedPackageName, idempotencyKey: idempotencyKey,
            sendAt: milliseconds == 0 ? nil : Instant(millisecondsSince1970: milliseconds),
            notReceived: notReceived, options: MessageOptions(flags, in: .send),
            validateOnly: flags & Flag.validateOnly != 0)
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u8(
            (validateOnly ? Flag.validateOnly : 0) | (notReceived != nil ? Flag.notReceived : 0)
                | options.flags(in: .send))
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
