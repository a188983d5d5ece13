// SPDX-License-Identifier: Apache-2.0
//
// What a check of the store found. Each problem has a kind for programs, and says in words where it is. The list is
// bounded, the count is not. Rests on Checker.

package import MartletBase
package import MartletRows

/// A contradiction in the store.
package struct CheckProblem: Sendable, Hashable, CustomStringConvertible {
    /// Kinds of contradictions. The raw value is a word for programs.
    package enum Kind: String, Sendable, CaseIterable {
        /// The format version is missing, or not the one that this Martlet writes.
        case format
        /// A key or value doesn't have the shape that its table prescribes.
        case damagedRecord
        /// Rows of a project that doesn't exist.
        case rowsWithoutProject
        /// `projects` and `projectIDs` disagree.
        case projectIndex
        /// One of a project's counters contradicts its rows.
        case projectCounter
        /// A server key or service-account key of a project that doesn't exist.
        case keyWithoutProject
        /// `apps` and `appNames` disagree.
        case appIndex
        /// An instance's app doesn't exist, or is on another platform.
        case instanceWithoutApp
        /// `instances` and `tokens`, or `instances` and `formerTokens`, disagree.
        case tokenIndex
        /// The set of everyone, of a platform or of an app differs from the instances.
        case standingSet
        /// A set's rows are not in a valid form.
        case setForm
        /// A set that nothing owns.
        case setWithoutOwner
        /// A topic has a subscriber that isn't registered.
        case subscriberNotRegistered
        /// A topic's record counts other subscribers than its set has.
        case topicCount
        /// `topics` and `topicNames` disagree.
        case topicIndex
        /// A topic's set and an instance's list of topics disagree.
        case reverseIndex
        /// A group has no members, too many, the same one twice, or one that isn't registered.
        case group
        /// Groups, their names and the instances' memberships disagree.
        case groupIndex
        /// A number is free although it is in use or was never issued.
        case freeNumber
        /// A number was issued and is neither free nor in use.
        case numberLost
        /// A message has a sequence that was never issued.
        case messageSequence
        /// A message's recipients are missing or damaged, or are there without it.
        case recipients
        /// An inbox row without its message or its instance.
        case inbox
        /// A mailbox without an instance or past the last message, or an instance without a mailbox.
        case mailbox
        /// A single acknowledgement without an instance, not behind the start of its log, or past the last message.
        case acknowledgement
        /// A due row without a record, or a record with a due time but no due row.
        case due
        /// A message's number leads to another message.
        case messageNumber
        /// The receipts' numbers have gaps, or one is from a device that isn't registered.
        case receipts
        /// A device's message has a number that was never given, their count is wrong, or message IDs belong to an
        /// instance that isn't registered.
        case upstream
        /// A message's outcomes and waiting recipients don't add up to its recipients, or a part of a report is missing
        /// or has no report.
        case report
        /// A used ticket, a ticket's topics or a deleted app belongs to nothing, or a deleted app still has instances.
        case registration
        /// `agents` and `agentChannels` disagree, or a channel belongs to an instance that isn't registered.
        case agentIndex
        /// `bridges` and `bridgeDigests` disagree, or an address belongs to an instance that isn't registered.
        case bridgeIndex
        /// A fanout is marked as needed, but no collection is in progress, or the fanout doesn't exist.
        case collection
    }

    /// Its kind, for programs.
    package let kind: Kind
    /// nil if it is about no single project.
    package let project: ProjectNumber?
    /// What is wrong and where, in words.
    package let detail: String

    /// Kind, project number and detail in one line.
    package var description: String {
        let place = project.map { "project \($0.rawValue): " } ?? ""
        return "\(kind.rawValue): \(place)\(detail)"
    }
}

/// How much was checked.
package struct CheckCounts: Sendable, Hashable {
    /// Projects.
    package var projects: UInt64 = 0
    /// Server keys, service-account keys, registration keys and ticket keys.
    package var keys: UInt64 = 0
    /// Apps of all projects.
    package var apps: UInt64 = 0
    /// Registered instances of all projects.
    package var instances: UInt64 = 0
    /// Topics of all projects.
    package var topics: UInt64 = 0
    /// Pairs of a topic and a subscriber.
    package var subscriptions: UInt64 = 0
    /// Groups of all projects.
    package var groups: UInt64 = 0
    /// Rows of stored messages, including the separate ones of discarded messages.
    package var messages: UInt64 = 0
    /// Recipients of all stored messages, in blobs and in the inbox.
    package var recipients: UInt64 = 0
}

/// The result of a check.
package struct CheckReport: Sendable {
    /// Bound on `problems`.
    package static let problemsListedMax = 1000

    /// The first problems, at most `problemsListedMax`.
    package internal(set) var problems: [CheckProblem] = []
    /// The number of all problems.
    package internal(set) var problemCount: UInt64 = 0
    /// How much was checked.
    package internal(set) var counts = CheckCounts()

    /// Whether the check found no problem.
    package var isClean: Bool { problemCount == 0 }
}

/// How far a check has come.
package struct CheckProgress: Sendable {
    /// The ID of the project being checked.
    package var project: String
    /// Projects that are done.
    package var projectsDone: Int
    /// Projects in all.
    package var projectCount: Int
    /// How much was checked so far.
    package var counts: CheckCounts
}

extension Transaction {
    /// Compares all indexes with each other, on one snapshot. Takes memory in proportion to the instances of the
    /// largest project, and time in proportion to the store. The file may grow meanwhile, because the snapshot keeps
    /// old pages in use while others write.
    /// - Parameter progress: called several times for each project.
    /// - Throws: `StorageError` if the store cannot be read at all.
    package func check(
        progress: (CheckProgress) -> Void = { _ in }
    ) throws(StorageError) -> CheckReport {
        var checker = Checker(raw)
        try checker.run(progress)
        return checker.report
    }

    /// The first contradiction among a project's rows; nil if there is none: each message's outcomes and waiting
    /// recipients add up to its targets, counts are those of the rows, and each index leads back. Takes time in
    /// proportion to the project's rows: tests ask after each step, a serving broker doesn't.
    package func brokenInvariant(in project: ProjectNumber) throws(StorageError) -> String? {
        guard let project = try projects.project(project) else { return nil }
        var checker = Checker(raw)
        try checker.check(project) { _ in }
        return checker.report.problems.first.map { "\($0)" }
    }
}
