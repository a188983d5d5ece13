// SPDX-License-Identifier: Apache-2.0
//
// Fanouts walk through their recipients, a block of ordinals at a time. Projects take turns, and so do the fanouts of each
// project.
//
// A walk that comes to a session gives it everything in progress for it, in order, from all fanouts of the project; later
// walks skip it. So a session gets its messages in order and in one send, however many fanouts are in progress. Each fanout
// is charged for its own deliveries, so shares stay equal.
//
// For most sessions that takes a flag test, a comparison and a longer segment. A session that is behind, split or out of
// tokens is served message by message. Rests on ProjectTable and OutputQueues.

package import MartletBase
import MartletBits
import MartletEngine
import MartletRows

/// A fanout in progress that has recipients in the block being walked.
struct WalkedFanout {
    let work: UnsafeMutablePointer<FanoutWork>
    let slot: UInt32
    let arrival: UInt32
    let view: BlockView
    let turn: Turn
    /// Messages queued for it in this turn.
    var delivered = 0

    /// What is the same for every session of a block.
    struct Turn {
        let now: Int64
        /// What all messages together take from the throttle's bucket, in milliseconds.
        let cost: Int64
        let frame: FrameReference
        let first: UInt64
        let last: UInt64
        let position: UInt64
        let count: Int
        let isStored: Bool

        init(_ work: borrowing FanoutWork, now: Int64, _ throttle: Throttle) {
            self.now = now
            cost = work.tokenCount &* throttle.token
            frame = work.frame
            // With 0 no session gets the run as a whole: it contains an expired message.
            first = work.hasExpired ? 0 : work.first.rawValue
            last = work.last.rawValue
            position = work.position.rawValue
            count = work.messageCount
            isStored = work.last.isStored
        }
    }
}

/// Counter values at which a call of `step` ends.
private struct StepBounds {
    let looks: Int
    let ready: Int
    let deliveries: UInt64
}

extension Delivery {
    /// So many looks without a delivery cost as much as one delivery.
    private static var looksPerDelivery: Int { 64 }

    // MARK: Turns

    /// Continues the fanouts in progress until a bound is reached.
    /// - Parameters:
    ///   - budget: sessions to look at, with or without a delivery.
    ///   - sendsMax: how many more sessions may have frames to send.
    ///   - deliveriesMax: messages to queue.
    ///   - now: stored messages that have expired by now aren't delivered any more (TTL-3).
    /// - Returns: whether fanouts are still in progress.
    package mutating func step(
        budget: Int, sendsMax: Int = .max, deliveriesMax: Int = .max, now: Instant
    ) -> Bool {
        wake(now)
        looks = 0
        let ready = output.readyCount.addingReportingOverflow(sendsMax)
        let bounds = StepBounds(
            looks: budget, ready: ready.overflow ? .max : ready.partialValue,
            deliveries: counters.delivered &+ UInt64(clamping: deliveriesMax))
        while !isUsedUp(bounds), let number = projects.turns.next() {
            walk(projects[ProjectNumber(number)], bounds, now)
        }
        return projects.fanoutCount > 0
    }

    @inline(__always)
    private func isUsedUp(_ bounds: StepBounds) -> Bool {
        looks >= bounds.looks || output.readyCount >= bounds.ready
            || counters.delivered >= bounds.deliveries
    }

