// SPDX-License-Identifier: Apache-2.0
//
// A loop's projects: who is connected, and which fanouts are in progress. Projects with work take turns, and so do the
// fanouts of each (FAN-2, FAN-3). A project without work costs nothing. Rests on FairTurns and MartletBits.

import MartletBase
import MartletBits
import MartletEngine
import MartletRows

/// A project on a loop.
struct ProjectDelivery: ~Copyable {
    let number: ProjectNumber
    var connected = ConnectedSet()
    /// Connected instances whose session belongs to the door to push services (GW-11).
    var bridged = ConnectedSet()
    /// Connections of instances since the loop began.
    var connectedTotal: UInt64 = 0
    /// The last stored message that we have heard of.
    fileprivate(set) var heardThrough: UInt64 = 0
    /// The last fanout's arrival number.
    fileprivate(set) var lastArrival: UInt32 = 0
    /// Messages that its fanouts have queued.
    var delivered: UInt64 = 0
    /// Chunks that its connections held at the last measurement.
    var chunks = ChunkSet()
    var frameBytes = 0
    var isCrowded = false
    /// The turns of the fanouts in progress, in order of arrival.
    var turns = FairTurns(quantum: 16)
    /// Now-or-never fanouts in progress (TTL-2).
    private(set) var nowOrNeverCount = 0
    /// Room for fanouts, allocated with the first one. A project whose instances are connected elsewhere only hears of messages
    /// and needs none.
    private var works = Slab<FanoutWork>()
    private var freeSlots: [UInt32] = []
    private var slotCount: UInt32 = 0

    init(number: ProjectNumber) { self.number = number }

    deinit {
        var slot = turns.first
        while slot != .nothing {
            works[slot].deinitialize(count: 1)
            slot = turns.after(slot)
        }
    }

    func work(_ slot: UInt32) -> UnsafeMutablePointer<FanoutWork> { works[slot] }

    mutating func hear(_ fanout: Fanout) {
        guard fanout.header.sequence.isStored else { return }
        invariant(
            fanout.header.sequence.rawValue >= heardThrough,
            "A loop hears of a project's messages in the order of their sequences.")
        heardThrough = max(heardThrough, fanout.header.sequence.rawValue)
    }

    /// All stored messages up to here are done on this loop.
    var finishedThrough: UInt64 {
        var slot = turns.first
        while slot != .nothing {
            let first = work(slot).pointee.first
            if first.isStored { return first.rawValue - 1 }
            slot = turns.after(slot)
        }
        return heardThrough
    }

    mutating func cancel(_ sequence: MessageSequence) {
        var slot = turns.first
        while slot != .nothing {
            work(slot).pointee.cancel(sequence)
            slot = turns.after(slot)
        }
    }

    /// Keeps the next message apart from the fanouts in progress, which skip the session that has just been attached.
    mutating func beginAnew() {
        if turns.last != .nothing { work(turns.last).pointee.isUntouched = false }
    }

    /// Adds a fanout, or lets the message join the last one.
    /// - Returns: false if it has joined the last one.
    fileprivate mutating func add(_ fanout: Fanout, _ frame: FrameReference) -> Bool {
        if turns.last != .nothing, work(turns.last).pointee.join(fanout, frame) { return false }
        invariant(lastArrival < .max, "The fanouts are numbered anew before the numbers end.")
        lastArrival += 1
        let slot = freeSlots.popLast() ?? newSlot()
        work(slot).initialize(
            to: FanoutWork(fanout: fanout, frame: frame, arrival: lastArrival))
        turns.insert(slot, weight: 1)
        invariant(
            turns.count + freeSlots.count == Int(slotCount), "A slot is free or has a fanout.")
        if !fanout.header.sequence.isStored { nowOrNeverCount += 1 }
        return true
    }

    private mutating func newSlot() -> UInt32 {
        works.reserve(Int(slotCount) + 1, atLeast: 4)
        slotCount += 1
        return slotCount - 1
    }

    fileprivate mutating func remove(_ slot: UInt32) {
        invariant(slot < slotCount, "A fanout in progress has a slot.")
        turns.remove(slot)
        if !work(slot).pointee.first.isStored { nowOrNeverCount -= 1 }
        invariant(nowOrNeverCount >= 0, "The now-or-never fanouts are no fewer than none.")
        work(slot).deinitialize(count: 1)
        freeSlots.append(slot)
    }

