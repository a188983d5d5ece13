// SPDX-License-Identifier: Apache-2.0
//
// Lets sessions that are behind read their mailboxes. A replay goes through the log, a long one in several turns. What
// remains is queued in order, as far as lanes are open and the queue has room. Then the session is live, or reads on
// when its queue is empty. Rests on MailboxReading.

package import MartletBase
import MartletEngine
package import MartletRows

extension Delivery {
    /// From this many paused readings on, a project that has one begins no fresh one.
    static var readingsMax: Int { 512 }
    /// After this many replayed entries we deliver even if later ones may replace or discard some of them. Only messages from
    /// before the absence go out then, because later entries may still discard the others.
    static var readingEntriesMax: Int { 16_384 }
    /// After this many replayed entries we deliver if none is collapsible or discarded: no later entry can replace them, so
    /// waiting for the end of the log gains nothing. About as many fit in a queue; the rest is read again.
    package static var partialEntriesMaxDefault: Int { 256 }

    /// The lane whose messages count towards the limit while a doze holds them back (STO-1).
    static var heldLane: Lane { Lane(.normal, isCollapsible: false) }

    // MARK: Reading

    /// Takes the next session that is behind and has room, with its reading so far; nil if none waits.
    package mutating func nextReading() -> MailboxReading? {
        while let index = nextBehind() {
            let session = sessions + Int(index)
            invariant(
                session.pointee.flags.contains(.catchingUp),
                "A session is in the queue of mailbox readings once.")
            session.pointee.flags.remove(.catchingUp)
            // It may have been closed by now, or caught up.
            guard session.pointee.flags.contains(.behind),
                !devices[Int(index)].waitsForStore
            else { continue }
            return readings.removeValue(forKey: index) ?? reading(of: index)
        }
        return nil
    }

    /// Whether sessions wait to read their mailboxes.
    package var hasDueReadings: Bool { readingQueue.count > 0 }

    private mutating func nextBehind() -> UInt32? {
        readingQueue.popFirst(mustGoOn: readings.count >= Self.readingsMax)
    }

    /// Charges a project for a reading: rows read and messages queued. Its next turn comes that much later.
    package mutating func chargeReading(_ cost: Int, of project: ProjectNumber) {
        readingQueue.charge(project, cost)
    }

    func reading(of index: UInt32) -> MailboxReading {
        let device = devices + Int(index)
        let marks = device.pointee.marks
        let delivered = deliveredMarks(index)
        let after = marks.readAfter(delivered)
        let awayFrom = MessageSequence(marks.awayFrom)
        return MailboxReading(
            index: index, owner: owner(of: index), holder: device.pointee.holder,
            after: after,
            connectionNumber: device.pointee.connectionNumber,
            acknowledged: marks.acknowledged, delivered: delivered,
            taken: taken[index] ?? [], awayFrom: awayFrom,
            discardedThrough: marks.discardedThrough,
            replay: MailboxReplay(
                limits: limits, after: after,
                absence: .away(
                    from: awayFrom, through: MessageSequence(marks.awayThrough)),
                discarded: marks.discarded, delivered: delivered))
    }

    /// Pauses a reading whose log goes on after `through`, to let other sessions read.
    /// - Returns: what can be delivered already, if the replay has become long.
    package mutating func pause(
        _ reading: consuming MailboxReading, through: MessageSequence, now: Instant
    ) -> MailboxPlan? {
        guard isReading(reading) else { return nil }
        let index = reading.index
        reading.after = max(reading.after, through)
        // An overflow during the absence discards older messages too. Wait for the store to say what it discarded.
        if !devices[Int(index)].isDecided, reading.replay.mayHaveDiscarded {
            devices[Int(index)].waitsForStore = true
            return nil
        }
        // No later entry can change what we have read: nothing is collapsible, nothing is or can be discarded.
        let isCertain =
            !reading.replay.hasCollapsible && reading.replay.discardedCount == 0
            && (devices[Int(index)].isDecided || limits.storedPerInstanceMax == 0)
        if reading.addedCount >= (isCertain ? partialEntriesMax : Self.readingEntriesMax) {
            // A later entry of the absence may discard messages from before it too. The store's answer will tell.
            if !isCertain, !devices[Int(index)].isDecided {
                devices[Int(index)].waitsForStore = true
                return nil
            }
            reading.addedCount = 0
            let certain = isCertain ? reading.after : min(reading.awayFrom, reading.after)
            let plan = plan(&reading, through: certain, isWhole: false, now)
            if hasOpenStep(plan) { return plan }
        }
        readings[index] = reading
        queue(index, isPaused: true)
        return nil
    }

