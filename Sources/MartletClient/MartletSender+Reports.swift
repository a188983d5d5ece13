// SPDX-License-Identifier: Apache-2.0
//
// Reports on sent messages, and the instances that have not got a message (REP-1, REP-2). Rests on `MartletSender`.

import MartletBase
import MartletWire

extension MartletSender {
    /// REP-1: the exact counts of a message so far. `counts.targeted` is the sum of all outcomes and
    /// `counts.pending`.
    ///
    /// - Parameter messageID: the ID from `SendResult`, or only the number.
    /// - Throws: `NOT_FOUND` if the broker keeps no report on the message.
    public func report(of messageID: String) async throws -> DeliveryReport {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .question(.report(ReportRequest(correlation: correlation, messageNumber: number)))
        }
        guard case .reportResult(let result) = answer else { throw unexpected(answer) }
        return DeliveryReport(
            messageID: MessageID.text(result.messageNumber, projectID: projectID),
            accepted: result.accepted, counts: result.counts,
            unsettledCount: result.unsettledCount)
    }

    /// REP-1: a page of the counts of the project's messages, by day and app. `cursor` is from the previous page.
    /// Entries with only zeros are left out.
    ///
    /// - Parameter days: at most 3660 days in UTC. Outcomes count for the day on which the message was accepted;
    ///   `sent`, `displayed` and `opened` count for the day on which the event happened.
    public func reports(
        days: ClosedRange<Day>, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> DayPage {
        let answer = try await client.request { correlation in
            .question(
                .listDays(
                    ListDaysRequest(
                        correlation: correlation, first: days.lowerBound, last: days.upperBound,
                        cursor: cursor, limit: limit)))
        }
        guard case .dayPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// REP-2: a page of the tokens of instances that a message was for and that have not got the message, for
    /// whatever reason. Unregistered instances are left out. `cursor` is from the previous page, and the page's
    /// total is 0, because the broker does not count the list. `OutgoingMessage.notReceived` limits a send to these
    /// instances.
    ///
    /// - Parameter messageID: the ID from `SendResult`, or only the number.
    public func notReceived(
        _ messageID: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .question(
                .listNotReceived(
                    ListNotReceivedRequest(
                        correlation: correlation, messageNumber: number, cursor: cursor,
                        limit: limit)))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }
}
