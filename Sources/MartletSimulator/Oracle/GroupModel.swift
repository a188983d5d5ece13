// SPDX-License-Identifier: Apache-2.0
//
// Groups in a world: a list of instances under a name. Rests on the models.

import MartletBase

/// A group, present or ended.
final class GroupModel {
    unowned let project: ProjectModel
    let name: String
    let key: String
    /// Numbers of the member instances, in the order of joining. Empty: the group has ended.
    var members: [Int] = []

    init(project: ProjectModel, name: String, key: String) {
        self.project = project
        self.name = name
        self.key = key
    }
}

extension ProjectModel {
    /// The present group with this name.
    func group(named name: String) -> GroupModel? {
        groups.first { $0.name == name && !$0.members.isEmpty }
    }

    /// The group with this key, present or ended.
    func group(withKey key: String) -> GroupModel? { groups.first { $0.key == key } }
}
