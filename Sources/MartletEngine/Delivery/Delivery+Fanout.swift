// SPDX-License-Identifier: Apache-2.0
//
// Fanouts of one loop: begun in their order, worked through a block of instances at a time, queued for
// everybody who is live. What happens to most sessions most of the time is a flag test, a comparison
// and a longer segment; whoever is behind, split or out of tokens is dealt with message by message.
// Rests on ProjectTable and OutputQueues.

public import Glibc
public import MartletBase
import MartletBits

extension Delivery {
    // MARK: Beginning

    /// Whether any session here could get the message: if not, no frame is needed.
    public func concerns(_ fanout: Fanout) -> Bool {
        guard let project = projects.find(fanout.project) else { return false }
        switch fanout.recipients {
        case .one(let ordinal): return project.pointee.connected.contains(ordinal)
        case .many: return !project.pointee.connected.isEmpty
        }
    }

    /// Begins a fanout. The first `byteCount` bytes of what was reserved are its frame.
    public mutating func enqueue(_ fanout: Fanout, byteCount: Int) {
        let frame = output.arena.take(byteCount, .shared)
        if projects.enqueue(fanout, frame) { output.arena.retain(frame.chunk) }
        counters.fanoutsStarted += 1
    }

    /// Fanouts in progress here, past which `postpone` is called instead of `enqueue`.
    public static var fanoutsInProgressMax: Int { 4096 }

    /// Too much is in progress here: whoever the stored message is for reads it from its mailbox.
    /// Messages that are not stored are dropped. Memory stays bounded whatever is sent.
    public mutating func postpone(_ fanout: Fanout) {
        guard let project = projects.find(fanout.project) else { return }
        project.pointee.hear(fanout)
        guard fanout.header.sequence.isStored else {
            counters.dropped &+= 1
            return
        }
        // What is in progress passes these sessions by from now on; they find it in the mailbox.
        switch fanout.recipients {
        case .one(let ordinal):
            if let index = project.pointee.connected.handle(of: ordinal) { fallBehind(index) }
        case .many(let recipients):
            let view = recipients.view
            for at in 0..<view.blockCount {
                let block = view.block(at: at)
                project.pointee.connected.forEachHandle(
                    in: block.block, intersecting: block.view
                ) { fallBehind($0) }
            }
        }
    }

