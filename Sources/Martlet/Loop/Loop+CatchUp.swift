// SPDX-License-Identifier: Apache-2.0
//
// Mailboxes are read for sessions that are behind: the log of each into a replay, then what is left of
// it into its queue. A bounded part in each turn. Rests on the store and on Delivery.

import Logging
import MartletBase
import MartletEngine
import MartletStore
import MartletWire

extension Loop where Kernel: ~Copyable {
    mutating func catchUp() {
        guard delivery.hasBehind, hasRoomForFrames, context.monotonic() >= catchUpResumes else {
            return
        }
        let now = context.clock()
        let store = context.store
        do {
            try store.read { (transaction) throws in
                var left = Self.catchUpCostPerTurn
                var othersWait = false
                defer { if left <= 0, othersWait { pauseCatchUp() } }
                while left > 0, hasRoomForFrames, let reading = delivery.nextReading() {
                    let index = reading.index
                    let project = reading.owner.project
                    othersWait = othersWait || delivery.hasOthers(than: project, now: now)
                    var cost = Self.catchUpCostPerReading
                    defer {
                        left -= cost
                        delivery.chargeReading(cost, of: project)
                    }
                    do {
                        guard let plan = try read(reading, now, transaction, &cost) else {
                            continue
                        }
                        let before = delivery.counters.delivered
                        defer { cost += Int(delivery.counters.delivered - before) }
                        try queue(plan, now, transaction)
                    } catch {
                        delivery.catchUpLater(index)
                        throw error
                    }
                }
            }
        } catch {
            context.logger.error("a mailbox could not be read", metadata: ["error": "\(error)"])
            catchUpResumes = context.monotonic() + Self.catchUpRestMilliseconds
        }
    }

    private mutating func pauseCatchUp() {
        catchUpResumes = context.monotonic() + Self.catchUpPauseMilliseconds
    }

    /// Reads a part of a log. Returns what to queue, if anything can be said yet.
    private mutating func read(
        _ start: MailboxReading, _ now: Instant, _ transaction: borrowing Transaction,
        _ cost: inout Int
    ) throws -> MailboxPlan? {
        var reading = start
        let owner = reading.owner
        // The snapshot may be younger than the message that ends this connection: then the ordinal,
        // and the mailbox, are another's.
        let present = try transaction.instance(owner.ordinal, in: owner.project)?.holder
        guard present == reading.holder else { return nil }
        let last = try transaction.project(owner.project)?.lastSequence ?? .none
        if reading.isStale {
            let state = try transaction.mailboxState(of: owner.ordinal, in: owner.project)
            reading = delivery.refresh(reading, state, now: now)
        }
        let scan = try transaction.forEachLogged(
            for: owner, after: reading.after, rowsMax: Self.mailboxRowsPerRead
        ) { reading.add($0) }
        switch scan {
        case .end(let rowCount):
            cost += rowCount
            return delivery.finish(reading, through: last, now: now)
        case .paused(let through):
            cost += Self.mailboxRowsPerRead
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
                let frame = writer.encode(
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
                var isFull = false
                _ = try transaction.withMessage(
                    entry.sequence, on: plan.owner.platform, in: plan.owner.project
                ) { message in
                    let count = encodeDelivery(message.header, message.body, .direct)
                    isFull = !delivery.catchUp(entry, of: plan, byteCount: count, now: now)
                }
                if isFull { return }
            }
        }
        delivery.caughtUp(plan)
    }
}
