// SPDX-License-Identifier: Apache-2.0
//
// Sessions that are behind read their mailbox: the log is replayed, over several turns if it is long,
// and what is left of it is queued in order, as far as lanes are open and the queue has room. Then the
// session is live, or reads again when its queue has left. Rests on MailboxReading.

public import MartletBase
public import MartletRows

extension Delivery {
    /// Mailboxes that may have been read in part at a time; past it those are finished first.
    static var readingsMax: Int { 512 }
    /// Entries of one replay past which what can not be discarded any more is delivered before the
    /// rest is read.
    static var readingEntriesMax: Int { 16_384 }
    /// The same where what has been read is not collapsible: nothing replaces it any more. A queue has
    /// room for about as many, and what it has no room for is read again.
    public static var partialEntriesMaxDefault: Int { 256 }

    /// STO-1 counts it where a doze holds it back.
    static var heldLane: Lane { Lane(.normal, isCollapsible: false) }

    // MARK: Reading

    /// The next session that is behind and has room, with its mailbox as far as it has been read.
    public mutating func nextReading() -> MailboxReading? {
        while let index = nextBehind() {
            let session = sessions + Int(index)
            session.pointee.flags.remove(.catchingUp)
            // It may have been closed meanwhile, and not be behind any more.
            guard session.pointee.flags.contains(.behind),
                !devices[Int(index)].waitsForStore
            else { continue }
            return readings.removeValue(forKey: index) ?? reading(of: index)
        }
        return nil
    }

    public var hasBehind: Bool { behind.count > 0 }

    private mutating func nextBehind() -> UInt32? {
        behind.popFirst(mustGoOn: readings.count >= Self.readingsMax)
    }

    /// What a reading cost, in rows that were read and messages that were queued: its project's next
    /// turn comes that much later.
    public mutating func chargeReading(_ cost: Int, of project: ProjectNumber) {
        behind.charge(project, cost)
    }

    func reading(of index: UInt32) -> MailboxReading {
        let device = devices + Int(index)
        let delivered = deliveredMarks(index)
        let after = device.pointee.readAfter(delivered)
        let awayFrom = MessageSequence(device.pointee.awayFrom)
        return MailboxReading(
            index: index, owner: owner(of: index), holder: device.pointee.holder,
            isStale: device.pointee.isStale || !device.pointee.isSettled, after: after,
            connectionNumber: device.pointee.connectionNumber,
            acknowledged: device.pointee.acknowledged, delivered: delivered,
            taken: taken[index] ?? [], awayFrom: awayFrom,
            discardedThrough: device.pointee.discardedThrough,
            replay: MailboxReplay(
                limits: limits, after: after,
                absence: .away(
                    from: awayFrom, through: MessageSequence(device.pointee.awayThrough)),
                discarded: device.pointee.discarded, delivered: delivered))
    }

    /// The log goes on behind `through`: the session is next again after others.
    /// - Returns: what can be delivered already, if the replay has become long.
    public mutating func pause(
        _ reading: consuming MailboxReading, through: MessageSequence, now: Instant
    ) -> MailboxPlan? {
        guard isReading(reading) else { return nil }
        let index = reading.index
        reading.after = max(reading.after, through)
        // The absence before the connection discards what was stored before it too: that is known when the
        // store has seen to it.
        if !devices[Int(index)].isStored, reading.replay.mayHaveDiscarded {
            devices[Int(index)].waitsForStore = true
            return nil
        }
        // Nothing that comes later in the log changes what has been read: it is not collapsible, and
        // nothing is, or can be, discarded.
        let isCertain =
            !reading.replay.hasCollapsible && reading.replay.discardedCount == 0
            && (devices[Int(index)].isStored || limits.storedPerInstanceMax == 0)
        if reading.addedCount >= (isCertain ? partialEntriesMax : Self.readingEntriesMax) {
            reading.addedCount = 0
            let certain = isCertain ? reading.after : min(reading.awayFrom, reading.after)
            let plan = plan(&reading, through: certain, isWhole: false, now)
            if hasOpenStep(plan) { return plan }
        }
        readings[index] = reading
        queue(index, isPaused: true)
        return nil
    }

