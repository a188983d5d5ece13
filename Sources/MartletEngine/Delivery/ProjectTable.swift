// SPDX-License-Identifier: Apache-2.0
//
// The projects of one loop: who is connected here, and the fanouts in progress. Projects with work
// take turns, and so do the fanouts of each (FAN-2, FAN-3); one without work is not looked at. Rests
// on FairTurns and MartletBits.

import MartletBase
import MartletBits
import MartletRows

/// One project on one loop.
struct ProjectDelivery: ~Copyable {
    let number: ProjectNumber
    var connected = ConnectedSet()
    /// The last stored message that this loop has heard of.
    fileprivate(set) var heardThrough: UInt64 = 0
    /// The last fanout that began here.
    fileprivate(set) var lastArrival: UInt32 = 0
    /// Messages that its fanouts in progress brought.
    var delivered: UInt64 = 0
    /// Chunks that its connections held when it was measured.
    var chunks = ChunkSet()
    var frameBytes = 0
    var isCrowded = false
    /// Whose turn it is of the fanouts in progress, in the order in which they began.
    var turns = FairTurns(quantum: 16)
    private var works: UnsafeMutablePointer<FanoutWork>
    private var capacity = 4
    private var freeSlots: [UInt32] = []
    private var slotCount: UInt32 = 0

    init(number: ProjectNumber) {
        self.number = number
        works = .allocate(capacity: capacity)
    }

    deinit {
        var slot = turns.first
        while slot != .nothing {
            (works + Int(slot)).deinitialize(count: 1)
            slot = turns.after(slot)
        }
        works.deallocate()
    }

    func work(_ slot: UInt32) -> UnsafeMutablePointer<FanoutWork> { works + Int(slot) }

    mutating func hear(_ fanout: Fanout) {
        guard fanout.header.sequence.isStored else { return }
        heardThrough = max(heardThrough, fanout.header.sequence.rawValue)
    }

    /// Every stored message up to here has been worked through here.
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

    /// Somebody has connected, and is passed by what is in progress: what comes next does not go with
    /// that.
    mutating func beginAnew() {
        if turns.last != .nothing { work(turns.last).pointee.isUntouched = false }
    }

    /// - Returns: false if it goes with the one before it.
    fileprivate mutating func add(_ fanout: Fanout, _ frame: FrameReference) -> Bool {
        if turns.last != .nothing, work(turns.last).pointee.join(fanout, frame) { return false }
        lastArrival += 1
        let slot = freeSlots.popLast() ?? newSlot()
        work(slot).initialize(
            to: FanoutWork(fanout: fanout, frame: frame, arrival: lastArrival))
        turns.insert(slot, weight: 1)
        return true
    }

    private mutating func newSlot() -> UInt32 {
        if Int(slotCount) == capacity {
            let grown = UnsafeMutablePointer<FanoutWork>.allocate(capacity: capacity * 2)
            grown.moveInitialize(from: works, count: capacity)
            works.deallocate()
            works = grown
            capacity *= 2
        }
        slotCount += 1
        return slotCount - 1
    }

    fileprivate mutating func remove(_ slot: UInt32) {
        turns.remove(slot)
        work(slot).deinitialize(count: 1)
        freeSlots.append(slot)
    }

    /// Numbers the fanouts in progress from 1 on.
    /// - Returns: their numbers until now, in their order.
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

/// Projects by number, and whose turn it is.
struct ProjectTable: ~Copyable {
    private var projects: UnsafeMutablePointer<UnsafeMutablePointer<ProjectDelivery>?>
    private var capacity = 16
    /// Projects with work.
    var turns = FairTurns(quantum: 64)
    private(set) var fanoutCount = 0
    private let arrivalsMax: UInt32

    /// - Parameter arrivalsMax: fanouts of a project after which they are numbered anew.
    init(arrivalsMax: UInt32) {
        self.arrivalsMax = arrivalsMax
        projects = .allocate(capacity: capacity)
        projects.initialize(repeating: nil, count: capacity)
    }

    deinit {
        for index in 0..<capacity {
            guard let project = projects[index] else { continue }
            project.deinitialize(count: 1)
            project.deallocate()
        }
        projects.deallocate()
    }

    func find(_ number: ProjectNumber) -> UnsafeMutablePointer<ProjectDelivery>? {
        Int(number.rawValue) < capacity ? projects[Int(number.rawValue)] : nil
    }

    subscript(number: ProjectNumber) -> UnsafeMutablePointer<ProjectDelivery> {
        mutating get {
            let index = Int(number.rawValue)
            if index >= capacity {
                let larger = max(index + 1, capacity * 2)
                let grown = UnsafeMutablePointer<UnsafeMutablePointer<ProjectDelivery>?>
                    .allocate(capacity: larger)
                grown.initialize(repeating: nil, count: larger)
                grown.update(from: projects, count: capacity)
                projects.deallocate()
                projects = grown
                capacity = larger
            }
            if let project = projects[index] { return project }
            let project = UnsafeMutablePointer<ProjectDelivery>.allocate(capacity: 1)
            project.initialize(to: ProjectDelivery(number: number))
            projects[index] = project
            return project
        }
    }

    /// Whether the fanouts of a project are to be numbered anew before the next one begins.
    func isNumberedThrough(_ project: ProjectNumber) -> Bool {
        find(project).map { $0.pointee.lastArrival >= arrivalsMax } ?? false
    }

    mutating func renumber(_ project: ProjectNumber) -> [UInt32] {
        self[project].pointee.renumber()
    }

    /// - Returns: whether it is a fanout of its own; else it goes with the one before it, which holds
    ///   the frame's chunk already.
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

    /// A project's share from now on.
    mutating func setWeight(_ project: ProjectNumber, _ weight: Int) {
        guard let found = find(project), found.pointee.turns.count > 0 else { return }
        turns.setWeight(project.rawValue, weight)
    }

    /// The projects that somebody was connected for.
    func forEach(_ body: (UnsafeMutablePointer<ProjectDelivery>) -> Void) {
        for index in 0..<capacity {
            if let project = projects[index] { body(project) }
        }
    }

    /// A fanout that has nothing to do here, or is done at once.
    mutating func skip(_ fanout: Fanout) { self[fanout.project].pointee.hear(fanout) }

    mutating func finish(_ slot: UInt32, of project: UnsafeMutablePointer<ProjectDelivery>) {
        project.pointee.remove(slot)
        fanoutCount -= 1
        if project.pointee.turns.count == 0 { turns.remove(project.pointee.number.rawValue) }
    }
}
