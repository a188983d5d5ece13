// SPDX-License-Identifier: Apache-2.0
//
// The result of a check of the store. Each problem has a kind for programs and a place in words for people. The list
// of problems is bounded, the count is not. Rests on Checker.

package import MartletBase
package import MartletRows

/// A contradiction inside the store.
package struct CheckProblem: Sendable, Hashable, CustomStringConvertible {
    /// Kinds of contradictions. The raw value is the word for programs.
    package enum Kind: String, Sendable, CaseIterable {
        /// The format version is missing, or differs from the version that this Martlet writes.
        case format
        /// A key or value does not have the shape that its table prescribes.
        case damagedRecord
        /// Rows belong to a project that does not exist.
        case rowsWithoutProject
        /// `projects` and `projectIDs` disagree.
        case projectIndex
        /// A counter of a project contradicts the project's rows.
        case projectCounter
        /// A server key or service-account key belongs to a project that does not exist.
        case keyWithoutProject
        /// `apps` and `appNames` disagree.
        case appIndex
        /// The app of an instance does not exist, or is on another platform.
        case instanceWithoutApp
        /// `instances` and `tokens`, or `instances` and `formerTokens`, disagree.
        case tokenIndex
        /// The set of everyone, of a platform or of an app differs from the instances.
        case standingSet
        /// The rows of a set do not have a valid form.
        case setForm
        /// The rows of a set have no owner.
        case setWithoutOwner
        /// A topic has a subscriber that is not registered.
        case subscriberNotRegistered
        /// The record of a topic counts other subscribers than its set has.
        case topicCount
        /// `topics` and `topicNames` disagree.
        case topicIndex
        /// A topic's set and an instance's list of topics disagree.
        case reverseIndex
        /// A group has no or too many members, a repeated member, or a member that is not registered.
        case group
        /// Groups, their names and the instances' memberships disagree.
        case groupIndex
        /// A number is free although it is in use, or was never issued.
        case freeNumber
        /// A number was issued and is neither free nor in use.
        case numberLost
        /// The sequence of a message was never issued.
        case messageSequence
        /// The recipients of a message are missing, damaged, or without their message.
        case recipients
        /// An inbox row has no message or no instance.
        case inbox
        /// A mailbox has no instance, or is past the last message; or an instance has no mailbox.
        case mailbox
        /// A single acknowledgement has no instance, is not behind the start of the instance's log, or is past the
        /// last message.
        case acknowledgement
        /// A due row has no record, or a record with a due time has no due row.
        case due
        /// The number of a message leads to another message.
        case messageNumber
        /// The numbers of receipts have gaps, or a device that is not registered reported a receipt.
        case receipts
        /// A device's message has a number that was never given, the count of the messages is wrong, or message IDs
        /// belong to an instance that is not registered.
        case upstream
        /// The outcomes of a message and its waiting recipients do not add up to its recipients, or a part of a
        /// report is missing or without its report.
        case report
        /// A used ticket, a ticket's topics or a deleted app belongs to nothing, or a deleted app has instances.
        case registration
        /// `agents` and `agentChannels` disagree, or a channel belongs to an instance that is not registered.
        case agentIndex
        /// `bridges` and `bridgeDigests` disagree, or an address belongs to an instance that is not registered.
        case bridgeIndex
        /// A fanout is marked as needed although no collection is in progress, or although the fanout does not exist.
        case collection
    }

    /// Kind of the contradiction, for programs.
    package let kind: Kind
    /// nil: the problem belongs to no single project.
    package let project: ProjectNumber?
    /// The contradiction and its place, in words.
    package let detail: String

    /// Kind, project number and detail in one line.
    package var description: String {
        let place = project.map { "project \($0.rawValue): " } ?? ""
        return "\(kind.rawValue): \(place)\(detail)"
    }
}

/// The numbers of checked objects.
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
    /// Rows of stored messages, including the separate rows of discarded messages.
    package var messages: UInt64 = 0
    /// Recipients of all stored messages, in blobs and in the inbox.
    package var recipients: UInt64 = 0
}

/// The result of a check.
package struct CheckReport: Sendable {
    /// Bound on `problems`.
    package static let problemsListedMax = 1000

    /// The first problems found, at most `problemsListedMax`.
    package internal(set) var problems: [CheckProblem] = []
    /// The number of all problems found.
    package internal(set) var problemCount: UInt64 = 0
    /// Numbers of checked objects.
    package internal(set) var counts = CheckCounts()

    /// Whether the check found no problem.
    package var isClean: Bool { problemCount == 0 }
}

/// The progress of a check.
package struct CheckProgress: Sendable {
    /// The ID of the project that is being checked.
    package var project: String
    /// Projects that are completely checked.
    package var projectsDone: Int
    /// Projects to be checked.
    package var projectCount: Int
    /// The numbers of objects checked so far.
    package var counts: CheckCounts
}

extension Transaction {
    /// Compares all indexes with each other, on one snapshot. The memory is proportional to the instances of the
    /// largest project, the time to the size of the store. The file can grow during the check, because the snapshot
    /// keeps old pages in use while others write.
    /// - Parameter progress: called several times for each project.
    /// - Throws: `StorageError` if the store cannot be read at all.
    package func check(
        progress: (CheckProgress) -> Void = { _ in }
    ) throws(StorageError) -> CheckReport {
        var checker = Checker(raw)
        try checker.run(progress)
        return checker.report
    }

    /// The first contradiction between the rows of a project; nil: all agree. The outcomes of each message and the
    /// waiting recipients add up to its targets, counts are those of the rows, and each index leads back. The time
    /// is proportional to the project's rows, so tests ask after their steps, and a broker that serves does not.
    package func brokenInvariant(in project: ProjectNumber) throws(StorageError) -> String? {
        guard let project = try projects.project(project) else { return nil }
        var checker = Checker(raw)
        try checker.check(project) { _ in }
        return checker.report.problems.first.map { "\($0)" }
    }
}