    /// Whether anything of a plan could go now. What waits in closed lanes alone would be planned again
    /// and again.
    private func hasOpenStep(_ plan: borrowing MailboxPlan) -> Bool {
        let closed = devices[Int(plan.index)].closed
        return plan.steps.contains {
            switch $0 {
            case .message(let entry): !closed.contains(entry.lane)
            case .deleted: true
            }
        }
    }

    /// The log has been read to the end of a snapshot, whose last message is `through`.
    /// - Returns: what to deliver; nil if it has to be read once more.
    public mutating func finish(
        _ reading: consuming MailboxReading, through: MessageSequence, now: Instant
    ) -> MailboxPlan? {
        guard isReading(reading) else { return nil }
        let device = devices + Int(reading.index)
        // Nothing is discarded, or left undiscarded, for want of news of an earlier connection: what the
        // store says later of this absence is what the device was told.
        if !device.pointee.isStored,
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
        var steps: [MailboxPlan.Step] = []
        var discarded: MessageSequence?
        // What a doze discards is told when that is over.
        if !device.pointee.isSettled || !device.pointee.isDozing,
            reading.replay.discardedCount > 0,
            reading.replay.discardedThrough.rawValue > device.pointee.toldThrough
        {
            discarded = reading.replay.discardedThrough
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

    /// Asks whether a message of a plan is to be queued now, in the plan's order.
    public mutating func offer(
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

    /// Whether more of its mailbox may be queued for a session.
    public func hasRoom(_ index: UInt32) -> Bool {
        sessions[Int(index)].queuedBytes < OutputBounds.catchUpBytes
    }

    /// Queues a message of a plan that was offered. The first `byteCount` bytes of what was reserved
    /// are its frame.
    /// - Returns: false if the session has enough for now; the message was not queued then.
    public mutating func catchUp(
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

    /// Queues the notice of what was discarded (STO-1): it stands for everything up to its sequence.
    public mutating func catchUp(
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
        // What was stored before the instance was inactive may still wait in a closed lane.
        device.pointee.delivered.raise(allBut: plan.heldLanes, to: sequence)
        for lane in Lane.all where plan.heldLanes.contains(lane) {
            device.pointee.delivered[lane] = max(
                device.pointee.delivered[lane],
                MessageSequence(plan.heldFrom[lane].rawValue - 1))
        }
        device.pointee.toldThrough = sequence
        device.pointee.toldBehind = sequence < highest ? highest : 0
        if let overflow = plan.overflow,
            overflow.through.rawValue > device.pointee.discardedThrough
        {
            device.pointee.discardedThrough = overflow.through.rawValue
            device.pointee.discardedCount = overflow.count
        }
        session.pointee.highestDelivered = max(session.pointee.highestDelivered, sequence)
        return true
    }

    // MARK: Ending

    /// Everything of a plan was queued, or waits in a closed lane, or is there no more.
    public mutating func caughtUp(_ plan: borrowing MailboxPlan) {
        let index = plan.index
        let session = sessions + Int(index)
        let device = devices + Int(index)
        moveOn(index, to: plan.through.rawValue)
        for lane in Lane.all where device.pointee.closed.contains(lane) {
            let held = plan.heldLanes.contains(lane)
            let through = held ? plan.heldFrom[lane].rawValue - 1 : plan.through.rawValue
            if through > device.pointee.delivered[lane].rawValue {
                device.pointee.delivered[lane] = MessageSequence(through)
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
        // What was discarded was told: nothing is while the instance has a connection.
        device.pointee.awayFrom = .max
        foldDetails(index)
        taken[index] = nil
        session.pointee.flags.remove(.behind)
        if device.pointee.isDozing {
            device.pointee.heldCount = plan.heldCount
            let known = max(device.pointee.dozingFrom, device.pointee.askedThrough)
            if plan.heldThrough.rawValue > known { askIfOverfull(index) }
        }
    }

    /// The store could not be read: tries again when the session's queue has drained, or now.
    public mutating func catchUpLater(_ index: UInt32) {
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    mutating func queueCatchUp(_ index: UInt32) { queue(index, isPaused: false) }

    private mutating func queue(_ index: UInt32, isPaused: Bool) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.behind), !session.pointee.flags.contains(.catchingUp),
            !devices[Int(index)].waitsForStore
        else { return }
        session.pointee.flags.insert(.catchingUp)
        behind.append(index, of: session.pointee.project, isPaused: isPaused)
    }
}
