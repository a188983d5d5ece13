// SPDX-License-Identifier: Apache-2.0
//
// Several targets of one message on the command line. Rests on MessageTarget.

import ArgumentParser
import Martlet

struct SeveralTargets: ParsableArguments {
    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("One of several targets: a token.", valueName: "token"))
    var toToken: [String] = []

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("One of several targets: a topic.", valueName: "topic"))
    var toTopic: [String] = []

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("One of several targets: a condition.", valueName: "condition"))
    var toCondition: [String] = []

    @Option(
        parsing: .unconditionalSingleValue,
        help: ArgumentHelp("One of several targets: a group.", valueName: "key"))
    var toGroup: [String] = []

    var targets: [MessageTarget] {
        toToken.map { .token($0) } + toTopic.map { .topic($0) }
            + toCondition.map { .condition($0) } + toGroup.map { .group($0) }
    }
}
