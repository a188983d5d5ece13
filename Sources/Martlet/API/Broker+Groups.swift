// SPDX-License-Identifier: Apache-2.0
//
// Groups of instances that share a notification key, the target `MessageTarget.group` (GRP-1 to GRP-5). Rests
// on Broker.

import MartletEngine
public import MartletWire

extension Broker {
    /// Creates a group.
    /// - Parameters:
    ///   - name: unique in the project; 1 to 255 bytes without control characters.
    ///   - tokens: tokens of 1 to 20 instances of the project. A repeated token counts once.
    /// - Throws: `ALREADY_EXISTS`; `NOT_FOUND` for the project; `INVALID_ARGUMENT`; for a single token (field
    ///   `tokens[3]`) also `UNREGISTERED`, `SENDER_ID_MISMATCH`, and `RESOURCE_EXHAUSTED` for an instance in too many
    ///   groups. A refused request has no effect.
    public func createGroup(
        named name: String, tokens: [String], in project: String
    ) async throws(MartletError) -> GroupDetails {
        GroupDetails(
            try await perform(CreateGroupRequest(name: name, tokens: tokens), in: project))
    }

    /// GRP-2: adds instances to a group. Adding a member again has no effect.
    /// - Parameters:
    ///   - name: name of the group.
    ///   - key: notification key of the group.
    /// - Throws: `NOT_FOUND`; `INVALID_ARGUMENT` for the key of another group, and if the group would have more
    ///   than 20 members; for a single token (field `tokens[3]`) also `UNREGISTERED`, `SENDER_ID_MISMATCH`, and
    ///   `RESOURCE_EXHAUSTED` for an instance in too many groups. A refused request has no effect.
    @discardableResult
    public func addToGroup(
        named name: String, key: String, tokens: [String], in project: String
    ) async throws(MartletError) -> GroupDetails {
        try await change(.add, name, key, tokens, project)
    }

    /// GRP-2: removes instances from a group. A token of an instance outside the group is ignored. A group ends
    /// with its last member (GRP-4), and the returned group then has no tokens.
    /// - Throws: `NOT_FOUND`; `INVALID_ARGUMENT` for the key of another group, for the number of tokens, and for text
    ///   that is no token. A refused request has no effect.
    @discardableResult
    public func removeFromGroup(
        named name: String, key: String, tokens: [String], in project: String
    ) async throws(MartletError) -> GroupDetails {
        try await change(.remove, name, key, tokens, project)
    }

    private func change(
        _ operation: GroupOperation, _ name: String, _ key: String, _ tokens: [String],
        _ project: String
    ) async throws(MartletError) -> GroupDetails {
        GroupDetails(
            try await perform(
                ChangeGroupRequest(operation: operation, name: name, key: key, tokens: tokens),
                in: project))
    }

    /// GRP-3: finds a group by its name.
    /// - Throws: `NOT_FOUND`.
    public func group(
        named name: String, in project: String
    ) throws(MartletError) -> GroupDetails {
        GroupDetails(try answer(FindGroupRequest(name: name), in: project))
    }

    /// Finds a group by its notification key.
    /// - Returns: nil if no group of the project has the key.
    /// - Throws: `NOT_FOUND` for the project.
    public func group(key: String, in project: String) throws(MartletError) -> GroupDetails? {
        let number = try number(of: project)
        guard let key = try? GroupKey(validating: key) else { return nil }
        return try ask { try Listing.group(key, in: number, $0) }.map {
            GroupDetails(GroupResult($0))
        }
    }

    /// Whether a text is a notification key that was made for the project. The key of an ended group counts too
    /// (GRP-4).
    /// - Throws: `NOT_FOUND` for the project.
    package func isGroupKey(_ text: String, in project: String) throws(MartletError) -> Bool {
        let number = try number(of: project)
        return (try? GroupKey(validating: text))?.isMade(for: number) ?? false
    }

    /// All groups of a project, in the order of their names.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT` for the limit.
    public func groups(
        in project: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<GroupSummary> {
        ListPage(
            try answer(
                ListGroupsRequest(after: after, limit: UInt16(clamping: limit)), in: project))
    }
}
