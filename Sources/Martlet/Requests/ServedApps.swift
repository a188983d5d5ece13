// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8). Rests on ServedKeys.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

/// A change of an app that the broker makes.
protocol ServedAppChange: AppChange {
    static func change(of name: String, on platform: Platform) -> RegistryChange
}

extension ChangeApp: ServedRequest where Change: ServedAppChange {
    func plan(for principal: Principal, _ answerer: Answerer) throws(MartletError) -> Plan<Done> {
        try principal.checkAdministrator()
        return .command(.changeRegistry(project: projectID, Change.change(of: name, on: platform)))
    }
}

extension CreatesApp: ServedAppChange {
    static func change(of name: String, on platform: Platform) -> RegistryChange {
        .createApp(name: name, platform: platform)
    }
}

extension DeletesApp: ServedAppChange {
    static func change(of name: String, on platform: Platform) -> RegistryChange {
        .deleteApp(name: name, platform: platform)
    }
}

extension Apps: ServedListKind {
    static func entries(
        of project: Project, in storage: borrowing Transaction
    ) throws(StorageError) -> [AppSummary] {
        try storage.apps.apps(of: project).map { (app, isLeaving) throws(StorageError) in
            AppSummary(
                name: app.name, platform: app.platform,
                instanceCount: try storage.sets.memberCount(
                    of: .app(app.number), in: project.number),
                isBeingDeleted: isLeaving)
        }
    }
}
