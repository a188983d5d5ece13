// SPDX-License-Identifier: Apache-2.0
//
// A group of instances with a notification key (GRP-1). It keeps ordinals, so a member's new token changes nothing
// (REG-4). Rests on MartletBase.

package import MartletBase
import MartletRows

/// The stored form of a group.
package struct Group: Sendable, Hashable {
    /// Notification key of the group (GRP-1).
    package var key: GroupKey
    /// Name of the group (GRP-1).
    package var name: GroupName
    /// 1 to 20 members, in the order of joining.
    package var members: [Ordinal]

    package init(key: GroupKey, name: GroupName, members: [Ordinal]) {
        self.key = key
        self.name = name
        self.members = members
    }
}

/// A group as senders see it, with tokens instead of ordinals.
package struct GroupMembers: Sendable, Hashable {
    /// Notification key of the group (GRP-1).
    package var key: GroupKey
    /// Name of the group (GRP-1).
    package var name: GroupName
    /// The members' present tokens, in the order of joining.
    package var tokens: [Token]

    package init(key: GroupKey, name: GroupName, tokens: [Token]) {
        self.key = key
        self.name = name
        self.tokens = tokens
    }

    init(
        _ group: Group, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        self.init(key: group.key, name: group.name, tokens: [])
        for ordinal in group.members {
            tokens.append(try storage.member(ordinal, in: project).token)
        }
    }
}

extension Transaction {
    /// A member's instance.
    /// - Throws: `StorageError` if it isn't registered, because the store is then inconsistent.
    borrowing func member(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Instance {
        guard let instance = try instances.instance(ordinal, in: project) else {
            throw StorageError(
                operation: "read groups", code: 0,
                text: "a member is not registered; run 'martlet check'", isFull: false)
        }
        return instance
    }
}
