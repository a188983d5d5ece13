// SPDX-License-Identifier: Apache-2.0
//
// A sender's requests about accepted messages: cancellations and reports (MSG-10, REP-1, REP-2). Rests on ServedRequest
// and the engine's queries.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

extension CancelRequest: ServedRequest {
    /// Deliveries are counted by acknowledgements, so the loop's acknowledgements go before the cancellation.
    static var comesAfterAcknowledgements: Bool { true }

    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<Cancelled> {
        let project = try principal.senderProject()
        let number = messageNumber
        return .command(.cancel(project: project, number: number)) {
            outcome throws(MartletError) in
            guard case .cancelled(_, _, let sequence) = outcome else { throw .unexpected }
            guard sequence != nil else {
                return .answer(Cancelled(wasScheduled: true, delivered: 0))
            }
            // The cancellation is committed. The recipients with the message are counted in a snapshot.
            return .question {
                Cancelled(
                    wasScheduled: false,
                    delivered: try answerer.read {
                        try Delivered.count(of: number, in: project, $0)
                    })
            }
        }
    }
}

extension ReportRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> ReportResult {
        let project = try principal.senderProject()
        let report = try answerer.read {
            try Reports.message(
                messageNumber, in: project, limits: answerer.limits, now: answerer.gauges.clock(),
                $0)
        }
        guard let report else { throw MartletError.noReport(answerer.limits) }
        return ReportResult(
            messageNumber: report.messageNumber, accepted: report.accepted,
            unsettledCount: report.unsettledCount, counts: DeliveryCounts(report.counts),
            refusals: report.refusals)
    }
}

extension ListDaysRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> DayPage {
        let project = try principal.senderProject()
        let page = try answerer.read {
            try Reports.page(
                from: first.rawValue, through: last.rawValue, in: project, after: cursor,
                limit: Int(limit), limits: answerer.limits, now: answerer.gauges.clock(), $0)
        }
        return DayPage(
            nextCursor: page.next ?? "", entries: page.entries.map { DailyCounts($0) })
    }
}

extension ListNotReceivedRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> TokenPage {
        let project = try principal.senderProject()
        let start = try Ordinal(cursor: cursor)
        let page = try answerer.read {
            try Reports.notReceived(
                messageNumber, in: project, from: start, limit: Int(limit), $0)
        }
        guard let page else { throw MartletError.noReport(answerer.limits) }
        return TokenPage(page)
    }
}

extension DailyCounts {
    init(_ report: DayReport) {
        self.init(
            day: Day(report.day), app: report.app.name, platform: report.app.platform,
            counts: DeliveryCounts(report.counts))
    }
}
