// SPDX-License-Identifier: Apache-2.0
//
// Receipts: reports of a device about a message, for the senders of the project (RCP-1, RCP-2). The broker keeps
// receipts until a sender acknowledges them. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// RECEIPT (0x18): a device reports that a message was received, displayed or opened. Answered by DONE.
public struct ReceiptRequest: WireFrame {
    public var correlation: UInt32
    public var kind: ReceiptKind
    /// Stream ID from DELIVER, including bit 63.
    public var streamID: UInt64

    public init(correlation: UInt32, kind: ReceiptKind, streamID: UInt64) {
        self.correlation = correlation
        self.kind = kind
        self.streamID = streamID
    }

    package var type: FrameType { .receipt }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        kind = try reader.choice("receipt kind")
        streamID = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u8(kind.rawValue)
        writer.u64(streamID)
    }
}

/// LISTEN_RECEIPTS (0x42): the sender takes the project's receipts on this connection. Answered by DONE.
public struct ListenReceiptsRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package var type: FrameType { .listenReceipts }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// RECEIPT_EVENT (0x43): a receipt for a sender.
public struct ReceiptEvent: WireFrame {
    /// Place among the project's receipts. Event IDs rise.
    public var eventID: UInt64
    /// Number in the message ID.
    public var messageNumber: UInt64
    /// Token of the reporting instance.
    public var token: String
    public var kind: ReceiptKind
    /// Instant at which the broker got the receipt.
    public var instant: Instant

    public init(
        eventID: UInt64, messageNumber: UInt64, token: String, kind: ReceiptKind, instant: Instant
    ) {
        self.eventID = eventID
        self.messageNumber = messageNumber
        self.token = token
        self.kind = kind
        self.instant = instant
    }

    package var type: FrameType { .receiptEvent }

    package init(from reader: inout WireReader) throws(WireError) {
        eventID = try reader.u64()
        messageNumber = try reader.u64()
        token = try reader.string()
        kind = try reader.choice("receipt kind")
        instant = Instant(millisecondsSince1970: try reader.i64())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(eventID)
        writer.u64(messageNumber)
        writer.string(token)
        writer.u8(kind.rawValue)
        writer.i64(instant.millisecondsSince1970)
    }
}

/// RECEIPT_ACK (0x44): the sender has taken every receipt up to an event ID. No answer.
public struct ReceiptAcknowledge: WireFrame {
    /// Event ID of the last receipt taken.
    public var through: UInt64
    public init(through: UInt64) { self.through = through }
    package var type: FrameType { .receiptAcknowledge }
    package init(from reader: inout WireReader) throws(WireError) { through = try reader.u64() }
    package func encodeBody(into writer: inout WireWriter) { writer.u64(through) }
}
