// SPDX-License-Identifier: Apache-2.0
//
// What became of messages that were sent, and who has not got one (REP-1, REP-2). Rests on
// `MartletSender`.

import MartletBase
import MartletWire

extension MartletSender {
    /// REP-1: what became of a message so far, exactly: `counts.targeted` is what all outcomes and
    /// `counts.pending` add up to. NOT_FOUND if no report of it is kept.
    ///
    /// - Parameter messageID: as `SendResult` has it, or its number alone.
    public func report(of messageID: String) async throws -> DeliveryReport {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .report(ReportRequest(correlation: correlation, messageNumber: number))
        }
        guard case .reportResult(let result) = answer else { throw unexpected(answer) }
        return DeliveryReport(
            messageID: MessageID.text(result.messageNumber, projectID: projectID),
            accepted: result.accepted, counts: result.counts,
            unsettledCount: result.unsettledCount)
    }

    /// REP-1: a page of what became of the project's messages, day by day, and for each day app by app;
    /// the cursor is from the page before. What is all zero is left out.
    ///
    /// - Parameter days: UTC, at most 3660. Outcomes count for the day on which the message was accepted;
    ///   what was sent, displayed and opened for the day on which that happened.
    public func reports(
        days: ClosedRange<Day>, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> DayPage {
        let answer = try await client.request { correlation in
            .listDays(
                ListDaysRequest(
                    correlation: correlation, first: days.lowerBound, last: days.upperBound,
                    cursor: cursor, limit: limit))
        }
        guard case .dayPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// REP-2: a page of the tokens of those that a message was for and that have not got it, for whatever
    /// reason; the cursor is from the page before, the total is not counted. Those that have left are not
    /// among them. `OutgoingMessage.notReceived` sends to these.
    ///
    /// - Parameter messageID: as `SendResult` has it, or its number alone.
    public func notReceived(
        _ messageID: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .listNotReceived(
                ListNotReceivedRequest(
                    correlation: correlation, messageNumber: number, cursor: cursor, limit: limit))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }
}
