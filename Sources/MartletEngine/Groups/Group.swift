// SPDX-License-Identifier: Apache-2.0
//
// A group of instances that is sent to by one key (GRP-1): few members, kept by ordinal, so that a new
// token changes nothing (REG-4). Rests on MartletBase.

public import MartletBase
import MartletRows

/// A group as it is kept.
public struct Group: Sendable, Hashable {
    public var key: GroupKey
    public var name: GroupName
    /// 1 to 20, in the order in which they joined.
    public var members: [Ordinal]

    public init(key: GroupKey, name: GroupName, members: [Ordinal]) {
        self.key = key
        self.name = name
        self.members = members
    }
}

/// A group as it is told.
public struct GroupMembers: Sendable, Hashable {
    public var key: GroupKey
    public var name: GroupName
    /// In the order in which they joined.
    public var tokens: [Token]

    public init(key: GroupKey, name: GroupName, tokens: [Token]) {
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
    /// The instance that a group has as its member.
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
