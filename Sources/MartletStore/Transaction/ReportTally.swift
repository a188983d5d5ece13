// SPDX-License-Identifier: Apache-2.0
//
// What a transaction counts of messages, until its end: a fanout's acknowledgements come by the
// thousand, and each of its rows is written once. It is written with the facts it counts, in their
// transaction, so that neither is ever there without the other. Rests on ReportCounts.

import MartletBase
import MartletEngine

/// One per writing transaction.
final class ReportTally {
    struct Message: Hashable, Comparable {
        var project: ProjectNumber
        var sequence: MessageSequence

        static func < (left: Message, right: Message) -> Bool {
            (left.project, left.sequence.rawValue) < (right.project, right.sequence.rawValue)
        }
    }

    struct Day: Hashable, Comparable {
        var project: ProjectNumber
        var day: UInt32
        var app: AppNumber

        static func < (left: Day, right: Day) -> Bool {
            (left.project, left.day, left.app.rawValue)
                < (right.project, right.day, right.app.rawValue)
        }
    }

    struct Part {
        /// The report begins with this transaction.
        var new: ReportRow?
        var counts = ReportCounts()
        /// Instances that do not get the message any more.
        var missed: [UInt32] = []
    }

    var messages: [Message: Part] = [:]
    var days: [Day: ReportCounts] = [:]
    /// Messages whose rest has no recipients because they were cancelled.
    var cancelled: Set<Message> = []
    /// What was acknowledged, before it is counted.
    var passes: [ProjectNumber: [Pass]] = [:]
}