    /// Gives a project's next fanout its turn, which ends with the block at the latest.
    private mutating func walk(
        _ project: UnsafeMutablePointer<ProjectDelivery>, _ bounds: StepBounds, _ now: Instant
    ) {
        guard let slot = project.pointee.turns.next() else { return }
        let work = project.pointee.work(slot)
        guard !work.pointee.dropExpired(now),
            case .many(let recipients) = work.pointee.fanout.recipients,
            let block = nextBlock(of: work, recipients, project)
        else { return finish(slot, of: project, now) }
        let own = gatherWalked(of: project, in: block.number, slot, now)
        let isAlone = projects.turns.count == 1
        let isOnly = isAlone && project.pointee.turns.count == 1
        let workCredit = isOnly ? .max : project.pointee.turns.credit(slot)
        let projectCredit =
            isAlone ? .max : projects.turns.credit(project.pointee.number.rawValue)
        invariant(workCredit > 0 && projectCredit > 0, "A turn begins with a credit.")
        let room = isOnly ? ConnectedSet.handlesPerStep : ConnectedSet.handlesPerStepMin
        let batch = UnsafeMutableBufferPointer(rebasing: found[..<room])
        let looksBefore = looks
        let deliveredBefore = counters.delivered
        var isOver = false
        while !isOver {
            var step = work.pointee.nextStep
            let count = project.pointee.connected.handles(
                in: block.number, intersecting: block.view, from: &step, into: batch)
            var at = 0
            while at < count, !isOver {
                visitOnWalk(batch[at], own, project)
                at &+= 1
                isOver =
                    walked[own].delivered >= workCredit
                    || counters.delivered &- deliveredBefore >= UInt64(projectCredit)
                    || isUsedUp(bounds)
            }
            // The next turn looks at the rest of the batch again.
            guard at == count else { break }
            work.pointee.nextStep = step
            guard step == .max else { continue }
            work.pointee.nextBlock += 1
            work.pointee.nextStep = 0
            isOver = true
        }
        charge(project, own, looks: looks - looksBefore)
        if nextBlock(of: work, recipients, project) == nil {
            finish(slot, of: project, now)
        } else {
            work.pointee.tellProgress()
        }
    }

    /// The block where a walk goes on; nil at its end. Skips blocks in which nobody is connected.
    private func nextBlock(
        of work: UnsafeMutablePointer<FanoutWork>, _ recipients: RecipientSet,
        _ project: UnsafeMutablePointer<ProjectDelivery>
    ) -> (number: UInt32, view: BlockView)? {
        let view = recipients.view
        while work.pointee.nextBlock < view.blockCount {
            let block = view.block(at: work.pointee.nextBlock)
            if project.pointee.connected.count(inBlock: block.block) > 0 {
                return (block.block, block.view)
            }
            work.pointee.nextBlock += 1
            work.pointee.nextStep = 0
        }
        return nil
    }

    /// Collects the fanouts in progress that have recipients in a block, in order of arrival.
    /// - Returns: where the walk's own fanout is in `walked`.
    private mutating func gatherWalked(
        of project: UnsafeMutablePointer<ProjectDelivery>, in block: UInt32, _ own: UInt32,
        _ now: Instant
    ) -> Int {
        reserveWalked(project.pointee.turns.count)
        walkedCount = 0
        var result = 0
        var slot = project.pointee.turns.first
        while slot != .nothing {
            defer { slot = project.pointee.turns.after(slot) }
            let work = project.pointee.work(slot)
            guard case .many(let recipients) = work.pointee.fanout.recipients else { continue }
            let view = recipients.view.view(ofBlock: block)
            if case .empty = view { continue }
            if slot != own, work.pointee.dropExpired(now) { continue }
            work.pointee.isUntouched = false
            if slot == own { result = walkedCount }
            (walked + walkedCount).initialize(
                to: WalkedFanout(
                    work: work, slot: slot, arrival: work.pointee.arrival, view: view,
                    turn: WalkedFanout.Turn(work.pointee, now: now.rawValue, throttle)))
            walkedCount += 1
        }
        invariant(
            result < walkedCount && walked[result].slot == own,
            "The fanout of a walk has recipients in the block of the walk.")
        return result
    }

    private mutating func charge(
        _ project: UnsafeMutablePointer<ProjectDelivery>, _ own: Int, looks: Int
    ) {
        let forLooks = max(looks - walked[own].delivered, 0) / Self.looksPerDelivery
        var all = forLooks
        project.pointee.turns.charge(walked[own].slot, forLooks)
        for at in 0..<walkedCount where walked[at].delivered > 0 {
            all += walked[at].delivered
            walked[at].work.pointee.note(walked[at].delivered)
            project.pointee.turns.charge(walked[at].slot, walked[at].delivered)
        }
        projects.turns.charge(project.pointee.number.rawValue, all)
        counters.fanoutDelivered &+= UInt64(all - forLooks)
        project.pointee.delivered &+= UInt64(all - forLooks)
        endSentTurn(of: project.pointee.number)
    }

