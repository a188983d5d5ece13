// SPDX-License-Identifier: Apache-2.0
//
// What a check of the store found: every problem with its kind, so that a program can act on it, and
// a place in words, so that a person can. The list is bounded, the count is not. Rests on nothing.

public import MartletBase
public import MartletRows

/// Something in the store that contradicts something else in it.
public struct CheckProblem: Sendable, Hashable, CustomStringConvertible {
    public enum Kind: String, Sendable, CaseIterable {
        /// The format version is missing or not one that this Martlet writes.
        case format
        /// A key or value does not have the shape that its table prescribes.
        case damagedRecord
        /// Rows of a project that does not exist.
        case rowsWithoutProject
        /// `projects` and `projectIDs` disagree.
        case projectIndex
        /// A project's counter is not what is counted.
        case projectCounter
        /// A server key of a project that does not exist.
        case keyWithoutProject
        /// `apps` and `appNames` disagree.
        case appIndex
        /// An instance whose app does not exist, or is on another platform.
        case instanceWithoutApp
        /// `instances` and `tokens`, or `instances` and `formerTokens`, disagree.
        case tokenIndex
        /// The set of everyone, of a platform or of an app is not what the instances say.
        case standingSet
        /// A set's rows do not have a valid form.
        case setForm
        /// Rows of a set that belongs to nothing.
        case setWithoutOwner
        /// A topic has a subscriber that is not registered.
        case subscriberNotRegistered
        /// A topic's record counts other subscribers than its set has.
        case topicCount
        /// `topics` and `topicNames` disagree.
        case topicIndex
        /// A topic's set and an instance's list of topics disagree.
        case reverseIndex
        /// A group has none or too many members, or one that is not registered.
        case group
        /// Groups, their names and what instances are members of disagree.
        case groupIndex
        /// A number is free and in use, or was never issued.
        case freeNumber
        /// A number was issued and is neither free nor in use.
        case numberLost
        /// A message's sequence was never issued.
        case messageSequence
        /// A message's recipients are missing, damaged, or without their message.
        case recipients
        /// An inbox row without its message or its instance.
        case inbox
        /// A mailbox without its instance, or past the last message; or an instance without one.
        case mailbox
        /// A single acknowledgement without its instance, at or below its lowest mark, or past the
        /// last message.
        case acknowledgement
        /// Something is due that is nowhere else, or is to happen and has no row.
        case due
        /// A message's number leads to another.
        case messageNumber
        /// Events without order, or what somebody told who is not registered.
        case receipts
        /// A device's message with a number that was never given, or other counts than there are
        /// messages, or message IDs of who is not registered.
        case upstream
        /// What was counted of a message and what waits for it are not together what it was for, or a
        /// part of a report is not there, or without the rest.
        case report
        /// A fanout is marked as needed while nothing is collected, or is not there.
        case collection
    }

    public let kind: Kind
    /// nil where it is no project's.
    public let project: ProjectNumber?
    /// What contradicts what, and where.
    public let detail: String

    public var description: String {
        let place = project.map { "project \($0.rawValue): " } ?? ""
        return "\(kind.rawValue): \(place)\(detail)"
    }
}

/// What was looked at.
public struct CheckCounts: Sendable, Hashable {
    public var projects: UInt64 = 0
    public var keys: UInt64 = 0
    public var apps: UInt64 = 0
    public var instances: UInt64 = 0
    public var topics: UInt64 = 0
    public var subscriptions: UInt64 = 0
    public var groups: UInt64 = 0
    public var messages: UInt64 = 0
    /// Recipients of all stored messages, in blobs and in the inbox.
    public var recipients: UInt64 = 0
}

/// What came of a check.
public struct CheckReport: Sendable {
    /// Problems that are listed at most.
    public static let problemsListedMax = 1000

    /// The first problems found.
    public internal(set) var problems: [CheckProblem] = []
    /// All problems found.
    public internal(set) var problemCount: UInt64 = 0
    public internal(set) var counts = CheckCounts()

    public var isClean: Bool { problemCount == 0 }
}

/// How far a check is.
public struct CheckProgress: Sendable {
    /// The project that is being checked.
    public var project: String
    public var projectsDone: Int
    public var projectCount: Int
    /// What was looked at so far.
    public var counts: CheckCounts
}

extension Transaction {
    /// Compares every index with every other, on one snapshot. Takes memory in proportion to the
    /// largest project's instances, and time in proportion to the store; a snapshot held that long
    /// lets the file grow while others write.
    /// - Parameter progress: called now and then.
    /// - Throws: `StorageError` if the store cannot be read at all.
    public func check(
        progress: (CheckProgress) -> Void = { _ in }
    ) throws(StorageError) -> CheckReport {
        var checker = Checker(raw)
        try checker.run(progress)
        return checker.report
    }
}
