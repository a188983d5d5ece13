// SPDX-License-Identifier: Apache-2.0
//
// The topics that devices choose, on command lines (TOP-10). Rests on TopicPolicy.

import ArgumentParser
import Martlet
import MartletAnswers

/// `all`, `none`, or prefixes with a comma between them.
struct TopicPolicyArgument: ExpressibleByArgument {
    var policy: TopicPolicy

    init(argument: String) { policy = TopicPolicy(text: argument) }
}
