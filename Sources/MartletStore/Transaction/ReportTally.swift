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
    /// Fanouts that were looked up last: devices that are equally far have the same ones before them.
    var passed: [PassedFanouts] = []
}

/// The fanouts of a project behind `start`, up to `end`.
struct PassedFanouts {
    struct Fanout {
        let row: LogRow
        let accepted: Instant
        /// For the last of its recipients.
        let expires: Instant
        let isDropped: Bool
        let isExpired: Bool
        let variants: [MessageRecord.Variant]
    }

    static let keptMax = 4
    /// Past so many they are looked up again.
    static let fanoutsMax = 256

    let project: ProjectNumber
    let start: MessageSequence
    let end: MessageSequence
    let fanouts: [Fanout]
}
