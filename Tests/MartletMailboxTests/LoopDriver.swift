// SPDX-License-Identifier: Apache-2.0
//
// One loop without sockets: production's delivery, told what happened, reading mailboxes as a loop
// does, its frames taken at once. Rests on Delivery and on the store.

import Glibc
import MartletBase
import MartletEngine
import MartletStore

/// What a device is sent.
enum Frame: Hashable {
    case message(streamID: UInt64, id: UInt64)
    case deleted(streamID: UInt64, count: UInt64)
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

    init(limits: MailboxLimits, rowsMax: Int) {
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

    func position(of index: UInt32) -> MessageSequence { delivery.position(of: index) }

    func setState(_ index: UInt32, _ state: DeviceState) { delivery.setState(index, state) }

    func acknowledge(_ index: UInt32, through: UInt64, single: [UInt64]) -> Bool {
        delivery.acknowledge(index, through: through, single: single)
    }

    func takeAcknowledgements() -> [Acknowledgement] {
        delivery.hasAcknowledgements ? delivery.takeAcknowledgements() : []
    }

    func takeUrgentAcknowledgements() -> [Acknowledgement] {
        delivery.hasUrgentAcknowledgements ? delivery.takeUrgentAcknowledgements() : []
    }

    func takeSent() -> [SentCount] { delivery.takeSent() }

    /// Of what was taken last.
    var lastBatch: UInt64 { delivery.lastBatch }

    func acknowledgementsSettled(_ batch: UInt64) {
        _ = delivery.acknowledgementsSettled(batch, areStored: true)
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
    func settle(_ store: Store, now: Instant) throws {
        var isBusy = true
        while isBusy {
            isBusy = delivery.step(budget: 1000, now: now)
            while let reading = delivery.nextReading() {
                isBusy = true
                try read(reading, store, now)
            }
            while let index = delivery.nextReady() {
                isBusy = true
                send(index)
            }
        }
    }

    private func read(_ first: MailboxReading, _ store: Store, _ now: Instant) throws {
        let owner = first.owner
        let (reading, scan, last) = try store.read { (transaction) throws in
            var reading = first
            if reading.isStale {
                reading = delivery.refresh(
                    reading, try transaction.mailboxState(of: owner.ordinal, in: owner.project),
                    now: now)
            }
            let last = try transaction.project(owner.project)?.lastSequence ?? .none
            var read = reading
            let scan = try transaction.forEachLogged(
                for: owner, after: reading.after, rowsMax: rowsMax
            ) { read.add($0) }
            return (read, scan, last)
        }
        switch scan {
        case .paused(let through):
            if let plan = delivery.pause(reading, through: through, now: now) {
                try give(plan, store, now)
            }
        case .end:
            if let plan = delivery.finish(reading, through: last, now: now) {
                try give(plan, store, now)
            }
        }
    }

    private func give(_ plan: MailboxPlan, _ store: Store, _ now: Instant) throws {
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
                _ = try store.read { (transaction) throws in
                    try transaction.withMessage(
                        entry.sequence, on: plan.owner.platform, in: plan.owner.project
                    ) { id = $0.body.loadUnaligned(as: UInt64.self) }
                }
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
