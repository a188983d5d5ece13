// SPDX-License-Identifier: Apache-2.0
//
// Senders' questions about sent messages (REP-1, REP-2). Rests on `SenderInterface`.

public import MartletBase

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
