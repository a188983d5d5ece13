// SPDX-License-Identifier: Apache-2.0
//
// A sender's requests about groups: instances that share a notification key, the target `MessageTarget.group` (GRP-1
// to GRP-5). Rests on `SenderInterface`.

public import MartletBase

/// A group with the tokens of its members (GRP-1).
public struct GroupDetails: Sendable, Hashable {
    /// Name of the group, unique in the project.
    public var name: String
    /// The notification key, by which senders address the group.
    public var key: String
    /// Tokens of the members, in the order of their joining. Empty: the group has ended (GRP-4).
    public var tokens: [String]

    package init(_ result: GroupResult) {
        name = result.name
        key = result.key
        tokens = result.tokens
    }
}

extension SenderInterface {
    /// Creates a group.
    /// - Parameters:
    ///   - name: unique in the project; 1 to 255 bytes without control characters.
    ///   - tokens: tokens of 1 to 20 instances of the project. A repeated token counts once.
    /// - Throws: `ALREADY_EXISTS`; `INVALID_ARGUMENT`; for a single token (field `tokens[3]`) also `UNREGISTERED`,
    ///   `SENDER_ID_MISMATCH`, and `RESOURCE_EXHAUSTED` for an instance in too many groups. A refused request has no
    ///   effect.
    public func createGroup(
        named name: String, tokens: [String]
    ) async throws(Failure) -> GroupDetails {
        GroupDetails(try await requests.ask(CreateGroupRequest(name: name, tokens: tokens)))
    }

    /// GRP-2: adds instances to a group. Adding a member again has no effect.
    /// - Parameters:
    ///   - name: name of the group.
    ///   - key: notification key of the group.
    ///   - tokens: tokens of instances of the project.
    /// - Throws: `NOT_FOUND`; `INVALID_ARGUMENT` for the key of another group, and if the group would have more
    ///   than 20 members; for a single token the errors of `createGroup(named:tokens:)`. A refused request has no
    ///   effect.
    @discardableResult
    public func addToGroup(
        named name: String, key: String, tokens: [String]
    ) async throws(Failure) -> GroupDetails {
        GroupDetails(
            try await requests.ask(
                ChangeGroupRequest(operation: .add, name: name, key: key, tokens: tokens)))
    }

    /// GRP-2: removes instances from a group. A token of an instance outside the group is ignored. A group ends
    /// with its last member (GRP-4), and the returned group then has no tokens.
    /// - Throws: `NOT_FOUND`; `INVALID_ARGUMENT` for the key of another group, for the number of tokens, and for text
    ///   that is no token. A refused request has no effect.
    @discardableResult
    public func removeFromGroup(
        named name: String, key: String, tokens: [String]
    ) async throws(Failure) -> GroupDetails {
        GroupDetails(
            try await requests.ask(
                ChangeGroupRequest(operation: .remove, name: name, key: key, tokens: tokens)))
    }

    /// GRP-3: finds a group by its name.
    /// - Throws: `NOT_FOUND`.
    public func group(named name: String) async throws(Failure) -> GroupDetails {
        GroupDetails(try await requests.ask(FindGroupRequest(name: name)))
    }

    /// All groups of the project, in the order of their names.
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `INVALID_ARGUMENT` for the limit.
    public func groups(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<GroupSummary> {
        ListPage(
            try await requests.ask(
                ListGroupsRequest(after: after, limit: UInt16(pageLimit: limit))))
    }
}

extension ListPage where Element == GroupSummary {
    package init(_ page: GroupPage) {
        self.init(entries: page.groups, next: page.hasMore ? page.groups.last?.name : nil)
    }
}
