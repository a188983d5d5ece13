// SPDX-License-Identifier: Apache-2.0
//
// Senders' questions about sent messages, and the answers (REP-1, REP-2). TOKEN_PAGE answers the question for the
// instances without a message. Rests on `DeliveryCounts`.

public import MartletBase

/// REPORT (0x80): REP-1, asks for the counts of a message. Answered by REPORT_RESULT.
public struct ReportRequest: WireRequest {
    package typealias Answer = ReportResult

    public var correlation: UInt32
    /// Number in the message ID.
    public var messageNumber: UInt64

    public init(correlation: UInt32 = 0, messageNumber: UInt64) {
        self.correlation = correlation
        self.messageNumber = messageNumber
    }

    package static var type: FrameType { .report }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
    }
}

/// REPORT_RESULT (0x81): the counts of a message.
public struct ReportResult: WireAnswer {
    public var correlation: UInt32
    public var messageNumber: UInt64
    public var accepted: Instant
    /// Pending instances whose mailboxes the broker did not look into.
    public var unsettledCount: UInt64
    public var counts: DeliveryCounts
    /// GW-11: why push services refused the message.
    public var refusals: [RefusalCount]

    public init(
        correlation: UInt32 = 0, messageNumber: UInt64, accepted: Instant, unsettledCount: UInt64,
        counts: DeliveryCounts, refusals: [RefusalCount] = []
    ) {
        self.correlation = correlation
        self.messageNumber = messageNumber
        self.accepted = accepted
        self.unsettledCount = unsettledCount
        self.counts = counts
        self.refusals = refusals
    }

    package static var type: FrameType { .reportResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
        accepted = Instant(millisecondsSince1970: try reader.i64())
        unsettledCount = try reader.u64()
        counts = try DeliveryCounts(from: &reader)
        refusals = try reader.list(entryBytesMin: 11) { (reader) throws(WireError) in
            RefusalCount(
                kind: try reader.choice("push service"), reason: try reader.string(),
                count: try reader.u64())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
        writer.i64(accepted.millisecondsSince1970)
        writer.u64(unsettledCount)
        counts.encode(into: &writer)
        writer.list(refusals) { (writer, refusal) in
            writer.u8(refusal.kind.rawValue)
            writer.string(refusal.reason)
            writer.u64(refusal.count)
        }
    }
}

/// LIST_DAYS (0x82): REP-1, asks for a project's counts by day and app. Answered by DAY_PAGE.
public struct ListDaysRequest: WireRequest {
    package typealias Answer = DayPage

    public var correlation: UInt32
    public var first: Day
    /// Last day of the range, included.
    public var last: Day
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, first: Day, last: Day, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.first = first
        self.last = last
        self.cursor = cursor
        self.limit = limit
    }

    package static var type: FrameType { .listDays }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        first = Day(try reader.u32())
        last = Day(try reader.u32())
        cursor = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u32(first.rawValue)
        writer.u32(last.rawValue)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// DAY_PAGE (0x83): counts in order of day, then of app. Entries with only zeros are left out.
public struct DayPage: WireAnswer {
    public var correlation: UInt32
    /// Cursor for the request of the next page; empty on the last page.
    public var nextCursor: String
    public var entries: [DailyCounts]

    public init(correlation: UInt32 = 0, nextCursor: String, entries: [DailyCounts]) {
        self.correlation = correlation
        self.nextCursor = nextCursor
        self.entries = entries
    }

    package static var type: FrameType { .dayPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        nextCursor = try reader.string()
        entries = try reader.list(entryBytesMin: 7 + DeliveryCounts.byteCount) {
            (reader) throws(WireError) in
            DailyCounts(
                day: Day(try reader.u32()), app: try reader.string(),
                platform: try reader.choice("platform"),
                counts: try DeliveryCounts(from: &reader))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(nextCursor)
        writer.list(entries) { (writer, entry) in
            writer.u32(entry.day.rawValue)
            writer.string(entry.app)
            writer.u8(entry.platform.rawValue)
            entry.counts.encode(into: &writer)
        }
    }
}

/// LIST_NOT_RECEIVED (0x84): REP-2, asks for the tokens of instances that a message was for and that have not got
/// the message. Answered by TOKEN_PAGE with a total of 0, because the broker does not count the list.
public struct ListNotReceivedRequest: WireRequest {
    package typealias Answer = TokenPage

    public var correlation: UInt32
    /// Number in the message ID.
    public var messageNumber: UInt64
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, messageNumber: UInt64, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.messageNumber = messageNumber
        self.cursor = cursor
        self.limit = limit
    }

    package static var type: FrameType { .listNotReceived }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        messageNumber = try reader.u64()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(messageNumber)
        writer.string(cursor)
        writer.u16(limit)
    }
}

extension SenderInterface {
    /// REP-1: exact counts of a message's outcomes so far. `counts.targeted` is the sum of all outcomes and
    /// `counts.pending`.
    /// - Parameter messageID: as in `SendReceipt`, or the number alone.
    /// - Throws: `NOT_FOUND` for an unknown message, for a message that is now or never on each platform, and for a
    ///   message whose report is no longer kept; `INVALID_ARGUMENT` for text that is no message ID.
    public func report(of messageID: String) async throws -> DeliveryReport {
        let number = try MessageID.number(messageID, projectID: projectID)
        return DeliveryReport(
            try await requests.ask(ReportRequest(messageNumber: number)), projectID: projectID)
    }

    /// REP-1: counts of the project's messages by day and app, in pages. Entries with zero counts alone are left out.
    /// - Parameters:
    ///   - days: UTC, at most 3660 days. Outcomes count for the day on which the message was accepted. Sent,
    ///     displayed and opened messages count for the day of the event.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries. A page may have fewer entries, because its bytes are bounded too.
    /// - Throws: `INVALID_ARGUMENT`.
    public func reports(
        days: ClosedRange<Day>, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<DailyCounts> {
        let page = try await requests.ask(
            ListDaysRequest(
                first: days.lowerBound, last: days.upperBound, cursor: after,
                limit: UInt16(pageLimit: limit)))
        return ListPage(entries: page.entries, nextCursor: page.nextCursor)
    }

    /// REP-2: tokens of the recipients that have not got a message, for any reason, in pages. Unregistered
    /// instances are left out. `OutgoingMessage.notReceived` sends to the listed instances.
    /// - Parameters:
    ///   - messageID: as in `SendReceipt`, or the number alone.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: the errors of `report(of:)`.
    public func notReceived(
        _ messageID: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws -> ListPage<String> {
        let number = try MessageID.number(messageID, projectID: projectID)
        return ListPage(
            try await requests.ask(
                ListNotReceivedRequest(
                    messageNumber: number, cursor: after, limit: UInt16(pageLimit: limit))))
    }
}

extension DeliveryReport {
    package init(_ result: ReportResult, projectID: String) {
        self.init(
            messageID: MessageID.text(result.messageNumber, projectID: projectID),
            accepted: result.accepted, counts: result.counts,
            unsettledCount: result.unsettledCount, refusals: result.refusals)
    }
}
