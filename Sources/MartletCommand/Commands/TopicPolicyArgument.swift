// SPDX-License-Identifier: Apache-2.0
//
// The words for the topics that devices choose, on command lines and in results (TOP-10). Rests on Martlet.

import ArgumentParser
import Martlet

/// `all`, `none`, or prefixes with a comma between them. No topic has a comma.
struct TopicPolicyArgument: ExpressibleByArgument {
    var policy: TopicPolicy

    init(argument: String) {
        switch argument {
        case "all": policy = .all
        case "none": policy = .noTopics
        default:
            policy = .prefixes(
                argument.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        }
    }
}

extension TopicPolicy {
    /// The policy as `martlet project set --topics` takes it.
    var text: String {
        switch self {
        case .all: "all"
        case .noTopics: "none"
        case .prefixes(let prefixes): prefixes.joined(separator: ",")
        }
    }
}
