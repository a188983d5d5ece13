// SPDX-License-Identifier: Apache-2.0
//
// The projects of one loop: who is connected here, and the fanouts in progress, in the order of
// their sequences. Projects with work take turns, a block of instances each; one without work is not
// looked at. Rests on MartletBits.

import MartletBase
import MartletBits

/// A fanout in progress on one loop: of one message, or of several that follow each other and have
/// the same recipients. Their frames lie behind each other, so each recipient gets one run of bytes
/// and is looked at once, however many messages there are.
struct FanoutWork {
    struct Part {
        var sequence: MessageSequence
        var lane: Lane
        var frameBytes: UInt32
        var expires: Instant
        var isExpired = false
    }

    /// Of the first message; recipients and position are those of all.
    let fanout: Fanout
    /// The frames of all messages.
    private(set) var frame: FrameReference
    /// Of the first message, and of the last.
    let first: MessageSequence
    private(set) var last: MessageSequence
    let position: MessageSequence
    /// Of the first message.
    let lane: Lane
    /// Stored messages that take a token of the throttle (COL-4).
    private(set) var tokenCount: Int64
    /// Each message by itself; empty as long as there is only one.
    private(set) var parts: [Part] = []
    /// Whether any of several messages has expired.
    private(set) var hasExpired = false
    /// When the first of them does.
    private var nextExpiry: Instant
    /// Index of the next block in the recipients' directory.
    var nextBlock = 0

    /// Bytes of one run: an eighth of what may be queued for a session, so that a run that finds no
    /// room is an exception.
    static let frameBytesMax: UInt32 = 64 * 1024

    init(fanout: Fanout, frame: FrameReference) {
        self.fanout = fanout
        self.frame = frame
        first = fanout.header.sequence
        last = first
        position = fanout.position
        lane = fanout.header.lane
        tokenCount = lane.isCollapsible && first.isStored ? 1 : 0
        nextExpiry = fanout.header.expires
    }

    /// MSG-10: nobody is given the message any more who has not been.
    mutating func cancel(_ sequence: MessageSequence) {
        if parts.isEmpty {
            if last == sequence { nextExpiry = .always }
            return
        }
        for index in parts.indices where parts[index].sequence == sequence {
            parts[index].expires = .always
            nextExpiry = .always
        }
    }

    /// Marks what has expired by `now`. What is not stored is on its way however long that takes.
    /// - Returns: whether nothing is left.
    mutating func dropExpired(_ now: Instant) -> Bool {
        guard last.isStored, nextExpiry <= now else { return false }
        guard !parts.isEmpty else { return true }
        hasExpired = true
        var left: Instant?
        for index in parts.indices {
            if parts[index].expires <= now {
                parts[index].isExpired = true
            } else {
                left = min(left ?? parts[index].expires, parts[index].expires)
            }
        }
        guard let left else { return true }
        nextExpiry = left
        return false
    }

    var messageCount: Int { max(parts.count, 1) }

    /// Takes a message in if it can be delivered together with those that are here.
    mutating func join(_ next: Fanout, _ nextFrame: FrameReference) -> Bool {
        guard nextBlock == 0, next.recipients.isSame(as: fanout.recipients),
            frame.chunk == nextFrame.chunk, frame.offset &+ frame.length == nextFrame.offset,
            frame.length &+ nextFrame.length <= Self.frameBytesMax
        else { return false }
        let sequence = next.header.sequence
        if last.isStored {
            guard sequence.isStored, sequence > last else { return false }
        } else {
            guard !sequence.isStored, next.position == position else { return false }
        }
        if parts.isEmpty {
            parts.append(
                Part(
                    sequence: last, lane: lane, frameBytes: frame.length, expires: nextExpiry))
        }
        let lane = next.header.lane
        parts.append(
            Part(
                sequence: sequence, lane: lane, frameBytes: nextFrame.length,
                expires: next.header.expires))
        if lane.isCollapsible, sequence.isStored { tokenCount += 1 }
        nextExpiry = min(nextExpiry, next.header.expires)
        frame.length &+= nextFrame.length
        last = sequence
        return true
    }
}

extension Instant {
    /// Before every other: what expires then has expired.
    fileprivate static let always = Instant(rawValue: .min)
}

extension Recipients {
    /// Whether these are known to be the same instances without looking at them.
    fileprivate func isSame(as other: Recipients) -> Bool {
        switch (self, other) {
        case (.one(let mine), .one(let other)): mine == other
        case (.many(let mine), .many(let other)): mine === other
        default: false
        }
    }
}

/// One project on one loop.
struct ProjectDelivery: ~Copyable {
    let number: ProjectNumber
    var connected = ConnectedSet()
    /// Every fanout up to here has been worked through here.
    fileprivate(set) var finishedThrough: UInt64 = 0
    /// The last stored message that this loop has heard of.
    fileprivate(set) var heardThrough: UInt64 = 0
    fileprivate var work: [FanoutWork] = []
    /// Works before this index are done; removed in batches.
    fileprivate var first = 0
    fileprivate var hasTurn = false

    init(number: ProjectNumber) { self.number = number }

    var head: FanoutWork { work[first] }

    mutating func hear(_ fanout: Fanout) {
        guard fanout.header.sequence.isStored else { return }
        heardThrough = max(heardThrough, fanout.header.sequence.rawValue)
    }

    mutating func cancel(_ sequence: MessageSequence) {
        for index in first..<work.count { work[index].cancel(sequence) }
    }

    mutating func advanceHead(to block: Int) { work[first].nextBlock = block }

    /// - Returns: whether nothing of the head is left to be delivered at `now`.
    mutating func dropExpired(_ now: Instant) -> Bool { work[first].dropExpired(now) }
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

    /// - Returns: whether it is a fanout of its own; else it goes with the one before it, which holds
    ///   the frame's chunk already.
    mutating func enqueue(_ fanout: Fanout, _ frame: FrameReference) -> Bool {
        let project = self[fanout.project]
        project.pointee.hear(fanout)
        if project.pointee.first < project.pointee.work.count,
            project.pointee.work[project.pointee.work.count - 1].join(fanout, frame)
        {
            return false
        }
        project.pointee.work.append(FanoutWork(fanout: fanout, frame: frame))
        fanoutCount += 1
        if !project.pointee.hasTurn { returnTurn(project) }
        return true
    }

    mutating func skip(_ fanout: Fanout) {
        let project = self[fanout.project]
        project.pointee.hear(fanout)
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
        let sequence = project.pointee.head.last
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