    /// Whether anything of a plan could go now. Otherwise we would make the same plan again and again.
    private func hasOpenStep(_ plan: borrowing MailboxPlan) -> Bool {
        let closed = devices[Int(plan.index)].closed
        return plan.steps.contains {
            switch $0 {
            case .message(let entry): !closed.contains(entry.lane)
            case .deleted: true
            }
        }
    }

    /// Ends a reading at the end of a snapshot, whose last message is `through`.
    /// - Returns: what to deliver; nil if the session has ended, or will read again after the store's answer.
    package mutating func finish(
        _ reading: consuming MailboxReading, through: MessageSequence, now: Instant
    ) -> MailboxPlan? {
        guard isReading(reading) else { return nil }
        let device = devices + Int(reading.index)
        // Wait for the news of earlier connections. Without them we might see other discards than the store, and what the
        // device hears is the store's decision.
        if !device.pointee.isDecided,
            reading.replay.discardedCount > 0 || reading.replay.mayHaveDiscarded
        {
            device.pointee.waitsForStore = true
            return nil
        }
        return plan(&reading, through: through, isWhole: true, now)
    }

    func isReading(_ reading: borrowing MailboxReading) -> Bool {
        isDevice(reading.index, reading.connectionNumber)
            && sessions[Int(reading.index)].flags.contains(.behind)
    }

    private mutating func plan(
        _ reading: inout MailboxReading, through: MessageSequence, isWhole: Bool, _ now: Instant
    ) -> MailboxPlan {
        let device = devices + Int(reading.index)
        let marks = device.pointee.marks
        var steps: [MailboxPlan.Step] = []
        var discarded: MessageSequence?
        // What a doze discards is told when the doze ends.
        if !marks.isSettled || !device.pointee.isDozing,
            reading.replay.discardedCount > 0
        {
            let last = reading.replay.discardedThrough.rawValue
            if marks.discarded?.through.rawValue == last {
                discarded = MessageSequence(marks.notice)
            } else if last > reading.discardedThrough {
                // The reading found more discards. If it found none, the device has acknowledged the notice meanwhile.
                discarded = MessageSequence(last)
            }
            // This connection has told the notice already.
            if let notice = discarded, notice.rawValue <= marks.toldLast {
                discarded = nil
            }
        }
        let dropped = reading.replay.droppedThrough
        if dropped > .none {
            skipped[reading.index] = Acknowledgement.Skipped(
                through: reading.replay.through, at: now)
        }
        let count = reading.replay.discardedCount
        for entry in reading.replay.left(at: now) where entry.sequence <= through {
            guard entry.sequence > reading.delivered[entry.lane] else { continue }
            if let last = discarded, entry.sequence > last {
                steps.append(.deleted(through: last, count: count))
                discarded = nil
            }
            steps.append(.message(entry))
        }
        if let discarded, discarded <= through {
            steps.append(.deleted(through: discarded, count: count))
        }
        return MailboxPlan(
            index: reading.index, owner: reading.owner, steps: steps,
            overflow: reading.replay.overflow, through: through, isWhole: isWhole)
    }

    // MARK: Queueing

    /// Whether a message of a plan can be queued now. The caller offers them in the plan's order.
    package mutating func offer(
        _ entry: LogEntry, of plan: inout MailboxPlan, now: Instant
    ) -> MailboxOffer {
        let index = plan.index
        let lane = entry.lane
        if !devices[Int(index)].closed.contains(lane), lane.isCollapsible, throttle.token > 0,
            throttle.taking(
                throttle.token, from: sessions[Int(index)].throttleFull, now.rawValue) == nil
        {
            closeCollapsible(index)
        }
        guard !devices[Int(index)].closed.contains(lane) else {
            if lane == Self.heldLane {
                plan.heldCount += 1
                plan.heldThrough = entry.sequence
            }
            if !plan.heldLanes.contains(lane) {
                plan.heldLanes.insert(LaneSet(lane))
                plan.heldFrom[lane] = entry.sequence
            }
            return .held
        }
        return hasRoom(index) ? .open : .full
    }

    /// Whether more messages of a mailbox may be queued for a session.
    package func hasRoom(_ index: UInt32) -> Bool {
        sessions[Int(index)].queuedBytes < OutputBounds.catchUpBytes
    }