    private mutating func finish(
        _ slot: UInt32, of project: UnsafeMutablePointer<ProjectDelivery>, _ now: Instant
    ) {
        let work = project.pointee.work(slot)
        invariant(projects.fanoutCount > 0, "A fanout that ends is in progress.")
        work.pointee.end(now)
        let number = project.pointee.number
        work.pointee.forEachSent { sequence, count in self.count(sequence, count, of: number) }
        output.arena.release(project.pointee.work(slot).pointee.frame.chunk)
        projects.finish(slot, of: project)
    }

    // MARK: Visits

    /// Gives a session that a walk has come to everything in progress for it.
    @inline(__always)
    private mutating func visitOnWalk(
        _ index: UInt32, _ own: Int, _ project: UnsafeMutablePointer<ProjectDelivery>
    ) {
        looks &+= 1
        let session = sessions + Int(index)
        let visited = session.pointee.visitedThrough
        guard visited < walked[own].arrival else { return }
        session.pointee.visitedThrough = project.pointee.lastArrival
        guard walkedCount > 1 else {
            walked[own].delivered &+= deliver(walked + own, to: index)
            return
        }
        let bit = session.pointee.ordinal.bitIndex
        for at in 0..<walkedCount
        where walked[at].arrival > visited && (at == own || walked[at].view.contains(bit: bit)) {
            walked[at].delivered &+= deliver(walked + at, to: index)
        }
    }

    /// Gives a session everything in progress for it, outside any walk.
    mutating func visit(
        _ index: UInt32, of project: UnsafeMutablePointer<ProjectDelivery>, _ now: Instant
    ) {
        let session = sessions + Int(index)
        let visited = session.pointee.visitedThrough
        guard visited < project.pointee.lastArrival else { return }
        session.pointee.visitedThrough = project.pointee.lastArrival
        var slot = project.pointee.turns.first
        while slot != .nothing {
            defer { slot = project.pointee.turns.after(slot) }
            let work = project.pointee.work(slot)
            guard work.pointee.arrival > visited,
                case .many(let recipients) = work.pointee.fanout.recipients,
                recipients.view.contains(session.pointee.ordinal), !work.pointee.dropExpired(now)
            else { continue }
            work.pointee.isUntouched = false
            var fanout = WalkedFanout(
                work: work, slot: slot, arrival: work.pointee.arrival, view: .empty,
                turn: WalkedFanout.Turn(work.pointee, now: now.rawValue, throttle))
            let count = deliver(&fanout, to: index)
            work.pointee.note(count)
            counters.fanoutDelivered &+= UInt64(count)
            project.pointee.delivered &+= UInt64(count)
            project.pointee.turns.charge(slot, count)
            projects.turns.charge(project.pointee.number.rawValue, count)
        }
        endSentTurn(of: project.pointee.number)
    }

    /// Queues a work's messages for a session, as one run if it is to have them all.
    /// - Returns: how many were queued.
    @inline(__always)
    private mutating func deliver(
        _ fanout: UnsafePointer<WalkedFanout>, to index: UInt32
    ) -> Int {
        let session = sessions + Int(index)
        let turn = fanout.pointee.turn
        let isForAll =
            turn.isStored
            ? turn.first > session.pointee.deliveredThrough
            : turn.position >= session.pointee.attachedAt
        guard session.pointee.flags.isDisjoint(with: .special), isForAll else {
            return deliverEach(fanout.pointee.work, to: index, turn.now)
        }
        var full = session.pointee.throttleFull
        if turn.cost > 0 {
            guard let later = throttle.taking(turn.cost, from: full, turn.now) else {
                return deliverEach(fanout.pointee.work, to: index, turn.now)
            }
            full = later
        }
        guard output.append(turn.frame, to: index) == .queued else {
            return deliverEach(fanout.pointee.work, to: index, turn.now)
        }
        if turn.cost > 0 { session.pointee.throttleFull = full }
        counters.delivered &+= UInt64(turn.count)
        countInTurn(turn.count, session, index)
        if turn.isStored {
            assert(
                turn.last > session.pointee.highestDelivered,
                "A session that is not split gets messages in the order of their sequences.")
            session.pointee.deliveredThrough = turn.last
            session.pointee.highestDelivered = turn.last
        }
        return turn.count
    }

