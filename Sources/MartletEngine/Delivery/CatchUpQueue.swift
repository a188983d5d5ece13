// SPDX-License-Identifier: Apache-2.0
//
// Sessions that wait to have their mailbox read, project by project: projects take turns by what
// their readings cost, so that all devices of one that come back at once, or have much to read, hold
// up nobody else's. In a project, mailboxes that have been read in part and others take turns. Each
// session waits once (a flag in the session sees to that), so that nothing has to grow with sessions.
// Rests on FairTurns.

import MartletBase

struct CatchUpQueue: ~Copyable {
    private struct List {
        var first: UInt32 = .nothing
        var last: UInt32 = .nothing

        mutating func append(_ index: UInt32, _ next: UnsafeMutablePointer<UInt32>) {
            if last == .nothing { first = index } else { next[Int(last)] = index }
            last = index
        }

        mutating func popFirst(_ next: UnsafeMutablePointer<UInt32>) -> UInt32 {
            let index = first
            first = next[Int(index)]
            if first == .nothing { last = .nothing }
            return index
        }
    }

    /// The sessions of one project.
    private struct Waiting {
        var fresh = List()
        var paused = List()
        /// Whose turn it is of the two.
        var isPausedNext = false
        var count = 0
        /// None of it is read for now.
        var isHeld = false

        var isEmpty: Bool { fresh.first == .nothing && paused.first == .nothing }
    }

    /// Rows and messages of one turn: some mailboxes, where they are short.
    private var turns = FairTurns(quantum: 256)
    /// By project number.
    private var projects: [Waiting] = []
    /// Session number ↦ the next one in its list.
    private let next: UnsafeMutablePointer<UInt32>
    /// Sessions of projects that are not held.
    private(set) var count = 0

    init(capacity: Int) { next = .allocate(capacity: capacity) }

    deinit { next.deallocate() }

    mutating func append(_ index: UInt32, of project: ProjectNumber, isPaused: Bool) {
        let number = Int(project.rawValue)
        reserve(number)
        if !projects[number].isHeld {
            if projects[number].isEmpty { turns.insert(project.rawValue, weight: 1) }
            count += 1
        }
        projects[number].count += 1
        next[Int(index)] = .nothing
        if isPaused {
            projects[number].paused.append(index, next)
        } else {
            projects[number].fresh.append(index, next)
        }
    }

    /// - Parameter mustGoOn: too many mailboxes have been read in part; none is begun where one of
    ///   those waits.
    mutating func popFirst(mustGoOn: Bool) -> UInt32? {
        guard let project = turns.next() else { return nil }
        let number = Int(project)
        count -= 1
        projects[number].count -= 1
        let hasPaused = projects[number].paused.first != .nothing
        let isPaused =
            hasPaused
            && (projects[number].isPausedNext || mustGoOn
                || projects[number].fresh.first == .nothing)
        projects[number].isPausedNext = !isPaused
        let index =
            isPaused
            ? projects[number].paused.popFirst(next) : projects[number].fresh.popFirst(next)
        turns.charge(project, 1)
        if projects[number].isEmpty { turns.remove(project) }
        return index
    }

    /// What a reading of the project cost. One that nothing of waits any more owes nothing.
    mutating func charge(_ project: ProjectNumber, _ cost: Int) {
        let number = Int(project.rawValue)
        guard number < projects.count, !projects[number].isEmpty, !projects[number].isHeld
        else { return }
        turns.charge(project.rawValue, cost)
    }

    /// Whether the project's sessions wait without having a turn.
    mutating func setHeld(_ isHeld: Bool, _ project: ProjectNumber) {
        let number = Int(project.rawValue)
        guard isHeld != (number < projects.count && projects[number].isHeld) else { return }
        reserve(number)
        projects[number].isHeld = isHeld
        guard !projects[number].isEmpty else { return }
        if isHeld {
            turns.remove(project.rawValue)
            count -= projects[number].count
        } else {
            turns.insert(project.rawValue, weight: 1)
            count += projects[number].count
        }
    }

    private mutating func reserve(_ number: Int) {
        while projects.count <= number { projects.append(Waiting()) }
    }
}
