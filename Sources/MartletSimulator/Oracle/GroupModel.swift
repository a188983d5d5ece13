// SPDX-License-Identifier: Apache-2.0
//
// Groups as a world knows them: a list of instances under a name. Rests on the models.

import MartletBase

/// A group, also one that has ended.
final class GroupModel {
    unowned let project: ProjectModel
    let name: String
    let key: String
    /// Instances' numbers, in the order in which they joined; none: it has ended.
    var members: [Int] = []

    init(project: ProjectModel, name: String, key: String) {
        self.project = project
        self.name = name
        self.key = key
    }
}

extension ProjectModel {
    /// The one that there is of a name.
    func group(named name: String) -> GroupModel? {
        groups.first { $0.name == name && !$0.members.isEmpty }
    }

    /// Also those that have ended.
    func group(withKey key: String) -> GroupModel? { groups.first { $0.key == key } }
}
