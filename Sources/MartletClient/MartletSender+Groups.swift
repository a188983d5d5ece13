// SPDX-License-Identifier: Apache-2.0
//
// Groups of instances, addressed by a notification key with `MessageTarget.group` (GRP-1 to GRP-5). Rests on
// `MartletSender`.

import MartletBase
import MartletWire

extension MartletSender {
    /// GRP-1: creates a group of 1 to 20 instances. The name is unique in the project.
    public func createGroup(named name: String, tokens: [String]) async throws -> GroupResult {
        let answer = try await client.request { correlation in
            .createGroup(CreateGroupRequest(correlation: correlation, name: name, tokens: tokens))
        }
        return try group(answer)
    }

    /// GRP-2: adds instances to a group. An instance that is already a member stays a member.
    @discardableResult
    public func addToGroup(
        named name: String, key: String, tokens: [String]
    ) async throws -> GroupResult {
        try await change(.add, name, key, tokens)
    }

    /// GRP-2: removes instances from a group. A group ends with its last member (GRP-4).
    @discardableResult
    public func removeFromGroup(
        named name: String, key: String, tokens: [String]
    ) async throws -> GroupResult {
        try await change(.remove, name, key, tokens)
    }

    private func change(
        _ operation: GroupOperation, _ name: String, _ key: String, _ tokens: [String]
    ) async throws -> GroupResult {
        let answer = try await client.request { correlation in
            .changeGroup(
                ChangeGroupRequest(
                    correlation: correlation, operation: operation, name: name, key: key,
                    tokens: tokens))
        }
        return try group(answer)
    }

    /// GRP-3: looks up a group by name.
    public func group(named name: String) async throws -> GroupResult {
        let answer = try await client.request { correlation in
            .question(.findGroup(FindGroupRequest(correlation: correlation, name: name)))
        }
        return try group(answer)
    }

    /// A page of the project's groups in order of name, after the name `after`.
    public func groups(after: String = "", limit: UInt16 = 1000) async throws -> GroupPage {
        let answer = try await client.request { correlation in
            .question(
                .listGroups(ListGroupsRequest(correlation: correlation, after: after, limit: limit))
            )
        }
        guard case .groupPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    private func group(_ answer: BrokerFrame) throws -> GroupResult {
        guard case .group(let group) = answer else { throw unexpected(answer) }
        return group
    }
}
