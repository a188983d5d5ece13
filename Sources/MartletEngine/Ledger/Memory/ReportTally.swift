// SPDX-License-Identifier: Apache-2.0
//
// What a transaction counts of messages, and what else it writes once at its end: a fanout's
// acknowledgements come by the thousand, and a project's record changes with each of its messages. It is
// written with the facts it counts, in their transaction, so that neither is ever there without the other.
// Rests on ReportCounts.

import MartletBase
import MartletRows

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

        mutating func add(_ other: consuming Part) {
            counts += other.counts
            missed += other.missed
        }
    }

    /// More is not set aside for what may come: half a megabyte.
    private static let expectedMax = 4096

    /// What was counted of messages, but for the message that was counted last: the instances of one message
    /// are mostly counted one after the other.
    private var messages: [Message: Part] = [:]
    private var lastMessage: (message: Message, part: Part)?
    private var days: [Day: ReportCounts] = [:]
    private var lastDay: (day: Day, counts: ReportCounts)?
    /// A report that lies in its message's record, if the message turns out to be stored for one instance.
    var open: (message: Message, row: ReportRow)?
    /// Reports of messages that have left, and may have no row of their own.
    var left: [Message: ReportRow] = [:]
    /// Reports that begin in this transaction: how many, and the first one's message.
    private(set) var begun: [ProjectNumber: (count: UInt64, first: MessageSequence)] = [:]
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

    // MARK: Counting

    /// So many messages are about to be counted, or fewer.
    func expect(_ count: UInt64) {
        messages.reserveCapacity(min(Int(clamping: count), Self.expectedMax))
    }

    func count(_ event: ReportEvent, _ number: UInt64, of message: Message) {
        goOn(with: message)
        lastMessage!.part.counts[event] += number
    }

    /// An instance does not get the message any more.
    func miss(_ ordinal: Ordinal, _ message: Message) {
        goOn(with: message)
        lastMessage!.part.missed.append(ordinal.rawValue)
    }

    /// What was counted of a message in this transaction, and is not written yet.
    func counts(of message: Message) -> ReportCounts {
        var counts = messages[message]?.counts ?? ReportCounts()
        if let lastMessage, lastMessage.message == message { counts += lastMessage.part.counts }
        return counts
    }

    /// What was counted since the last call, and messages that have left.
    func takeMessages() -> [Message: Part] {
        if let lastMessage { messages[lastMessage.message, default: Part()].add(lastMessage.part) }
        lastMessage = nil
        for message in left.keys where messages[message] == nil { messages[message] = Part() }
        defer { messages = [:] }
        return messages
    }

    private func goOn(with message: Message) {
        if let lastMessage {
            if lastMessage.message == message { return }
            messages[lastMessage.message, default: Part()].add(lastMessage.part)
        }
        lastMessage = (message, Part())
    }

    func count(_ counts: ReportCounts, on day: Day) {
        goOn(with: day)
        lastDay!.counts += counts
    }

    func count(_ event: ReportEvent, _ number: UInt64, on day: Day) {
        goOn(with: day)
        lastDay!.counts[event] += number
    }

    private func goOn(with day: Day) {
        if let lastDay {
            if lastDay.day == day { return }
            days[lastDay.day, default: ReportCounts()] += lastDay.counts
        }
        lastDay = (day, ReportCounts())
    }

    func takeDays() -> [Day: ReportCounts] {
        if let lastDay { days[lastDay.day, default: ReportCounts()] += lastDay.counts }
        lastDay = nil
        defer { days = [:] }
        return days
    }

    // MARK: Reports and projects

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
