// SPDX-License-Identifier: Apache-2.0
//
// What a transaction counts of messages, and what else it writes once at its end: a fanout's
// acknowledgements come by the thousand, and a project's record changes with each of its messages. It is
// written with the facts it counts, in their transaction, so that neither is ever there without the other.
// Rests on ReportCounts.

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
        var counts = ReportCounts()
        /// Instances that do not get the message any more.
        var missed: [UInt32] = []
    }

    var messages: [Message: Part] = [:]
    /// A report that lies in its message's record, if the message turns out to be stored for one instance.
    var open: (message: Message, row: ReportRow)?
    /// Reports of messages that have left, and may have no row of their own.
    var left: [Message: ReportRow] = [:]
    /// Reports that begin in this transaction: how many, and the first one's message.
    private(set) var begun: [ProjectNumber: (count: UInt64, first: MessageSequence)] = [:]
    var days: [Day: ReportCounts] = [:]
    /// Messages whose rest has no recipients because they were cancelled.
    var cancelled: Set<Message> = []
    /// What was acknowledged, before it is counted.
    var passes: [ProjectNumber: [Pass]] = [:]
    /// The project that was asked for last, as it is now: commands of one project come together.
    private(set) var lastProject: Project?
    var hasLastChanged = false
    /// The other projects that have changed. A changed record is written once.
    private(set) var projects: [ProjectNumber: Project] = [:]
    /// Expiry lines that have changed.
    var lines: [ProjectNumber: ExpiryLineRow] = [:]

    func begin(_ message: Message) {
        begun[message.project, default: (0, message.sequence)].count += 1
    }

    func setLast(_ project: Project) {
        if let lastProject, hasLastChanged, lastProject.number != project.number {
            projects[lastProject.number] = lastProject
        }
        if lastProject?.number != project.number {
            hasLastChanged = projects.removeValue(forKey: project.number) != nil
        }
        lastProject = project
    }

    /// The projects that have changed, in the order of their numbers.
    func takeProjects() -> [Project] {
        if let lastProject, hasLastChanged { projects[lastProject.number] = lastProject }
        defer { (projects, lastProject, hasLastChanged) = ([:], nil, false) }
        return projects.values.sorted { $0.number < $1.number }
    }

    /// Tables whose last row is of another project than those written to in the transaction.
    var notAppended: Set<Table> = []
    /// Bytes of blobs that came, or whose messages expired, and when.
    var blobs: [ProjectNumber: (bytes: UInt64, now: Instant)] = [:]
    /// Cursors that many acknowledgements search with; closed before the transaction ends.
    var cursors: [Table: HeldCursor] = [:]
}

/// A cursor kept for further searches of the transaction.
final class HeldCursor {
    let cursor: Cursor
    init(_ cursor: consuming Cursor) { self.cursor = cursor }
}
