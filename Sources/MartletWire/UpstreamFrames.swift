// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices to the senders of their project (UPS-1), or to a group with the device as a member (GRP-7).
// The broker keeps a message to the senders until a sender acknowledges it. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// UPSTREAM (0x70): a device sends a message. Answered by UPSTREAM_ACCEPTED.
public struct UpstreamRequest: WireFrame {
    public var correlation: UInt32
    /// Notification key of a group; empty addresses the project's senders.
    public var group: String
    /// ID that the device chose. A second send with an equal ID within 24 hours sends no second message.
    public var messageID: String
    /// Time to live in seconds. 0: only if a sender can have the message at once; nil: the longest time to live.
    public var timeToLiveSeconds: UInt32?
    /// An encoded message with data alone.
    public var message: [UInt8]

    public init(
        correlation: UInt32, group: String = "", messageID: String,
        timeToLiveSeconds: UInt32? = nil, message: [UInt8]
    ) {
        self.correlation = correlation
        self.group = group
        self.messageID = messageID
        self.timeToLiveSeconds = timeToLiveSeconds
        self.message = message
    }

    package var type: FrameType { .upstream }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        group = try reader.string()
        messageID = try reader.string()
        timeToLiveSeconds = try reader.optionalU32()
        message = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(group)
        writer.string(messageID)
        writer.optionalU32(timeToLiveSeconds)
        writer.raw(message)
    }
}

/// UPSTREAM_ACCEPTED (0x71): the message is on disk, or a message that may not wait is on its way to a sender.
public struct UpstreamAccepted: WireFrame {
    public var correlation: UInt32
    /// Place among the messages of the project's devices, which messages to groups have too.
    public var number: UInt64

    public init(correlation: UInt32, number: UInt64) {
        self.correlation = correlation
        self.number = number
    }

    package var type: FrameType { .upstreamAccepted }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        number = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(number)
    }
}

/// LISTEN_UPSTREAM (0x72): the sender takes messages of the project's devices on this connection. Answered by DONE.
public struct ListenUpstreamRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package var type: FrameType { .listenUpstream }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// UPSTREAM_MESSAGE (0x73): a message of a device, for a sender.
public struct UpstreamDelivery: WireFrame {
    /// Place among the messages of the project's devices. A repeated delivery has an equal number.
    public var number: UInt64
    public var accepted: Instant
    /// Instant at which the time to live ends; equal to `accepted` for a message that is now or never.
    public var expires: Instant
    /// Token of the sending instance.
    public var token: String
    public var appName: String
    public var messageID: String
    public var message: [UInt8]

    public init(
        number: UInt64, accepted: Instant, expires: Instant, token: String, appName: String,
        messageID: String, message: [UInt8]
    ) {
        self.number = number
        self.accepted = accepted
        self.expires = expires
        self.token = token
        self.appName = appName
        self.messageID = messageID
        self.message = message
    }

    package var type: FrameType { .upstreamMessage }

    package init(from reader: inout WireReader) throws(WireError) {
        number = try reader.u64()
        accepted = Instant(millisecondsSince1970: try reader.i64())
        expires = Instant(millisecondsSince1970: try reader.i64())
        token = try reader.string()
        appName = try reader.string()
        messageID = try reader.string()
        message = Array(reader.rest())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(number)
        writer.i64(accepted.millisecondsSince1970)
        writer.i64(expires.millisecondsSince1970)
        writer.string(token)
        writer.string(appName)
        writer.string(messageID)
        writer.raw(message)
    }
}

/// UPSTREAM_ACK (0x74): the sender has taken the messages with the given numbers. No answer.
public struct UpstreamAcknowledge: WireFrame {
    public var numbers: [UInt64]
    public init(numbers: [UInt64]) { self.numbers = numbers }
    package var type: FrameType { .upstreamAcknowledge }
    package init(from reader: inout WireReader) throws(WireError) {
        numbers = try reader.list(entryBytesMin: 8) { (reader) throws(WireError) in
            try reader.u64()
        }
    }
    package func encodeBody(into writer: inout WireWriter) {
        writer.list(numbers) { (writer, number) in writer.u64(number) }
    }
}

/// A message of a device to its project (UPS-1).
public struct DeviceMessage: Sendable, Hashable {
    /// Number among the messages of the project's devices. A message that comes twice keeps its number.
    public var number: UInt64
    /// The last known token of the sending instance.
    public var token: String
    /// The device's app: package name or bundle ID.
    public var app: String
    /// Message ID chosen by the device.
    public var messageID: String
    /// Instant at which the broker accepted the message.
    public var accepted: Instant
    /// Instant at which the time to live ends; equal to `accepted` for a message that is now or never.
    public var expires: Instant
    /// Data of the message, with distinct keys. A message of a device has no other contents.
    public var data: [Message.DataEntry]

    /// Makes a message of a delivery.
    /// - Throws: `WireError` if the delivery holds no message.
    package init(_ delivery: UpstreamDelivery) throws(WireError) {
        number = delivery.number
        token = delivery.token
        app = delivery.appName
        messageID = delivery.messageID
        accepted = delivery.accepted
        expires = delivery.expires
        data = try Message(decoding: delivery.message, unknownTags: .skip).data
    }

    /// The value of a data key; nil if the message does not have the key.
    public subscript(key: String) -> String? { data.value(of: key) }
}
