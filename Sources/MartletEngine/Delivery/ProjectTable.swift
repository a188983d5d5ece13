// SPDX-License-Identifier: Apache-2.0
//
// The projects of one loop: who is connected here, and the fanouts in progress, in the order of
// their sequences. Projects with work take turns, a block of instances each; one without work is not
// looked at. Rests on MartletBits.

import MartletBase
import MartletBits

/// A fanout in progress on one loop.
struct FanoutWork {
    let fanout: Fanout
    let frame: FrameReference
    /// Index of the next block in the recipients' directory.
    var nextBlock = 0
}

/// One project on one loop.
struct ProjectDelivery: ~Copyable {
    let number: ProjectNumber
    var connected = ConnectedSet()
    /// Every fanout up to here has been worked through here.
    fileprivate(set) var finishedThrough: UInt64 = 0
    fileprivate var work: [FanoutWork] = []
    /// Works before this index are done; removed in batches.
    fileprivate var first = 0
    fileprivate var hasTurn = false

    init(number: ProjectNumber) { self.number = number }

    var head: FanoutWork { work[first] }

    mutating func advanceHead(to block: Int) { work[first].nextBlock = block }
}

/// Projects by number, and whose turn it is.
struct ProjectTable: ~Copyable {
    private var projects: UnsafeMutablePointer<UnsafeMutablePointer<ProjectDelivery>?>
    private var capacity = 16
    /// Projects with work, in the order of their turns.
    private var turns: [UnsafeMutablePointer<ProjectDelivery>] = []
    private var firstTurn = 0
    private(set) var fanoutCount = 0

    init() {
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

    mutating func enqueue(_ fanout: Fanout, _ frame: FrameReference) {
        let project = self[fanout.project]
        project.pointee.work.append(FanoutWork(fanout: fanout, frame: frame))
        fanoutCount += 1
        if !project.pointee.hasTurn { returnTurn(project) }
    }

    mutating func skip(_ fanout: Fanout) {
        let project = self[fanout.project]
        // With others in progress the last of them will say how far the project is.
        guard project.pointee.work.isEmpty, fanout.header.sequence.isStored else { return }
        project.pointee.finishedThrough = fanout.header.sequence.rawValue
    }

    /// The project whose turn it is. It has no further turn until it is given one again.
    mutating func nextWithWork() -> UnsafeMutablePointer<ProjectDelivery>? {
        guard firstTurn < turns.count else { return nil }
        let project = turns[firstTurn]
        firstTurn += 1
        if firstTurn == turns.count {
            turns.removeAll(keepingCapacity: true)
            firstTurn = 0
        } else if firstTurn >= 64, firstTurn * 2 >= turns.count {
            // With two projects at work the end is never reached.
            turns.removeFirst(firstTurn)
            firstTurn = 0
        }
        project.pointee.hasTurn = false
        return project
    }

    mutating func returnTurn(_ project: UnsafeMutablePointer<ProjectDelivery>) {
        project.pointee.hasTurn = true
        turns.append(project)
    }

    mutating func finishHead(of project: UnsafeMutablePointer<ProjectDelivery>) {
        let sequence = project.pointee.head.fanout.header.sequence
        if sequence.isStored { project.pointee.finishedThrough = sequence.rawValue }
        project.pointee.first += 1
        fanoutCount -= 1
        if project.pointee.first == project.pointee.work.count {
            project.pointee.work.removeAll(keepingCapacity: true)
            project.pointee.first = 0
        } else {
            // A finished fanout holds on to its recipients: drop them as soon as moving the others
            // is no more work than finishing was.
            if project.pointee.first * 2 >= project.pointee.work.count {
                project.pointee.work.removeFirst(project.pointee.first)
                project.pointee.first = 0
            }
            returnTurn(project)
        }
    }
}
