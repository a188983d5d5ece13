// SPDX-License-Identifier: Apache-2.0
//
// A sender's requests about groups (GRP-1 to GRP-4). Rests on ServedRequest and the engine's queries.

import MartletBase
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire

extension CreateGroupRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<GroupResult> {
        let project = try principal.senderProject()
        return .command(
            .createGroup(
                project: project, name: name, key: Credentials.groupKey(of: project),
                tokens: tokens), then: GroupResult.reply)
    }
}

extension ChangeGroupRequest: ServedRequest {
    func plan(
        for principal: Principal, _ answerer: Answerer
    ) throws(MartletError) -> Plan<GroupResult> {
        .command(
            .changeGroup(
                project: try principal.senderProject(), name: name, key: key, change: operation,
                tokens: tokens), then: GroupResult.reply)
    }
}

extension FindGroupRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> GroupResult {
        let project = try principal.senderProject()
        return GroupResult(try answerer.read { try Listing.group(named: name, in: project, $0) })
    }
}

extension ListGroupsRequest: ServedQuestion {
    func answer(to principal: Principal, _ answerer: Answerer) throws -> GroupPage {
        let project = try principal.senderProject()
        let page = try answerer.read {
            try Listing.groups(in: project, after: after, limit: Int(limit), $0)
        }
        return GroupPage(
            hasMore: page.hasMore,
            groups: page.entries.map {
                GroupSummary(name: $0.name.text, key: $0.key.text, memberCount: $0.members.count)
            })
    }
}

extension GroupResult {
    fileprivate static let reply: @Sendable (Outcome) throws(MartletError) -> Reply<Self> = {
        outcome throws(MartletError) in
        guard case .group(let group) = outcome else { throw .unexpected }
        return .answer(GroupResult(group))
    }

    init(_ group: GroupMembers) {
        self.init(name: group.name.text, key: group.key.text, tokens: group.tokens.map(\.text))
    }
}
