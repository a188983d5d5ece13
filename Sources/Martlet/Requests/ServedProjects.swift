// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about projects and their limits. Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

extension CreateProjectRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<ProjectResult> {
        try principal.checkAdministrator()
        let key = Credentials.serverKey()
        let command = Command.createProject(
            id: projectID, senderID: Credentials.senderID(),
            conditionTopicsMax: Int(conditionTopicsMax),
            key: NewKey(id: key.id, name: "first", digest: Credentials.digest(key.text)))
        let limits = answerer.limits
        return .command(command) { outcome throws(MartletError) in
            .answer(
                ProjectResult(
                    project: ProjectSummary(try outcome.project(), limits),
                    registrationKey: key.text))
        }
    }
}

extension ChangeProjectRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<ProjectResult> {
        try principal.checkAdministrator()
        let limits = answerer.limits
        return .command(
            .changeProject(
                id: projectID, weight: weight.map { Int($0) }, overload: overload,
                conditionTopicsMax: conditionTopicsMax.map { Int($0) })
        ) { outcome throws(MartletError) in
            .answer(ProjectResult(project: ProjectSummary(try outcome.project(), limits)))
        }
    }
}

extension ListProjectsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> ProjectPage {
        try principal.checkAdministrator()
        let page = try answerer.read {
            try Listing.projects(after: after, limit: Int(limit), $0)
        }
        let limits = answerer.limits
        return ProjectPage(
            hasMore: page.hasMore, projects: page.entries.map { ProjectSummary($0, limits) })
    }
}

extension FindLimitsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> LimitsResult {
        try principal.checkAdministrator()
        let project = try answerer.read { try Authentication.project(id: projectID, in: $0) }
        return LimitsResult(limits: answerer.limits.summaries(with: project.limits))
    }
}

extension ChangeLimitsRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<LimitsResult> {
        try principal.checkAdministrator()
        let limits = answerer.limits
        return .command(
            .changeRegistry(project: projectID, .limits(changes))
        ) { outcome throws(MartletError) in
            .answer(LimitsResult(limits: limits.summaries(with: try outcome.project().limits)))
        }
    }
}

extension Outcome {
    /// The project of a command that makes or changes one.
    fileprivate func project() throws(MartletError) -> Project {
        guard case .project(let project) = self else { throw .unexpected }
        return project
    }
}

extension ProjectSummary {
    /// - Parameter limits: the broker's limits, for those that the project has not of its own.
    init(_ project: Project, _ limits: BrokerLimits) {
        self.init(
            id: project.id, senderID: project.senderID,
            conditionTopicsMax: project.conditionTopicsMax(limits),
            instanceCount: project.instanceCount, topicCount: project.topicCount,
            weight: project.weight, overload: project.overload)
    }
}
