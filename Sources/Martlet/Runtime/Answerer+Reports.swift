// SPDX-License-Identifier: Apache-2.0
//
// Answers about messages that were sent (REP-1, REP-2). Rests on the engine's queries and MartletWire.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import MartletWire

extension Answerer {
    func answer(_ question: ReportRequest, _ project: ProjectNumber) throws -> BrokerFrame {
        let report = try store.read { (transaction) throws in
            try Reports.message(
                question.messageNumber, in: project, limits: limits, now: gauges.clock(),
                transaction)
        }
        guard let report else { throw MartletError.noReport(limits) }
        return .reportResult(
            ReportResult(
                correlation: question.correlation, messageNumber: report.messageNumber,
                accepted: report.accepted, unsettledCount: report.unsettledCount,
                counts: DeliveryCounts(report.counts)))
    }

    func answer(_ question: ListDaysRequest, _ project: ProjectNumber) throws -> BrokerFrame {
        let page = try store.read { (transaction) throws in
            try Reports.page(
                from: question.first.rawValue, through: question.last.rawValue, in: project,
                after: question.cursor, limit: Int(question.limit), limits: limits,
                now: gauges.clock(), transaction)
        }
        return .dayPage(
            DayPage(
                correlation: question.correlation, nextCursor: page.next ?? "",
                entries: page.entries.map { DailyCounts($0) }))
    }

    func answer(
        _ question: ListNotReceivedRequest, _ project: ProjectNumber
    ) throws -> BrokerFrame {
        let start = try Ordinal(cursor: question.cursor)
        let page = try store.read { (transaction) throws in
            try Reports.notReceived(
                question.messageNumber, in: project, from: start, limit: Int(question.limit),
                transaction)
        }
        guard let page else { throw MartletError.noReport(limits) }
        return .tokenPage(TokenPage(correlation: question.correlation, page))
    }
}

extension DeliveryCounts {
    init(_ counts: ReportCounts) {
        self.init()
        targeted = counts[.targeted]
        sent = counts[.sent]
        displayed = counts[.displayed]
        opened = counts[.opened]
        acknowledged = counts[.acknowledged]
        collapsed = counts[.collapsed]
        expired = counts[.expired]
        rateLimited = counts[.rateLimited]
        discardedTooMany = counts[.discardedTooMany]
        discardedInactive = counts[.discardedInactive]
        unregistered = counts[.unregistered]
        cancelled = counts[.cancelled]
        nowOrNever = counts[.nowOrNever]
    }
}

extension DailyCounts {
    init(_ report: DayReport) {
        self.init(
            day: Day(report.day), app: report.app.name, platform: report.app.platform,
            counts: DeliveryCounts(report.counts))
    }
}
