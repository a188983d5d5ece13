// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8). Rests on ServedRequest.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension CreateAppRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(
            .changeRegistry(project: projectID, .createApp(name: name, platform: platform)))
    }
}

extension DeleteAppRequest: ServedRequest {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(
            .changeRegistry(project: projectID, .deleteApp(name: name, platform: platform)))
    }
}

extension ListAppsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> AppPage {
        try principal.checkAdministrator()
        return try answerer.read { (transaction) throws in
            let project = try Authentication.project(id: projectID, in: transaction)
            return AppPage(
                apps: try transaction.apps.apps(of: project).map { (app, isLeaving) throws in
                    AppSummary(
                        name: app.name, platform: app.platform,
                        instanceCount: try transaction.sets.memberCount(
                            of: .app(app.number), in: project.number),
                        isBeingDeleted: isLeaving)
                })
        }
    }
}