    private mutating func fallBehind(_ index: UInt32) {
        sessions[Int(index)].flags.insert(.behind)
        counters.fellBehind &+= 1
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// A fanout that concerns nobody here still moves its project on.
    public mutating func skip(_ fanout: Fanout) { projects.skip(fanout) }

    /// Fanouts in progress here.
    public var fanoutCount: Int { projects.fanoutCount }

    /// MSG-10: a fanout in progress goes on without a message.
    public mutating func cancel(_ sequence: MessageSequence, in project: ProjectNumber) {
        projects.find(project)?.pointee.cancel(sequence)
    }

    // MARK: Fanning out

    /// Works through blocks of the fanouts in progress, project by project in turn.
    ///
    /// Looking at a session costs a hundredth of sending to it, so a turn that has found sessions to
    /// send to may look for more to send them for as long as that sending will take: what several
    /// messages bring to one session then leaves in one send.
    /// - Parameters:
    ///   - budget: sessions looked at after which it stops at the next block, whether they are given
    ///     something or not. Each block counts a little, and each session that has something to send
    ///     allows `looksPerSend` more.
    ///   - now: a stored message that has expired by then is given to nobody any more (TTL-3).
    /// - Returns: whether there is more to do.
    public mutating func step(budget: Int, now: Instant) -> Bool {
        wake(now)
        looks = 0
        var blocks = 0
        while let project = projects.nextWithWork() {
            deliverBlock(of: project, now)
            blocks += 1
            let limit = budget + output.readyCount * looksPerSend
            if looks + blocks / 16 >= limit { return projects.fanoutCount > 0 }
        }
        return false
    }

    private mutating func deliverBlock(
        of project: UnsafeMutablePointer<ProjectDelivery>, _ now: Instant
    ) {
        if project.pointee.dropExpired(now) {
            finish(project, project.pointee.head.frame)
            return
        }
        let work = project.pointee.head
        let turn = Turn(work, now: now.rawValue, throttle)
        switch work.fanout.recipients {
        case .one(let ordinal):
            if let index = project.pointee.connected.handle(of: ordinal) {
                deliver(work, to: index, turn)
            }
            finish(project, work.frame)
        case .many(let recipients):
            let view = recipients.view
            var at = work.nextBlock
            // Blocks in which nobody is connected cost a look each and no turn.
            while at < view.blockCount {
                let block = view.block(at: at)
                at += 1
                guard project.pointee.connected.count(inBlock: block.block) > 0 else { continue }
                project.pointee.connected.forEachHandle(
                    in: block.block, intersecting: block.view
                ) { index in
                    deliver(work, to: index, turn)
                }
                break
            }
            if at < view.blockCount {
                project.pointee.advanceHead(to: at)
                projects.returnTurn(project)
            } else {
                finish(project, work.frame)
            }
        }
    }

    private mutating func finish(
        _ project: UnsafeMutablePointer<ProjectDelivery>, _ frame: FrameReference
    ) {
        output.arena.release(frame.chunk)
        projects.finishHead(of: project)
    }

    /// What is the same for every session of a block.
    private struct Turn {
        let now: Int64
        /// Milliseconds of the throttle's bucket that all messages of the work take together.
        let cost: Int64
        let frame: FrameReference
        let first: UInt64
        let last: UInt64
        let position: UInt64
        let count: UInt64
        let isStored: Bool

        init(_ work: borrowing FanoutWork, now: Int64, _ throttle: Throttle) {
            self.now = now
            cost = work.tokenCount &* throttle.token
            frame = work.frame
            // Where a message has expired nobody gets all of them.
            first = work.hasExpired ? 0 : work.first.rawValue
            last = work.last.rawValue
            position = work.position.rawValue
            count = UInt64(work.messageCount)
            isStored = work.last.isStored
        }
    }

    /// Queues all messages of a work for one session, as one run if it is to have all of them.
    @inline(__always)
    private mutating func deliver(
        _ work: borrowing FanoutWork, to index: UInt32, _ turn: Turn
    ) {
        let session = sessions + Int(index)
        looks &+= 1
        let isForAll =
            turn.isStored
            ? turn.first > session.pointee.deliveredThrough
            : turn.position >= session.pointee.attachedAt
        guard session.pointee.flags.isDisjoint(with: .special), isForAll else {
            deliverEach(work, to: index, turn.now)
            return
        }
        var full = session.pointee.throttleFull
        if turn.cost > 0 {
            guard let later = throttle.taking(turn.cost, from: full, turn.now) else {
                deliverEach(work, to: index, turn.now)
                return
            }
            full = later
        }
        guard output.append(turn.frame, to: index) == .queued else {
            deliverEach(work, to: index, turn.now)
            return
        }
        if turn.cost > 0 { session.pointee.throttleFull = full }
        counters.delivered &+= turn.count
        if turn.isStored {
            session.pointee.deliveredThrough = turn.last
            session.pointee.highestDelivered = turn.last
        }
    }

    /// The messages of a work one by one: the session has the first of them already, has no room or no
    /// tokens for all, is not live in all lanes, or some have expired.
    @inline(never)
    private mutating func deliverEach(
        _ work: borrowing FanoutWork, to index: UInt32, _ now: Int64
    ) {
        var frame = work.frame
        guard work.messageCount > 1 else {
            deliver(frame, work.first, work.lane, work.position, to: index, now)
            return
        }
        for part in work.parts {
            defer { frame.offset += part.frameBytes }
            if part.isExpired { continue }
            frame.length = part.frameBytes
            deliver(frame, part.sequence, part.lane, work.position, to: index, now)
        }
    }

    private mutating func deliver(
        _ frame: FrameReference, _ sequence: MessageSequence, _ lane: Lane,
        _ position: MessageSequence, to index: UInt32, _ now: Int64
    ) {
        guard sequence.isStored else {
            deliverNow(frame, lane, position, to: index)
            return
        }
        let session = sessions + Int(index)
        let raw = sequence.rawValue
        if session.pointee.flags.contains(.behind) {
            counters.passedBy &+= 1
            return
        }
        let isSplit = session.pointee.flags.contains(.split)
        let through =
            isSplit
            ? devices[Int(index)].delivered[lane].rawValue : session.pointee.deliveredThrough
        guard raw > through else { return }
        if isSplit, devices[Int(index)].closed.contains(lane) {
            counters.heldBack &+= 1
            return
        }
        var full = session.pointee.throttleFull
        if lane.isCollapsible, throttle.token > 0 {
            guard let later = throttle.taking(throttle.token, from: full, now) else {
                closeCollapsible(index)
                counters.heldBack &+= 1
                return
            }
            full = later
        }
        if output.append(frame, to: index) == .queued {
            moveOn(index, to: raw)
            session.pointee.highestDelivered = raw
            session.pointee.throttleFull = full
            counters.delivered &+= 1
        } else {
            // It was live, so it has everything before this one.
            moveOn(index, to: raw &- 1)
            session.pointee.flags.insert(.behind)
            counters.fellBehind &+= 1
        }
    }

    /// TTL-2: a message that is not stored, for whoever is connected and ready.
    private mutating func deliverNow(
        _ frame: FrameReference, _ lane: Lane, _ position: MessageSequence, to index: UInt32
    ) {
        let session = sessions + Int(index)
        // Before the message's position was whoever was connected then: later, the ordinal may have
        // another holder.
        guard position.rawValue >= session.pointee.attachedAt else { return }
        let device = devices + Int(index)
        guard device.pointee.isSettled || !session.pointee.flags.contains(.behind) else {
            counters.passedBy &+= 1
            return
        }
        guard lane.isHigh || !device.pointee.isDozing,
            output.append(frame, to: index) == .queued
        else {
            counters.dropped &+= 1
            return
        }
        counters.delivered &+= 1
    }

    /// Everything up to a sequence was queued for the session, or is none of its, in all lanes that
    /// are open.
    func moveOn(_ index: UInt32, to sequence: UInt64) {
        let session = sessions + Int(index)
        if session.pointee.flags.contains(.split) {
            let closed = devices[Int(index)].closed
            devices[Int(index)].delivered.raise(allBut: closed, to: sequence)
        } else if sequence > session.pointee.deliveredThrough {
            session.pointee.deliveredThrough = sequence
        }
    }

    // MARK: Sending

    public mutating func nextReady() -> UInt32? { output.nextReady() }

    /// Sessions that wait for their send to be started.
    public var readyCount: Int { output.readyCount }

    /// What to send next for a session. Stays valid until `sent` or `close`.
    public mutating func gather(
        _ index: UInt32, into vectors: UnsafeMutableBufferPointer<iovec>
    ) -> Int {
        counters.sends &+= 1
        return output.gather(index, into: vectors)
    }

    public mutating func sent(_ index: UInt32, byteCount: Int) {
        output.sent(index, byteCount: byteCount)
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Bytes waiting for a session.
    public func queuedBytes(_ index: UInt32) -> Int { Int(sessions[Int(index)].queuedBytes) }

    /// Whether a send of the session is with the kernel.
    public func isSending(_ index: UInt32) -> Bool { sessions[Int(index)].inFlightBytes > 0 }
}
