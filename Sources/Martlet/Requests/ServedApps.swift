// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the apps of a project (REG-8). Rests on ServedKeys.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

extension CreateAppRequest: ServedCommand {
    var command: Command {
        .changeRegistry(project: projectID, .createApp(name: name, platform: platform))
    }
}

extension DeleteAppRequest: ServedCommand {
    var command: Command {
        .changeRegistry(project: projectID, .deleteApp(name: name, platform: platform))
    }
}

extension ListAppsRequest: ServedList {
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
