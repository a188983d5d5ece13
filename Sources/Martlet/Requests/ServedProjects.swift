// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about projects. Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
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
        return .command(command) { outcome throws(MartletError) in
            guard case .project(let project) = outcome else { throw .unexpected }
            return .answer(
                ProjectResult(
                    project: ProjectSummary(project), registrationKey: key.text))
        }
    }
}

extension ChangeProjectRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<ProjectResult> {
        try principal.checkAdministrator()
        return .command(
            .changeProject(
                id: projectID, weight: weight.map { Int($0) }, overload: overload,
                conditionTopicsMax: conditionTopicsMax.map { Int($0) }), then: ProjectResult.reply)
    }
}

extension ListProjectsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> ProjectPage {
        try principal.checkAdministrator()
        let page = try answerer.read {
            try Listing.projects(after: after, limit: Int(limit), $0)
        }
        return ProjectPage(
            hasMore: page.hasMore, projects: page.entries.map { ProjectSummary($0) })
    }
}

extension ProjectResult {
    fileprivate static let reply: @Sendable (Outcome) throws(MartletError) -> Reply<Self> = {
        outcome throws(MartletError) in
        guard case .project(let project) = outcome else { throw .unexpected }
        return .answer(ProjectResult(project: ProjectSummary(project)))
    }
}

extension ProjectSummary {
    init(_ project: Project) {
        self.init(
            id: project.id, senderID: project.senderID,
            conditionTopicsMax: project.conditionTopicsMax, instanceCount: project.instanceCount,
            topicCount: project.topicCount, weight: project.weight, overload: project.overload)
    }
}
