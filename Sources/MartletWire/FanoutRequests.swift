// SPDX-License-Identifier: Apache-2.0
//
// The list of fanouts in progress and of deferred messages (FAN-8), for the senders of a project and for the
// administrator. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// LIST_FANOUTS (0x50): asks for the fanouts in progress and the deferred messages. Answered by FANOUT_PAGE.
public struct ListFanoutsRequest: WireRequest {
    package typealias Answer = FanoutPage

    public var correlation: UInt32
    /// Empty means the connection's project; on an administrator's connection without a project, empty means all
    /// projects.
    public var projectID: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    public var limit: UInt16

    public init(correlation: UInt32 = 0, projectID: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.projectID = projectID
        self.cursor = cursor
        self.limit = limit
    }

    package static var type: FrameType { .listFanouts }

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

/// A message to many instances, in progress or deferred (FAN-8).
public struct FanoutSummary: Sendable, Hashable {
    /// ID of the project.
    public var project: String
    /// Number in the message ID.
    public var messageNumber: UInt64
    /// Kind of the target: topic, condition, group or several targets.
    public var kind: TargetKind
    /// The target. A topic or condition is cut after 200 characters. Of several targets the first eight are listed.
    public var target: String
    /// Start of the fanout. For a deferred message: the instant of acceptance, or the instant for which the
    /// message was scheduled.
    public var since: Instant
    /// Place among the project's deferred messages, from 1. nil: the fanout is in progress.
    public var deferredPlace: Int?
    /// Recipients; 0 for a deferred message, because the audience is resolved when the fanout begins.
    public var recipientCount: UInt64
    /// Messages queued for connections. A recipient without a connection gets the message from the mailbox.
    public var deliveredCount: UInt64
    /// Finished part of the fanout, 0 to 1.
    public var progress: Double
    /// Mean number of deliveries per second since the start of the fanout.
    public var deliveriesPerSecond: Double
    /// Part of all capacity, 0 to 1, as long as no fanout begins or ends.
    public var share: Double
    /// Estimated seconds to the end, at the speed so far. nil: unknown.
    public var secondsLeft: Double?

    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String { MessageID.text(messageNumber, projectID: project) }

    package init(
        project: String, messageNumber: UInt64, kind: TargetKind, target: String, since: Instant,
        deferredPlace: Int? = nil, recipientCount: UInt64 = 0, deliveredCount: UInt64 = 0,
        progress: Double = 0, deliveriesPerSecond: Double = 0, share: Double = 0,
        secondsLeft: Double? = nil
    ) {
        self.project = project
        self.messageNumber = messageNumber
        self.kind = kind
        self.target = target
        self.since = since
        self.deferredPlace = deferredPlace
        self.recipientCount = recipientCount
        self.deliveredCount = deliveredCount
        self.progress = progress
        self.deliveriesPerSecond = deliveriesPerSecond
        self.share = share
        self.secondsLeft = secondsLeft
    }

    /// Bytes of an encoded entry whose texts are empty.
    static let bytesMin = 61

    init(from reader: inout WireReader) throws(WireError) {
        project = try reader.string()
        messageNumber = try reader.u64()
        kind = try reader.choice("target kind")
        target = try reader.string()
        since = Instant(millisecondsSince1970: try reader.i64())
        let place = try reader.size("place")
        deferredPlace = place == 0 ? nil : place
        recipientCount = try reader.u64()
        deliveredCount = try reader.u64()
        progress = try reader.part("progress")
        deliveriesPerSecond = Double(try reader.u32())
        share = try reader.part("share")
        secondsLeft = try reader.optionalU32().map { Double($0) }
    }

    func encode(into writer: inout WireWriter) {
        writer.string(project)
        writer.u64(messageNumber)
        writer.u8(kind.rawValue)
        writer.string(target)
        writer.i64(since.millisecondsSince1970)
        writer.u64(UInt64(clamping: deferredPlace ?? 0))
        writer.u64(recipientCount)
        writer.u64(deliveredCount)
        writer.u32(UInt32(millionths: progress))
        writer.u32(UInt32(bounding: deliveriesPerSecond))
        writer.u32(UInt32(millionths: share))
        writer.optionalU32(secondsLeft.map { UInt32(bounding: $0.rounded(.up), isOptional: true) })
    }
}

extension WireReader {
    /// Reads a count of things in memory or on disk.
    /// - Throws: `WireError` for a count beyond `Int`, which no broker can have.
    mutating func size(_ field: String) throws(WireError) -> Int {
        let value = try u64()
        guard let size = Int(exactly: value) else {
            throw .unknownValue(field: field, value: value)
        }
        return size
    }

    /// Reads a part of 1, in millionths.
    /// - Throws: `WireError` for more than 1.
    mutating func part(_ field: String) throws(WireError) -> Double {
        let millionths = try u32()
        guard millionths <= 1_000_000 else {
            throw .unknownValue(field: field, value: UInt64(millionths))
        }
        return Double(millionths) / 1_000_000
    }
}

extension UInt32 {
    /// Converts a part of 1 to millionths. A part that came as millionths comes back exactly.
    init(millionths part: Double) {
        self.init((Swift.min(Swift.max(part, 0), 1) * 1_000_000).rounded())
    }

    /// Cuts a value to the range of the type, below `WireVersion.absent` for an optional value.
    fileprivate init(bounding value: Double, isOptional: Bool = false) {
        self.init(Swift.min(Swift.max(value, 0), Double(isOptional ? Self.max - 1 : Self.max)))
    }
}

/// FANOUT_PAGE (0x51): fanouts project by project. A project's fanouts in progress come before its deferred
/// messages, both in their order.
public struct FanoutPage: WireAnswer {
    public var correlation: UInt32
    /// Cursor for the request of the next page; empty on the last page.
    public var nextCursor: String
    public var fanouts: [FanoutSummary]

    public init(correlation: UInt32 = 0, nextCursor: String, fanouts: [FanoutSummary]) {
        self.correlation = correlation
        self.nextCursor = nextCursor
        self.fanouts = fanouts
    }

    package static var type: FrameType { .fanoutPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        nextCursor = try reader.string()
        fanouts = try reader.list(entryBytesMin: FanoutSummary.bytesMin) {
            (reader) throws(WireError) in try FanoutSummary(from: &reader)
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(nextCursor)
        writer.list(fanouts) { (writer, fanout) in fanout.encode(into: &writer) }
    }
}

extension AdministratorInterface {
    /// FAN-8: fanouts in progress and deferred messages, project by project. The deferred messages of a project
    /// follow its fanouts.
    /// - Parameters:
    ///   - project: ID of a project; nil: all projects. On a connection with a project, nil is that project.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`.
    public func fanouts(
        in project: String? = nil, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<FanoutSummary> {
        let page = try await requests.ask(
            ListFanoutsRequest(
                projectID: project ?? "", cursor: after, limit: UInt16(pageLimit: limit)))
        return ListPage(entries: page.fanouts, nextCursor: page.nextCursor)
    }
}

extension SenderInterface {
    /// FAN-8: the project's fanouts in progress, followed by the deferred messages.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `INVALID_ARGUMENT`.
    public func fanouts(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<FanoutSummary> {
        let page = try await requests.ask(
            ListFanoutsRequest(projectID: "", cursor: after, limit: UInt16(pageLimit: limit)))
        return ListPage(entries: page.fanouts, nextCursor: page.nextCursor)
    }
}
