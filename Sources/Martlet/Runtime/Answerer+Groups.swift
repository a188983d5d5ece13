// SPDX-License-Identifier: Apache-2.0
//
// Answers about groups (GRP-3). Rests on the engine's queries and MartletWire.

import MartletBase
import MartletEngine
import MartletStore
import MartletWire

extension Answerer {
    func answer(_ question: FindGroupRequest, _ project: ProjectNumber) throws -> BrokerFrame {
        let group = try store.read { (transaction) throws in
            try Listing.group(named: question.name, in: project, transaction)
        }
        return .group(GroupResult(correlation: question.correlation, group))
    }

    func answer(_ question: ListGroupsRequest, _ project: ProjectNumber) throws -> BrokerFrame {
        let page = try store.read { (transaction) throws in
            try Listing.groups(
                in: project, after: question.after, limit: Int(question.limit), transaction)
        }
        return .groupPage(
            GroupPage(
                correlation: question.correlation, hasMore: page.hasMore,
                groups: page.entries.map {
                    .init(
                        name: $0.name.text, key: $0.key.text,
                        members: UInt16(clamping: $0.members.count))
                }))
    }
}