    /// Queues a message of a plan. Its frame is the first `byteCount` bytes of the reserved room.
    /// - Returns: false if the queue was full.
    package mutating func catchUp(
        _ entry: LogEntry, of plan: borrowing MailboxPlan, byteCount: Int, now: Instant
    ) -> Bool {
        let index = plan.index
        let session = sessions + Int(index)
        let frame = output.arena.take(byteCount, .direct)
        guard output.append(frame, to: index) == .queued else { return false }
        let sequence = entry.sequence.rawValue
        let highest = session.pointee.highestDelivered
        if sequence < highest {
            late[index, default: LateDeliveries()].note(sequence, in: entry.lane, behind: highest)
        }
        assert(
            sequence > deliveredMarks(index)[entry.lane].rawValue,
            "A lane gets messages in the order of their sequences.")
        moveOn(index, to: sequence)
        session.pointee.highestDelivered = max(session.pointee.highestDelivered, sequence)
        if entry.lane.isCollapsible, throttle.token > 0,
            let full = throttle.taking(
                throttle.token, from: session.pointee.throttleFull, now.rawValue)
        {
            session.pointee.throttleFull = full
        }
        counters.delivered &+= 1
        let project = session.pointee.project
        countInTurn(1, session, index)
        endSentTurn(of: project)
        count(entry.sequence, 1, of: project)
        return true
    }

    /// Queues a notice of discards (STO-1). Every message up to its stream ID was discarded, was queued before, or waits in
    /// a closed lane.
    /// - Returns: false if the queue was full.
    package mutating func catchUp(
        deletedThrough: MessageSequence, of plan: borrowing MailboxPlan, byteCount: Int
    ) -> Bool {
        let index = plan.index
        let session = sessions + Int(index)
        let frame = output.arena.take(byteCount, .direct)
        guard output.append(frame, to: index) == .queued else { return false }
        let sequence = deletedThrough.rawValue
        let highest = session.pointee.highestDelivered
        if sequence < highest {
            late[index, default: LateDeliveries()].note(
                sequence, in: Self.heldLane, behind: highest)
        }
        split(index)
        let device = devices + Int(index)
        // Messages from before the instance became inactive may still wait in a closed lane.
        let marks = device.pointee.changingMarks()
        marks.pointee.delivered.raise(allBut: plan.heldLanes, to: sequence)
        for lane in Lane.all where plan.heldLanes.contains(lane) {
            marks.pointee.delivered[lane] = max(
                marks.pointee.delivered[lane],
                MessageSequence(plan.heldFrom[lane].rawValue - 1))
        }
        if !device.pointee.isStored { device.pointee.isToldEarly = true }
        marks.pointee.toldThrough = sequence
        marks.pointee.toldBehind = sequence < highest ? highest : 0
        if let overflow = plan.overflow,
            overflow.through.rawValue > marks.pointee.discardedThrough
        {
            marks.pointee.discardedThrough = overflow.through.rawValue
            marks.pointee.discardedCount = overflow.count
            marks.pointee.noticeStreamID = 0
        }
        marks.pointee.toldNotice = marks.pointee.notice
        session.pointee.highestDelivered = max(session.pointee.highestDelivered, sequence)
        return true
    }

    // MARK: Ending

    /// A plan is done: each message was queued, waits in a closed lane, or is gone. If the plan was whole, the session is live.
    package mutating func caughtUp(_ plan: borrowing MailboxPlan) {
        let index = plan.index
        let session = sessions + Int(index)
        let device = devices + Int(index)
        moveOn(index, to: plan.through.rawValue)
        for lane in Lane.all where device.pointee.closed.contains(lane) {
            let held = plan.heldLanes.contains(lane)
            let through = held ? plan.heldFrom[lane].rawValue - 1 : plan.through.rawValue
            if through > device.pointee.delivered[lane].rawValue {
                device.pointee.changingMarks().pointee.delivered[lane] = MessageSequence(through)
            }
        }
        guard plan.isWhole else {
            queueCatchUp(index)
            return
        }
        if device.pointee.closed.isEmpty {
            session.pointee.deliveredThrough = deliveredMarks(index).highest.rawValue
            session.pointee.flags.remove(.split)
        }
        // The notice of the absence's discards is queued, and there is no new absence while the instance is connected.
        device.pointee.changingMarks().pointee.awayFrom = .max
        foldMarks(index)
        taken[index] = nil
        session.pointee.flags.remove(.behind)
        if device.pointee.isDozing {
            device.pointee.changingMarks().pointee.heldCount = plan.heldCount
            let known = max(device.pointee.marks.dozingFrom, device.pointee.marks.askedThrough)
            if plan.heldThrough.rawValue > known { askIfOverfull(index) }
        }
    }

    /// The store couldn't be read: tries again now, or once the session's queue has drained.
    package mutating func catchUpLater(_ index: UInt32) {
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    mutating func queueCatchUp(_ index: UInt32) { queue(index, isPaused: false) }

    private mutating func queue(_ index: UInt32, isPaused: Bool) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.behind), !session.pointee.flags.contains(.catchingUp),
            !devices[Int(index)].waitsForStore
        else { return }
        session.pointee.flags.insert(.catchingUp)
        readingQueue.append(index, of: session.pointee.project, isPaused: isPaused)
    }
}
