// SPDX-License-Identifier: Apache-2.0
//
// Requests about the broker's present work: fanouts, the status, metrics, and quotas (FAN-8, OPS-10, QUO-3, QUO-4).
// Rests on ServedRequest and Gauges.

import MartletBase
import MartletCommitter
import MartletEngine
import MartletRows
import MartletWire

extension ListFanoutsRequest: ServedQuestion {
    /// Answers with a page of fanouts. A sender sees only its own project. An administrator sees any project,
    /// or all projects.
    func answer(to principal: Principal, _ answerer: Answerer) throws -> FanoutPage {
        var project: ProjectNumber?
        switch principal {
        case .administrator(let own):
            project = own
            if !projectID.isEmpty {
                project = try answerer.read {
                    try Authentication.project(id: projectID, in: $0).number
                }
            }
        case .sender, .device, .nobody:
            let own = try principal.senderProject()
            project = own
            let isNamed =
                try projectID.isEmpty
                || answerer.read { try $0.projects.project(own)?.id == projectID }
            guard isNamed else {
                throw MartletError(
                    .permissionDenied, "A sender asks for the fanouts of its own project.",
                    field: "project")
            }
        }
        let page = try answerer.gauges.fanouts(of: project, after: cursor, limit: Int(limit))
        return FanoutPage(nextCursor: page.next ?? "", fanouts: page.entries)
    }
}

extension StatusRequest: ServedQuestion {
    static var isAboutProcess: Bool { true }

    func answer(to principal: Principal, _ answerer: Answerer) throws -> StatusResult {
        try principal.checkAdministrator()
        var status = answerer.gauges.status()
        // OPS-7: any node answers for all.
        answerer.gauges.committer.node?.addOthers(to: &status)
        return StatusResult(status: status)
    }
}

extension MetricsRequest: ServedQuestion {
    static var isAboutProcess: Bool { true }

    func answer(to principal: Principal, _ answerer: Answerer) throws -> MetricsResult {
        try principal.checkAdministrator()
        return MetricsResult(text: answerer.gauges.metricsText())
    }
}

extension QuotasRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> QuotaList {
        let number = try principal.senderProject()
        let project = try answerer.read { try $0.projects.project(number) }
        // OPS-7: the active node counts the quotas of changes.
        let counted = answerer.gauges.committer.node?.quotas(of: number)
        let amounts = answerer.quotas.amounts(
            of: number, with: project?.limits ?? ProjectLimits(), at: answerer.gauges.clock(),
            counted: counted,
            fanoutsInProgress: answerer.gauges.fanoutsInProgress(of: number, id: project?.id))
        return QuotaList(
            quotas: amounts.map {
                QuotaSummary(
                    name: $0.name, limit: $0.limit, remaining: $0.remaining,
                    untilFullMilliseconds: $0.untilFullMilliseconds)
            })
    }
}
