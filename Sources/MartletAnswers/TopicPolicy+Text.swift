// SPDX-License-Identifier: Apache-2.0
//
// The words for the topics that devices choose, on command lines, in requests and in results (TOP-10). Pure.

package import Martlet

extension TopicPolicy {
    /// Reads `all`, `none`, or prefixes with a comma between them. No topic has a comma.
    package init(text: String) {
        switch text {
        case "all": self = .all
        case "none": self = .noTopics
        default:
            self = .prefixes(
                text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        }
    }

    /// The policy as `init(text:)` reads it.
    package var text: String {
        switch self {
        case .all: "all"
        case .noTopics: "none"
        case .prefixes(let prefixes): prefixes.joined(separator: ",")
        }
    }
}
