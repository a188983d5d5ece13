// SPDX-License-Identifier: Apache-2.0
//
// Reads mailboxes for sessions that are behind. The loop replays the log of a mailbox and queues the remaining
// messages for the session, a bounded part in each turn. Rests on the store and on Delivery.

import Logging
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletWire

extension Loop where Kernel: ~Copyable {
    /// Reads mailboxes of sessions that are behind.
    /// - Returns: the number of mailboxes read.
    mutating func catchUp() -> Int {
        guard delivery.hasDueReadings, hasRoomForFrames, context.monotonic() >= pace.catchUpResumes
        else {
            return 0
        }
        var readCount = 0
        let now = context.clock()
        let store = context.store
        do {
            try store.read { (transaction) throws in
                var log = try SharedLog(transaction)
                var used = 0
                var bound = Pace.catchUpCostPerTurnAlone
                defer {
                    endSharing(log)
                    delivery.releaseShared()
                    if used >= bound, bound == Pace.catchUpCostPerTurn { pauseCatchUp() }
                }
                while used < bound, hasRoomForFrames, let reading = delivery.nextReading() {
                    readCount += 1
                    let index = reading.index
                    let project = reading.owner.project
                    if delivery.hasOthers(than: project, now: now) {
                        bound = Pace.catchUpCostPerTurn
                    }
                    var cost = Pace.catchUpCostPerReading
                    defer {
                        used += cost
                        delivery.chargeReading(cost, of: project)
                    }
                    do {
                        try catchUp(reading, now, transaction, &log, &cost)
                    } catch {
                        delivery.catchUpLater(index)
                        throw error
                    }
                }
            }
        } catch {
            context.logger.error("a mailbox could not be read", metadata: ["error": "\(error)"])
            pace.catchUpResumes = context.monotonic() + Pace.catchUpRestMilliseconds
        }
        return readCount
    }

    private mutating func pauseCatchUp() {
        pace.catchUpResumes = context.monotonic() + Pace.catchUpPauseMilliseconds
    }

    /// Reads a part of a mailbox, and queues messages as far as lanes and queue allow.
    private mutating func catchUp(
        _ start: MailboxReading, _ now: Instant, _ transaction: borrowing Transaction,
        _ log: inout SharedLog, _ cost: inout Int
    ) throws {
        var reading = start
        let owner = reading.owner
        // The snapshot may be newer than the loop's news. If the instance was unregistered meanwhile, its
        // ordinal and mailbox may belong to another holder.
        let present = try transaction.instances.holder(of: owner.ordinal, in: owner.project)
        guard present == reading.holder else { return }
        let state = try transaction.mailboxes.state(of: owner.ordinal, in: owner.project)
        reading = delivery.refresh(reading, state, now: now)
        if let plain = delivery.shared(reading, state),
            try share(plain, now, transaction, &log, &cost)
        {
            return
        }
        guard let plan = try read(reading, now, transaction, &cost) else { return }
        let before = delivery.counters.delivered
        defer { cost += Int(delivery.counters.delivered - before) }
        try queue(plan, now, transaction)
    }

    /// Gives a session its messages from the log, as shared by the sessions of a turn.
    /// - Returns: false if the mailbox rules may matter for the session. Then no message was given.
    private mutating func share(
        _ reading: SharedReading, _ now: Instant, _ transaction: borrowing Transaction,
        _ log: inout SharedLog, _ cost: inout Int
    ) throws -> Bool {
        if !log.covers(reading) {
            endSharing(log)
            try log.begin(reading.owner.project, after: reading.after)
        }
        let readBefore = log.readCount
        let found = try log.read(reading, now: now, rowsMax: Pace.mailboxRowsPerRead)
        cost += log.readCount - readBefore
        guard case .entries(let entries, let through, let isEnd) = found,
            delivery.isCertain(reading, entries: entries, isWhole: isEnd)
        else { return false }
        let roomBefore = delivery.room(reading.index)
        var room = roomBefore
        var count = 0
        while count < log.selectedCount, room > 0 {
            let place = log.selected[count]
            let message = log.messages.baseAddress! + Int(place)
            if !message.pointee.isEncoded {
                let byteCount = try log.withMessage(at: place, on: reading.owner.platform) {
                    encodeDelivery($0.header, $0.body, .direct)
                }
                delivery.share(&message.pointee, byteCount: byteCount)
                cost += 1
            }
            room -= message.pointee.byteCount
            count += 1
        }
        let given = delivery.give(log.selected[..<count], of: log.messages, to: reading.index)
        cost += (entries + given) / Pace.catchUpSharedPerCost
        cost += (roomBefore - room) / Pace.catchUpBytesPerCost
        guard given == log.selectedCount else { return true }
        let last =
            isEnd ? try transaction.projects.lastSequence(of: reading.owner.project) : through
        delivery.caughtUp(reading, through: last, isWhole: isEnd)
        return true
    }

    private mutating func endSharing(_ log: borrowing SharedLog) {
        guard let project = log.project else { return }
        delivery.endSharing(log.sharedMessages, of: project)
    }

    /// Reads a part of a log.
    /// - Returns: the messages to queue; nil if the reading must go on before a message is certain.
    private mutating func read(
        _ start: MailboxReading, _ now: Instant, _ transaction: borrowing Transaction,
        _ cost: inout Int
    ) throws -> MailboxPlan? {
        var reading = start
        let owner = reading.owner
        let last = try transaction.projects.lastSequence(of: owner.project)
        let scan = try transaction.log.forEachLogged(
            for: owner, after: reading.after, rowsMax: Pace.mailboxRowsPerRead
        ) { reading.add($0) }
        switch scan {
        case .end(let rowCount):
            cost += rowCount
            return delivery.finish(reading, through: last, now: now)
        case .paused(let through):
            cost += Pace.mailboxRowsPerRead
            return delivery.pause(reading, through: through, now: now)
        }
    }

    private mutating func queue(
        _ start: MailboxPlan, _ now: Instant, _ transaction: borrowing Transaction
    ) throws {
        var plan = start
        for step in start.steps {
            switch step {
            case .deleted(let through, let count):
                guard delivery.hasRoom(plan.index) else { return }
                let frame = output.encode(
                    .deleted(Deleted(streamID: through.rawValue, count: count)))
                delivery.reserve(frame.count, .direct).copyBytes(from: frame)
                guard
                    delivery.catchUp(deletedThrough: through, of: plan, byteCount: frame.count)
                else { return }
            case .message(let entry):
                switch delivery.offer(entry, of: &plan, now: now) {
                case .held: continue
                case .full: return
                case .open: break
                }
                var byteCount: Int?
                _ = try transaction.messages.withMessage(
                    entry.sequence, on: plan.owner.platform, in: plan.owner.project
                ) { byteCount = encodeDelivery($0.header, $0.body, .direct) }
                guard let byteCount else { continue }
                guard delivery.catchUp(entry, of: plan, byteCount: byteCount, now: now) else {
                    return
                }
            }
        }
        delivery.caughtUp(plan)
    }
}
