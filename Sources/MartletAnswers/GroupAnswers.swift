// SPDX-License-Identifier: Apache-2.0
//
// The JSON of groups (GRP-1 to GRP-4). Property names are the names in the JSON output. Pure.

package import Martlet

package struct GroupAnswer: Encodable {
    package var name: String
    package var key: String
    /// Tokens of the members. Empty: the group has ended.
    package var tokens: [String]

    package init(_ group: GroupDetails) {
        name = group.name
        key = group.key
        tokens = group.tokens
    }
}

package struct GroupEntryAnswer: Encodable {
    package var name: String
    package var key: String
    package var members: Int

    package init(_ group: GroupSummary) {
        name = group.name
        key = group.key
        members = group.memberCount
    }
}
