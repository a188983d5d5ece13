// SPDX-License-Identifier: Apache-2.0
//
// Where messages enter and leave a loop: fanouts begin, messages for one instance are queued at once, and queued frames are
// gathered into sends. Rests on ProjectTable and OutputQueues.

package import Glibc
package import MartletBase
import MartletBits
package import MartletEngine
import MartletRows

extension Delivery {
    // MARK: Beginning

    /// Whether any session here could get the message. If not, it needs no frame.
    package func concerns(_ fanout: Fanout) -> Bool {
        guard let project = projects.find(fanout.project) else { return false }
        switch fanout.recipients {
        case .one(let ordinal): return project.pointee.connected.contains(ordinal)
        case .many: return !project.pointee.connected.isEmpty
        }
    }

    /// Whether all recipients are connected here, so that no other loop needs to hear of the message.
    package func isConnected(to fanout: Fanout) -> Bool {
        guard let project = projects.find(fanout.project) else { return false }
        switch fanout.recipients {
        case .one(let ordinal): return project.pointee.connected.contains(ordinal)
        case .many(let recipients):
            let view = recipients.view
            for index in 0..<view.blockCount {
                let block = view.block(at: index)
                guard project.pointee.connected.count(inBlock: block.block) >= block.count,
                    project.pointee.connected.withView(
                        ofBlock: block.block, { $0.intersectionCount(with: block.view) })
                        == block.count
                else { return false }
            }
            return true
        }
    }

    /// Counts now-or-never messages as dropped: another loop had no room for them.
    package mutating func drop(_ count: Int) { counters.dropped &+= UInt64(count) }

    /// Begins a fanout, or queues a message for one instance at once (FAN-5). The frame is the first `byteCount`
    /// bytes of the room that was reserved with the fanout's frame kind.
    package mutating func enqueue(_ fanout: Fanout, byteCount: Int, now: Instant) {
        // If the session is due a token, it falls behind first, so that held messages go before the new one.
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
        // What is in progress for the session goes before the new message.
        visit(index, of: project, now)
        let header = fanout.header
        guard !header.sequence.isStored || header.expires > now else { return }
        let sent = deliver(
            frame, header.sequence, header.lane, fanout.position, to: index, now.rawValue)
        guard sent > 0 else { return }
        endSentTurn(of: fanout.project)
        countDirect(header.sequence, of: fanout.project)
    }

    /// Renumbers a project's fanouts in progress from 1, because the arrival numbers are used up.
    private mutating func renumber(_ project: ProjectNumber) {
        let before = projects.renumber(project)
        for index in 0..<sessionCount
        where sessions[index].flags.contains(.device) && sessions[index].project == project {
            let visited = sessions[index].visitedThrough
            sessions[index].visitedThrough = UInt32(before.prefix { $0 <= visited }.count)
        }
    }

    /// Whether a message of another project has begun on the loop in the last 100 milliseconds.
    package func hasOthers(than project: ProjectNumber, now: Instant) -> Bool {
        activity.hasOthers(than: project, now)
    }

    /// From this many fanouts in progress on, the caller uses `postpone` instead of `enqueue`.
    package static var fanoutsInProgressMax: Int { 4096 }

    /// Gives up on delivering a fanout live, because too much is in progress here. Connected recipients find a stored message
    /// in their mailboxes; a now-or-never one is dropped. So memory stays bounded whatever the load.
    package mutating func postpone(_ fanout: Fanout) {
        guard let project = projects.find(fanout.project) else { return }
        project.pointee.hear(fanout)
        guard fanout.header.sequence.isStored else {
            counters.dropped &+= 1
            return
        }
        // From now on fanouts in progress skip these sessions, which find the messages in their mailboxes.
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
        if sessions[Int(index)].flags.insert(.behind).inserted { counters.fellBehind &+= 1 }
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Sets a project's share of the turns (FAN-2).
    package mutating func setWeight(_ weight: Int, of project: ProjectNumber) {
        projects.setWeight(project, weight)
    }

    /// Notes a fanout that concerns nobody here, so that we have heard of its sequence.
    package mutating func skip(_ fanout: Fanout) { projects.skip(fanout) }

    /// Fanouts in progress on the loop.
    package var fanoutCount: Int { projects.fanoutCount }

    /// Fanouts of a project in progress on the loop.
    package func fanoutCount(of project: ProjectNumber) -> Int {
        projects.find(project)?.pointee.turns.count ?? 0
    }

    /// The project's now-or-never fanouts in progress here (TTL-2).
    package func nowOrNeverCount(of project: ProjectNumber) -> Int {
        projects.find(project)?.pointee.nowOrNeverCount ?? 0
    }

    /// Takes a cancelled message out of the fanouts in progress (MSG-10).
    package mutating func cancel(_ sequence: MessageSequence, in project: ProjectNumber) {
        projects.find(project)?.pointee.cancel(sequence)
    }

    // MARK: Sending

    /// The next session that has frames to send and no send in flight.
    package mutating func nextReady() -> UInt32? { output.nextReady() }

    /// How many sessions have frames to send and no send in flight.
    package var readyCount: Int { output.readyCount }

    /// Writes a session's next send into `vectors`. The memory stays valid until `sent` or `close`.
    /// - Returns: the number of vectors.
    package mutating func gather(
        _ index: UInt32, into vectors: UnsafeMutableBufferPointer<iovec>
    ) -> Int {
        counters.sends &+= 1
        return output.gather(index, into: vectors)
    }

    /// A send of `byteCount` bytes is done. If the session is behind, it reads on when its queue is empty.
    package mutating func sent(_ index: UInt32, byteCount: Int) {
        output.sent(index, byteCount: byteCount)
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Bytes queued for a session, including the bytes in flight.
    package func queuedBytes(_ index: UInt32) -> Int { Int(sessions[Int(index)].queuedBytes) }

    /// Bytes in flight; 0 if no send is.
    package func inFlightBytes(_ index: UInt32) -> Int {
        Int(sessions[Int(index)].inFlightBytes)
    }

    /// Puts a session back that `nextReady` returned, because no send was started.
    package mutating func sendAgain(_ index: UInt32) { output.markReady(index) }

    /// Whether the kernel has a send of the session.
    package func isSending(_ index: UInt32) -> Bool { sessions[Int(index)].inFlightBytes > 0 }
}
