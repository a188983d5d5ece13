// SPDX-License-Identifier: Apache-2.0
//
// Makes, changes and deletes groups of instances (GRP-1, GRP-2, GRP-4). A request is applied as a whole or not at all: every
// token is checked before anything is written. A group exists from its first member to its last, which may also leave by
// unregistering (REG-3). Rests on the ledgers.

import MartletBase
import MartletRows

extension Engine {
    func createGroup(
        named text: String, key: GroupKey, tokens: [String], in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var group: Group
        do throws(Obstacle) {
            let name = try checked(GroupName(validating: text))
            guard try rows(storage.groups.group(named: name, in: number)) == nil else {
                throw .refusal(
                    MartletError(
                        .alreadyExists, "A group of this name exists; choose another name.",
                        field: "name"))
            }
            group = Group(key: key, name: name, members: [])
            try join(tokens, to: &group, in: number, storage)
        } catch {
            return .refused(try error.refusal())
        }
        invariant(
            (1...Limits.groupMembersCeiling).contains(group.members.count),
            "A new group has a member, and no more than a group may have.")
        try storage.groups.put(group, in: number)
        return .group(try GroupMembers(group, in: number, storage))
    }

    func changeGroup(
        named text: String, key keyText: String, _ change: GroupOperation, tokens: [String],
        in number: ProjectNumber, _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        var group: Group
        do throws(Obstacle) {
            let name = try checked(GroupName(validating: text))
            let key = try checked(GroupKey(validating: keyText))
            guard let found = try rows(storage.groups.group(named: name, in: number)) else {
                throw .refusal(.noGroup)
            }
            group = found
            guard group.key == key else {
                throw .refusal(
                    MartletError(
                        .invalidArgument, "The key is not that of the group of this name.",
                        field: "key"))
            }
            switch change {
            case .add: try join(tokens, to: &group, in: number, storage)
            case .remove: try leave(tokens, &group, in: number, storage)
            }
        } catch {
            return .refused(try error.refusal())
        }
        try put(group, in: number, storage)
        return .group(try GroupMembers(group, in: number, storage))
    }

    /// Removes an instance that unregisters from its groups (REG-3).
    func leaveGroups(
        _ ordinal: Ordinal, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        for key in try storage.groups.groupKeys(of: ordinal, in: number) {
            guard var group = try storage.groups.group(key, in: number) else { continue }
            group.members.removeAll { $0 == ordinal }
            try put(group, in: number, storage)
        }
    }

    /// Writes a group, or deletes it if it has no members (GRP-4).
    private func put(
        _ group: Group, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        if group.members.isEmpty {
            try storage.groups.remove(group.key, in: number)
        } else {
            try storage.groups.put(group, in: number)
        }
    }

    /// - Throws: a refusal if a token is wrong or a limit exceeded.
    private func join(
        _ tokens: [String], to group: inout Group, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) {
        let limits = self.limits
        try checked(checkCount(tokens))
        guard let project = try rows(storage.projects.project(number)) else {
            throw .refusal(.noProject)
        }
        let membersMax = project.limits[.groupMembers] ?? limits.groupMembersMax
        for (index, text) in tokens.enumerated() {
            let ordinal = try audiences.instance(text, at: "tokens[\(index)]", in: number, storage)
                .ordinal
            guard !group.members.contains(ordinal) else { continue }
            guard
                try rows(storage.groups.groupKeys(of: ordinal, in: number)).count
                    < Limits.groupsPerInstanceMax
            else {
                throw .refusal(
                    MartletError(
                        .resourceExhausted,
                        "An instance is a member of \(Limits.groupsPerInstanceMax) groups at most.",
                        field: "tokens[\(index)]"))
            }
            group.members.append(ordinal)
        }
        guard group.members.count <= membersMax else {
            throw .refusal(
                MartletError(
                    .invalidArgument,
                    """
                    A group has \(membersMax) members at most (group-members); this one would have \
                    \(group.members.count).
                    """, field: "tokens"))
        }
    }

    /// Removes instances from a group. Skips a token that isn't registered, because its instance is no longer a member.
    /// - Throws: a refusal if a token is malformed.
    private func leave(
        _ tokens: [String], _ group: inout Group, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) {
        try checked(checkCount(tokens))
        for (index, text) in tokens.enumerated() {
            guard let token = Token(text: text) else {
                throw .refusal(.noToken(at: "tokens[\(index)]"))
            }
            // A former token stands for the instance that had it (REG-4).
            var place = try rows(storage.instances.locate(token))
            if place == nil { place = try rows(storage.instances.locateFormer(token)) }
            guard let place, place.project == number else { continue }
            group.members.removeAll { $0 == place.ordinal }
        }
    }

    private func checkCount(_ tokens: [String]) throws(MartletError) {
        guard (1...Limits.tokensPerGroupRequestMax).contains(tokens.count) else {
            throw MartletError(
                .invalidArgument,
                """
                A request names 1 to \(Limits.tokensPerGroupRequestMax) tokens; this one names \
                \(tokens.count).
                """, field: "tokens")
        }
    }
}

extension MartletError {
    static var noGroup: MartletError {
        MartletError(
            .notFound,
            "The project has no such group; 'martlet group list' shows its groups.",
            field: "name")
    }

    static func noToken(at field: String) -> MartletError {
        MartletError(
            .invalidArgument, "This is not a registration token: 32 characters of [A-Za-z0-9_-].",
            field: field)
    }
}
