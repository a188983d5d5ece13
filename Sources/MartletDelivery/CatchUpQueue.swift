// SPDX-License-Identifier: Apache-2.0
//
// Sessions that wait to read their mailboxes. Projects take turns by the cost of their readings, so a project with a burst
// of returning devices, or with much to read, doesn't hold up the others. Within a project, paused and fresh readings
// alternate. A flag in the session keeps it from being queued twice, so one link per session is enough. Rests on FairTurns.

import MartletBase
import MartletEngine

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
            invariant(index != .nothing, "A list with a turn has a session.")
            first = next[Int(index)]
            if first == .nothing { last = .nothing }
            return index
        }
    }

    /// The waiting sessions of one project.
    private struct Waiting {
        var fresh = List()
        var paused = List()
        /// Whether the next turn goes to a paused reading.
        var isPausedNext = false
        var count = 0
        /// Its mailboxes aren't read for now.
        var isHeld = false

        var isEmpty: Bool { fresh.first == .nothing && paused.first == .nothing }
    }

    /// A turn is 256 rows and messages: enough for several short mailboxes.
    private var turns = FairTurns(quantum: 256)
    /// Waiting sessions by project number.
    private var projects: [Waiting] = []
    /// Session number ↦ the next one in its list.
    private let next: UnsafeMutablePointer<UInt32>
    /// Waiting sessions of projects that are not held.
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

    /// Takes the next session; nil if no project has a turn.
    /// - Parameter mustGoOn: too many readings are paused, so a paused one goes before a fresh one.
    mutating func popFirst(mustGoOn: Bool) -> UInt32? {
        guard let project = turns.next() else { return nil }
        let number = Int(project)
        invariant(
            count > 0 && projects[number].count > 0 && !projects[number].isHeld,
            "A project with a turn has waiting sessions and is not held.")
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

    /// Charges a project for a mailbox reading. If nothing of it waits it isn't charged: it has left the round, and leaving
    /// forgives all debts.
    mutating func charge(_ project: ProjectNumber, _ cost: Int) {
        let number = Int(project.rawValue)
        guard number < projects.count, !projects[number].isEmpty, !projects[number].isHeld
        else { return }
        turns.charge(project.rawValue, cost)
    }

    /// Holds or releases a project. While it is held its sessions wait without a turn.
    mutating func setHeld(_ isHeld: Bool, _ project: ProjectNumber) {
        let number = Int(project.rawValue)
        guard isHeld != (number < projects.count && projects[number].isHeld) else { return }
        reserve(number)
        projects[number].isHeld = isHeld
        guard !projects[number].isEmpty else { return }
        if isHeld {
            turns.remove(project.rawValue)
            count -= projects[number].count
            invariant(count >= 0, "The waiting sessions are no fewer than none.")
        } else {
            turns.insert(project.rawValue, weight: 1)
            count += projects[number].count
        }
    }

    /// Waiting sessions of all projects, including held ones.
    var totalCount: Int { projects.reduce(0) { $0 + $1.count } }
    private mutating func reserve(_ number: Int) {
        while projects.count <= number { projects.append(Waiting()) }
    }
}
