// SPDX-License-Identifier: Apache-2.0
//
// One loop without sockets: production's delivery, told what happened, reading mailboxes as a loop
// does, its frames taken at once. Rests on Delivery and on EngineBench.

import EngineBench
import Glibc
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows

/// What a device is sent.
enum Frame: Hashable {
    case message(streamID: UInt64, id: UInt64)
    case deleted(streamID: UInt64, count: UInt64)
}

struct BrokenInvariant: Error, CustomStringConvertible {
    let description: String
}

/// Delivery and the devices connected to it.
final class LoopDriver {
    private static let frameBytes = 17
    private static let vectorsMax = 64

    private var delivery: Delivery
    private let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: vectorsMax)
    private var free: [UInt32] = Array((0..<64).reversed())
    /// What each session was sent since it was last asked.
    private var frames: [UInt32: [Frame]] = [:]
    /// Bytes of a log that a turn looks at, few, so that readings are paused.
    private let rowsMax: Int

    init(limits: BrokerLimits, rowsMax: Int) {
        // So few that mailboxes are delivered in part.
        delivery = Delivery(capacity: 64, limits: limits, partialEntriesMax: 3)
        self.rowsMax = rowsMax
    }

    deinit { vectors.deallocate() }

    // MARK: Devices

    func attach(_ attachment: Attachment, now: Instant) -> UInt32 {
        let index = free.removeLast()
        delivery.open(index)
        if let replaced = delivery.attach(index, attachment, now: now) { close(replaced, now: now) }
        return index
    }

    func stored(_ index: UInt32, connectionNumber: UInt64) {
        delivery.stored(index, connectionNumber: connectionNumber)
    }

    func close(_ index: UInt32, now: Instant) {
        delivery.close(index, now: now)
        frames[index] = nil
        free.append(index)
    }

    func connectionStart(of index: UInt32) -> ConnectionStart {
        delivery.connectionStart(of: index)
    }

    func nextOverfull() -> UInt32? { delivery.nextOverfull() }

    func setState(_ index: UInt32, _ state: DeviceState) { delivery.setState(index, state) }

    func acknowledge(_ index: UInt32, through: UInt64, single: [UInt64]) -> Bool {
        delivery.acknowledge(index, through: through, single: single)
    }

    func takeAcknowledgements() -> [Acknowledgement] {
        delivery.hasAcknowledgements ? delivery.takeAcknowledgements() : []
    }

    func takeQueuedAcknowledgements() -> [Acknowledgement] {
        delivery.hasUrgentAcknowledgements ? delivery.takeQueuedAcknowledgements() : []
    }

    func takeSent() -> [SentCount] { delivery.takeSent() }

    /// Of what was taken last.
    var lastBatch: UInt64 { delivery.lastBatch }

    func acknowledgementsSettled(_ batch: UInt64) {
        delivery.acknowledgementsSettled(batch, areStored: true)
    }

    func takeFrames(_ index: UInt32) -> [Frame] {
        defer { frames[index] = nil }
        return frames[index] ?? []
    }

    // MARK: Fanouts

    func begin(_ fanout: Fanout, now: Instant) {
        guard delivery.concerns(fanout) else {
            delivery.skip(fanout)
            return
        }
        let id = fanout.body.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        write(1, fanout.header.sequence.rawValue, id, fanout.frameKind)
        delivery.enqueue(fanout, byteCount: Self.frameBytes, now: now)
    }

    func cancel(_ sequence: MessageSequence, in project: ProjectNumber) {
        delivery.cancel(sequence, in: project)
    }

    private func write(_ tag: UInt8, _ first: UInt64, _ second: UInt64, _ kind: FrameKind) {
        let bytes = delivery.reserve(Self.frameBytes, kind)
        bytes[0] = tag
        bytes.storeBytes(of: first, toByteOffset: 1, as: UInt64.self)
        bytes.storeBytes(of: second, toByteOffset: 9, as: UInt64.self)
    }

    // MARK: Turning

    /// Turns until there is nothing left to do.
    func settle(_ store: any RowStore, now: Instant) throws {
        var isBusy = true
        while isBusy {
            isBusy = delivery.step(budget: 1000, now: now)
            if delivery.hasDueReadings {
                isBusy = true
                try catchUp(store, now)
            }
            while let index = delivery.nextReady() {
                isBusy = true
                send(index)
            }
            if let broken = delivery.brokenInvariant() {
                throw BrokenInvariant(description: broken)
            }
        }
    }

    /// Lets all who are behind read in one snapshot, as far as they get.
    private func catchUp(_ store: any RowStore, _ now: Instant) throws {
        try store.read { (transaction) throws in
            var log = try SharedLog(transaction, rowsMax: 2 * rowsMax)
            while let reading = delivery.nextReading() {
                try read(reading, &log, transaction, now)
            }
            endSharing(log)
            delivery.releaseShared()
        }
    }

    private func endSharing(_ log: borrowing SharedLog) {
        if let project = log.project { delivery.endSharing(log.sharedMessages, of: project) }
    }

    private func read(
        _ first: MailboxReading, _ log: inout SharedLog, _ transaction: borrowing Transaction,
        _ now: Instant
    ) throws {
        let owner = first.owner
        var reading = first
        let state = try transaction.mailboxes.state(of: owner.ordinal, in: owner.project)
        reading = delivery.refresh(reading, state, now: now)
        let last = try transaction.projects.lastSequence(of: owner.project)
        if let shared = delivery.shared(reading, state),
            try share(shared, last, &log, transaction, now)
        {
            return
        }
        let scan = try transaction.log.forEachLogged(
            for: owner, after: reading.after, rowsMax: rowsMax
        ) { reading.add($0) }
        switch scan {
        case .paused(let through):
            if let plan = delivery.pause(reading, through: through, now: now) {
                try give(plan, transaction, now)
            }
        case .end:
            if let plan = delivery.finish(reading, through: last, now: now) {
                try give(plan, transaction, now)
            }
        }
    }

    /// - Returns: false if the mailbox rules have a say.
    private func share(
        _ reading: SharedReading, _ last: MessageSequence, _ log: inout SharedLog,
        _ transaction: borrowing Transaction, _ now: Instant
    ) throws -> Bool {
        if !log.covers(reading) {
            endSharing(log)
            try log.begin(reading.owner.project, after: reading.after)
        }
        guard
            case .entries(let count, let through, let isEnd) = try log.read(
                reading, now: now, rowsMax: rowsMax),
            delivery.isCertain(reading, entries: count, isWhole: isEnd)
        else { return false }
        for place in log.selected where !log.messages[Int(place)].isEncoded {
            let message = log.messages.baseAddress! + Int(place)
            let id = try log.withMessage(at: place, on: reading.owner.platform) {
                $0.body.loadUnaligned(as: UInt64.self)
            }
            write(1, message.pointee.sequence.rawValue, id, .direct)
            delivery.share(&message.pointee, byteCount: Self.frameBytes)
        }
        let given = delivery.give(
            log.selected[..<log.selectedCount], of: log.messages, to: reading.index)
        guard given == log.selectedCount else { return true }
        delivery.caughtUp(reading, through: isEnd ? last : through, isWhole: isEnd)
        return true
    }

    private func give(
        _ plan: MailboxPlan, _ transaction: borrowing Transaction, _ now: Instant
    ) throws {
        var plan = plan
        for step in plan.steps {
            switch step {
            case .deleted(let through, let count):
                write(2, through.rawValue, count, .direct)
                guard
                    delivery.catchUp(
                        deletedThrough: through, of: plan, byteCount: Self.frameBytes)
                else { return }
            case .message(let entry):
                switch delivery.offer(entry, of: &plan, now: now) {
                case .full: return
                case .held: continue
                case .open: break
                }
                var id: UInt64?
                _ = try transaction.messages.withMessage(
                    entry.sequence, on: plan.owner.platform, in: plan.owner.project
                ) { id = $0.body.loadUnaligned(as: UInt64.self) }
                guard let id else { continue }
                write(1, entry.sequence.rawValue, id, .direct)
                guard delivery.catchUp(entry, of: plan, byteCount: Self.frameBytes, now: now)
                else { return }
            }
        }
        delivery.caughtUp(plan)
    }

    private func send(_ index: UInt32) {
        let count = delivery.gather(index, into: vectors)
        var bytes: [UInt8] = []
        for vector in vectors[..<count] {
            bytes += UnsafeRawBufferPointer(start: vector.iov_base, count: vector.iov_len)
        }
        delivery.sent(index, byteCount: bytes.count)
        bytes.withUnsafeBytes { all in
            for at in stride(from: 0, to: all.count, by: Self.frameBytes) {
                let first = all.loadUnaligned(fromByteOffset: at + 1, as: UInt64.self)
                let second = all.loadUnaligned(fromByteOffset: at + 9, as: UInt64.self)
                frames[index, default: []].append(
                    all[at] == 1
                        ? .message(streamID: first, id: second)
                        : .deleted(streamID: first, count: second))
            }
        }
    }
}
