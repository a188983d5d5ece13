// SPDX-License-Identifier: Apache-2.0
//
// The list of fanouts in progress and of deferred messages (FAN-8), for the senders of a project and for the
// administrator. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// LIST_FANOUTS (0x50): asks for the fanouts in progress and the deferred messages. Answered by FANOUT_PAGE.
public struct ListFanoutsRequest: WireFrame {
    public var correlation: UInt32
    /// Empty means the connection's project; on an administrator's connection without a project, empty means all
    /// projects.
    public var projectID: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    public var limit: UInt16

    public init(correlation: UInt32, projectID: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.projectID = projectID
        self.cursor = cursor
        self.limit = limit
    }

    package var type: FrameType { .listFanouts }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// A message to many instances that is in progress or deferred.
public struct FanoutRecord: Sendable, Hashable {
    public var projectID: String
    public var messageNumber: UInt64
    public var kind: TargetKind
    /// The topic or the condition. The broker cuts a long text.
    public var target: String
    /// Instant at which the fanout began; for a deferred message, the instant at which the message was accepted.
    public var since: Instant
    /// Place among the project's deferred messages; 0 for a fanout in progress.
    public var deferredPlace: UInt64
    /// Instances that the message is for; 0 while the message is deferred.
    public var recipients: UInt64
    /// Copies of the message that the broker has queued for a connection.
    public var delivered: UInt64
    /// Part of the recipients that the fanout has passed, in millionths.
    public var progress: UInt32
    /// Deliveries per second since the fanout began.
    public var rate: UInt32
    /// Part of all delivery capacity that belongs to the fanout, in millionths.
    public var share: UInt32
    /// Seconds until the fanout ends if the rate stays as it is; nil: not known.
    public var secondsLeft: UInt32?

    public init(
        projectID: String, messageNumber: UInt64, kind: TargetKind, target: String, since: Instant,
        deferredPlace: UInt64 = 0, recipients: UInt64 = 0, delivered: UInt64 = 0,
        progress: UInt32 = 0, rate: UInt32 = 0, share: UInt32 = 0, secondsLeft: UInt32? = nil
    ) {
        self.projectID = projectID
        self.messageNumber = messageNumber
        self.kind = kind
        self.target = target
        self.since = since
        self.deferredPlace = deferredPlace
        self.recipients = recipients
        self.delivered = delivered
        self.progress = progress
        self.rate = rate
        self.share = share
        self.secondsLeft = secondsLeft
    }

    /// Bytes of an encoded record whose texts are empty.
    static let bytesMin = 61

    /// Bytes of the record in FANOUT_PAGE.
    public var byteCount: Int { Self.bytesMin + projectID.utf8.count + target.utf8.count }

    init(from reader: inout WireReader) throws(WireError) {
        projectID = try reader.string()
        messageNumber = try reader.u64()
        kind = try reader.choice("target kind")
        target = try reader.string()
        since = Instant(millisecondsSince1970: try reader.i64())
        deferredPlace = try reader.u64()
        recipients = try reader.u64()
        delivered = try reader.u64()
        progress = try reader.u32()
        rate = try reader.u32()
        share = try reader.u32()
        secondsLeft = try reader.optionalU32()
    }

    func encode(into writer: inout WireWriter) {
        writer.string(projectID)
        writer.u64(messageNumber)
        writer.u8(kind.rawValue)
        writer.string(target)
        writer.i64(since.millisecondsSince1970)
        writer.u64(deferredPlace)
        writer.u64(recipients)
        writer.u64(delivered)
        writer.u32(progress)
        writer.u32(rate)
        writer.u32(share)
        writer.optionalU32(secondsLeft)
    }
}

/// FANOUT_PAGE (0x51): fanouts project by project. A project's fanouts in progress come before its deferred
/// messages, both in their order.
public struct FanoutPage: WireFrame {
    public var correlation: UInt32
    /// Cursor for the request of the next page; empty on the last page.
    public var nextCursor: String
    public var fanouts: [FanoutRecord]

    public init(correlation: UInt32, nextCursor: String, fanouts: [FanoutRecord]) {
        self.correlation = correlation
        self.nextCursor = nextCursor
        self.fanouts = fanouts
    }

    package var type: FrameType { .fanoutPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        nextCursor = try reader.string()
        fanouts = try reader.list(entryBytesMin: FanoutRecord.bytesMin) {
            (reader) throws(WireError) in try FanoutRecord(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(nextCursor)
        writer.list(fanouts) { (writer, fanout) in fanout.encode(into: &writer) }
    }
}
