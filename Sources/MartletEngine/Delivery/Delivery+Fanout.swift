// SPDX-License-Identifier: Apache-2.0
//
// Where messages come in to one loop and leave it: fanouts begin, messages for one instance are queued
// at once, and what is queued is gathered into sends. Rests on ProjectTable and OutputQueues.

public import Glibc
public import MartletBase
import MartletBits
import MartletRows

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

    /// Whether everybody that the message is for is connected here: then no other loop need hear of it.
    public func isConnected(to fanout: Fanout) -> Bool {
        guard let project = projects.find(fanout.project) else { return false }
        switch fanout.recipients {
        case .one(let ordinal): return project.pointee.connected.contains(ordinal)
        case .many(let recipients):
            let view = recipients.view
            for index in 0..<view.blockCount {
                let block = view.block(at: index)
                let here = project.pointee.connected.view(ofBlock: block.block)
                guard project.pointee.connected.count(inBlock: block.block) >= block.count,
                    here.intersectionCount(with: block.view) == block.count
                else { return false }
            }
            return true
        }
    }

    /// Messages that are not stored could not be told to another loop.
    public mutating func drop(_ count: Int) { counters.dropped &+= UInt64(count) }

    /// Begins a fanout, or queues a message for one instance at once (FAN-5). The first `byteCount`
    /// bytes of what was reserved, of the fanout's kind, are its frame.
    public mutating func enqueue(_ fanout: Fanout, byteCount: Int, now: Instant) {
        // Whose token has come by now gets what waited for it first.
        wake(now)
        activity.note(fanout.project, now)
        let frame = output.arena.take(byteCount, fanout.frameKind)
        counters.fanoutsStarted += 1
        if case .one(let ordinal) = fanout.recipients {
            projects.skip(fanout)
            deliver(fanout, frame, to: ordinal, now)
            return
        }
        if projects.isNumberedThrough(fanout.project) { renumber(fanout.project) }
        if projects.enqueue(fanout, frame) { output.arena.retain(frame.chunk) }
    }

    private mutating func deliver(
        _ fanout: Fanout, _ frame: FrameReference, to ordinal: Ordinal, _ now: Instant
    ) {
        let project = projects[fanout.project]
        guard let index = project.pointee.connected.handle(of: ordinal) else { return }
        // What it gets from now on is behind what is in progress.
        visit(index, of: project, now)
        let header = fanout.header
        guard !header.sequence.isStored || header.expires > now else { return }
        let sent = deliver(
            frame, header.sequence, header.lane, fanout.position, to: index, now.rawValue)
        guard sent > 0 else { return }
        endSentTurn(of: fanout.project)
        count(header.sequence, sent, of: fanout.project)
    }

    /// The numbers of a project's fanouts are used up: those in progress are numbered from 1 on.
    private mutating func renumber(_ project: ProjectNumber) {
        let before = projects.renumber(project)
        for index in 0..<sessionCount
        where sessions[index].flags.contains(.device) && sessions[index].project == project {
            let visited = sessions[index].visitedThrough
            sessions[index].visitedThrough = UInt32(before.prefix { $0 <= visited }.count)
        }
    }

    /// Whether any other project had a message for somebody here of late.
    public func hasOthers(than project: ProjectNumber, now: Instant) -> Bool {
        activity.hasOthers(than: project, now)
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

    /// FAN-2: a project's share from now on.
    public mutating func setWeight(_ weight: Int, of project: ProjectNumber) {
        projects.setWeight(project, weight)
    }

    /// A fanout that concerns nobody here still moves its project on.
    public mutating func skip(_ fanout: Fanout) { projects.skip(fanout) }

    /// Fanouts in progress here.
    public var fanoutCount: Int { projects.fanoutCount }

    /// Those of one project here.
    public func fanoutCount(of project: ProjectNumber) -> Int {
        projects.find(project)?.pointee.turns.count ?? 0
    }

    /// MSG-10: a fanout in progress goes on without a message.
    public mutating func cancel(_ sequence: MessageSequence, in project: ProjectNumber) {
        projects.find(project)?.pointee.cancel(sequence)
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

    /// Bytes of the send that is with the kernel.
    public func inFlightBytes(_ index: UInt32) -> Int {
        Int(sessions[Int(index)].inFlightBytes)
    }

    /// `nextReady` returned the session, and nothing was sent: it has its turn again.
    public mutating func sendAgain(_ index: UInt32) { output.markReady(index) }

    /// Whether a send of the session is with the kernel.
    public func isSending(_ index: UInt32) -> Bool { sessions[Int(index)].inFlightBytes > 0 }
}