    /// Renumbers the fanouts in progress from 1.
    /// - Returns: their former numbers, in order.
    fileprivate mutating func renumber() -> [UInt32] {
        var before: [UInt32] = []
        var slot = turns.first
        while slot != .nothing {
            before.append(work(slot).pointee.arrival)
            work(slot).pointee.arrival = UInt32(before.count)
            slot = turns.after(slot)
        }
        lastArrival = UInt32(before.count)
        return before
    }
}

/// A loop's projects by number, and their turns. A project stays in the table, because the loop has to remember the last
/// message that it has heard of.
struct ProjectTable: ~Copyable {
    private var projects = Slab<UnsafeMutablePointer<ProjectDelivery>?>()
    /// The turns of the projects with work.
    var turns = FairTurns(quantum: 64)
    private(set) var fanoutCount = 0
    private let arrivalsMax: UInt32

    /// - Parameter arrivalsMax: the highest arrival number of a project's fanouts, at which they are renumbered.
    init(arrivalsMax: UInt32) { self.arrivalsMax = arrivalsMax }

    deinit {
        forEach { project in
            project.deinitialize(count: 1)
            project.deallocate()
        }
    }

    func find(_ number: ProjectNumber) -> UnsafeMutablePointer<ProjectDelivery>? {
        Int(number.rawValue) < projects.capacity ? projects[number.rawValue].pointee : nil
    }

    subscript(number: ProjectNumber) -> UnsafeMutablePointer<ProjectDelivery> {
        mutating get {
            if let project = find(number) { return project }
            let before = UInt32(projects.capacity)
            projects.reserve(Int(number.rawValue) + 1, atLeast: 16)
            for fresh in before..<UInt32(projects.capacity) {
                projects[fresh].initialize(to: nil)
            }
            let project = UnsafeMutablePointer<ProjectDelivery>.allocate(capacity: 1)
            project.initialize(to: ProjectDelivery(number: number))
            projects[number.rawValue].pointee = project
            return project
        }
    }

    /// Whether a project's arrival numbers are used up, so that its fanouts in progress must be renumbered.
    func isNumberedThrough(_ project: ProjectNumber) -> Bool {
        find(project).map { $0.pointee.lastArrival >= arrivalsMax } ?? false
    }

    mutating func renumber(_ project: ProjectNumber) -> [UInt32] {
        self[project].pointee.renumber()
    }

    /// Adds a fanout, or lets the message join the project's last one.
    /// - Returns: false if it has joined the last one, which holds the frame's chunk already.
    mutating func enqueue(_ fanout: Fanout, _ frame: FrameReference) -> Bool {
        let project = self[fanout.project]
        project.pointee.hear(fanout)
        let isFirst = project.pointee.turns.count == 0
        guard project.pointee.add(fanout, frame) else { return false }
        fanoutCount += 1
        if isFirst {
            turns.insert(fanout.project.rawValue, weight: fanout.weight)
        } else {
            turns.setWeight(fanout.project.rawValue, fanout.weight)
        }
        return true
    }

    /// Sets a project's weight, its share of the turns, while it has fanouts in progress.
    mutating func setWeight(_ project: ProjectNumber, _ weight: Int) {
        guard let found = find(project), found.pointee.turns.count > 0 else { return }
        turns.setWeight(project.rawValue, weight)
    }

    /// Calls `body` with each project that has had a connection or a fanout here.
    func forEach(_ body: (UnsafeMutablePointer<ProjectDelivery>) -> Void) {
        for number in 0..<UInt32(projects.capacity) {
            if let project = projects[number].pointee { body(project) }
        }
    }

    /// Calls `body` with every fanout in progress.
    func forEachWork(_ body: (borrowing FanoutWork) -> Void) {
        forEach { project in
            var slot = project.pointee.turns.first
            while slot != .nothing {
                body(project.pointee.work(slot).pointee)
                slot = project.pointee.turns.after(slot)
            }
        }
    }

    /// Notes a fanout that needs no work here, or is done at once.
    mutating func skip(_ fanout: Fanout) { self[fanout.project].pointee.hear(fanout) }

    mutating func finish(_ slot: UInt32, of project: UnsafeMutablePointer<ProjectDelivery>) {
        project.pointee.remove(slot)
        invariant(fanoutCount > 0, "A fanout that ends was counted.")
        fanoutCount -= 1
        if project.pointee.turns.count == 0 { turns.remove(project.pointee.number.rawValue) }
    }
}