    /// Queues a work's messages one by one, where a run won't do: the session has the first one already, lacks room or tokens
    /// for all, or isn't live in all lanes, or a message has expired.
    @inline(never)
    private mutating func deliverEach(
        _ work: UnsafeMutablePointer<FanoutWork>, to index: UInt32, _ now: Int64
    ) -> Int {
        var frame = work.pointee.frame
        let position = work.pointee.position
        guard work.pointee.messageCount > 1 else {
            return deliver(
                frame, work.pointee.first, work.pointee.lane, position, to: index, now)
        }
        var count = 0
        for at in 0..<work.pointee.messageCount {
            let part = work.pointee.parts[at]
            defer { frame.offset += part.frameBytes }
            if part.isExpired { continue }
            frame.length = part.frameBytes
            let own = deliver(frame, part.sequence, part.lane, position, to: index, now)
            work.pointee.noteEach(own, at)
            count += own
        }
        return count
    }

    /// Queues a message for a session if the rule of delivery, the lane and the queue allow it.
    /// - Returns: 1 if it was queued, else 0.
    mutating func deliver(
        _ frame: FrameReference, _ sequence: MessageSequence, _ lane: Lane,
        _ position: MessageSequence, to index: UInt32, _ now: Int64
    ) -> Int {
        guard sequence.isStored else { return deliverNow(frame, lane, position, to: index) }
        let session = sessions + Int(index)
        let raw = sequence.rawValue
        if session.pointee.flags.contains(.behind) {
            counters.passedBy &+= 1
            return 0
        }
        let isSplit = session.pointee.flags.contains(.split)
        let through =
            isSplit
            ? devices[Int(index)].delivered[lane].rawValue : session.pointee.deliveredThrough
        guard raw > through else { return 0 }
        if isSplit, devices[Int(index)].closed.contains(lane) {
            counters.heldBack &+= 1
            if lane == Self.heldLane { noteHeld(index) }
            return 0
        }
        var full = session.pointee.throttleFull
        if lane.isCollapsible, throttle.token > 0 {
            guard let later = throttle.taking(throttle.token, from: full, now) else {
                closeCollapsible(index)
                counters.heldBack &+= 1
                return 0
            }
            full = later
        }
        guard output.append(frame, to: index) == .queued else {
            // It was live until now, so everything before is queued.
            moveOn(index, to: raw &- 1)
            session.pointee.flags.insert(.behind)
            counters.fellBehind &+= 1
            return 0
        }
        moveOn(index, to: raw)
        session.pointee.highestDelivered = raw
        session.pointee.throttleFull = full
        counters.delivered &+= 1
        countInTurn(1, session, index)
        return 1
    }

    /// Queues a now-or-never message, if the session is ready (TTL-2).
    private mutating func deliverNow(
        _ frame: FrameReference, _ lane: Lane, _ position: MessageSequence, to index: UInt32
    ) -> Int {
        let session = sessions + Int(index)
        // It was attached after the message was accepted, so it may be another holder of the ordinal.
        guard position.rawValue >= session.pointee.attachedAt else { return 0 }
        let device = devices + Int(index)
        guard device.pointee.isSettled || !session.pointee.flags.contains(.behind) else {
            counters.passedBy &+= 1
            return 0
        }
        guard lane.isHigh || !device.pointee.isDozing,
            output.append(frame, to: index) == .queued
        else {
            counters.dropped &+= 1
            return 0
        }
        counters.delivered &+= 1
        countInTurn(1, session, index)
        return 1
    }

    /// Raises the position of all open lanes: everything up to the sequence was queued for the session, or is for others.
    func moveOn(_ index: UInt32, to sequence: UInt64) {
        let session = sessions + Int(index)
        if session.pointee.flags.contains(.split) {
            let closed = devices[Int(index)].closed
            devices[Int(index)].changingMarks().pointee.delivered.raise(
                allBut: closed, to: sequence)
        } else if sequence > session.pointee.deliveredThrough {
            session.pointee.deliveredThrough = sequence
        }
    }
}
