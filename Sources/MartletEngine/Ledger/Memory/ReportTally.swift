// SPDX-License-Identifier: Apache-2.0
//
// Gathers a transaction's counts, and other rows, so each is written once, at its end: a fanout's acknowledgements come
// by the thousand, and a project's record changes with each of its messages. A count is still written in the same
// transaction as what it counts, so neither exists without the other. Rests on ReportCounts.

import MartletBase
import MartletRows

/// What a writing transaction has gathered.
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
        /// Ordinals of instances that won't get the message.
        var missed: [UInt32] = []
    }

    /// Counts of messages. One message's instances are mostly counted in a row, and a project's messages in the order
    /// of its log.
    private var messages = AscendingTable<Message, Part>()
    private var days: [Day: ReportCounts] = [:]
    private var lastDay: (day: Day, counts: ReportCounts)?
    /// A new report without a row: if the message is stored for a single instance, its record serves as the report.
    var open: (message: Message, row: ReportRow)?
    /// Reports of messages whose records this transaction has deleted. They may have no row.
    var left: [Message: ReportRow] = [:]
    /// The reports that begin in this transaction: how many, and the first one's message.
    private(set) var begun = ByProject<(count: UInt64, first: MessageSequence)>()
    /// How many reports to keep per project; 0: no limit.
    var reportsMax = 0
    /// Messages that expire in this transaction because they are cancelled. Afterwards their records look like any
    /// expired one's.
    var cancelled: Set<Message> = []
    /// Movements of marks whose fanouts aren't counted yet.
    var passes: [ProjectNumber: [Pass]] = [:]
    /// The last call's project, with its changes. Commands of a project come together.
    private(set) var lastProject: Project?
    var hasLastChanged = false
    /// The other changed projects. Each is written once.
    private(set) var projects: [ProjectNumber: Project] = [:]
    /// The changed expiry lines.
    var lines = ByProject<ExpiryLineRow>()

    // MARK: Counting

    func count(_ event: ReportEvent, _ number: UInt64, of message: Message) {
        assert(message.sequence.isStored, "Only a stored message has counts of its own.")
        messages.update(message, default: Part()) { $0.counts[event] += number }
    }

    /// Notes that an instance won't get the message.
    func miss(_ ordinal: Ordinal, _ message: Message) {
        assert(message.sequence.isStored, "Only a stored message has counts of its own.")
        messages.update(message, default: Part()) { $0.missed.append(ordinal.rawValue) }
    }

    /// A message's unwritten counts.
    func counts(of message: Message) -> ReportCounts {
        messages[message]?.counts ?? ReportCounts()
    }

    /// Takes the counts since the last call, in the order of the messages. A deleted message with a report is among
    /// them even without counts.
    func takeMessages() -> [(key: Message, value: Part)] {
        for message in left.keys.sorted() { messages.update(message, default: Part()) { _ in } }
        return messages.take()
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
        if isWatched {
            for (day, counts) in days { watched[day.project, default: ReportCounts()] += counts }
        }
        return days
    }

    /// Whether a watcher wants the transaction's counts by project (EMB-3).
    var isWatched = false
    /// The transaction's counts by project; empty without a watcher.
    private(set) var watched: [ProjectNumber: ReportCounts] = [:]

    // MARK: Reports and projects

    func begin(_ message: Message) {
        let before = begun[message.project]
        invariant(
            before.map { $0.first <= message.sequence } ?? true,
            "Reports of a project begin in the order of the sequences.")
        begun.set(
            ((before?.count ?? 0) + 1, before?.first ?? message.sequence), of: message.project)
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

    /// Takes the changed projects, in the order of their numbers.
    func takeProjects() -> [Project] {
        if let lastProject, hasLastChanged { projects[lastProject.number] = lastProject }
        defer { (projects, lastProject, hasLastChanged) = ([:], nil, false) }
        return projects.values.sorted { $0.number < $1.number }
    }

    /// Whether nothing is left to write.
    var isWritten: Bool {
        messages.isEmpty && days.isEmpty && lastDay == nil && open == nil
            && left.isEmpty && passes.isEmpty && projects.isEmpty && !hasLastChanged
            && lines.isEmpty && cursors.isEmpty
    }
    /// Tables where appending has failed, because the last row is another project's.
    var notAppended: Set<Table> = []
    /// Bytes of new blobs and of those whose messages have expired, and when that was last.
    var blobs = ByProject<(bytes: UInt64, now: Instant)>()
    /// Cursors for the searches of many acknowledgements. Closed before the transaction ends.
    var cursors: [Table: HeldCursor] = [:]
}

/// A value per project. Commands of a project come together, so the last project's value is found without a hash.
struct ByProject<Value> {
    private var last: (project: ProjectNumber, value: Value)?
    private var others: [ProjectNumber: Value] = [:]

    var isEmpty: Bool { last == nil && others.isEmpty }

    subscript(project: ProjectNumber) -> Value? {
        if let last, last.project == project { return last.value }
        return others.isEmpty ? nil : others[project]
    }

    mutating func set(_ value: Value, of project: ProjectNumber) {
        if let last, last.project != project {
            others[last.project] = last.value
            others[project] = nil
        }
        last = (project, value)
    }

    /// All values, in the order of their projects.
    var sorted: [(project: ProjectNumber, value: Value)] {
        guard let last else { return [] }
        var all = others.map { (project: $0.key, value: $0.value) }
        all.append(last)
        all.sort { $0.project < $1.project }
        return all
    }
}

/// A cursor for several searches in a transaction.
final class HeldCursor {
    let cursor: Cursor
    init(_ cursor: consuming Cursor) { self.cursor = cursor }
}
