// SPDX-License-Identifier: Apache-2.0
//
// The delivery side of one loop: sessions, who of each project is connected here, the fanouts in
// progress, and what waits to be sent. A state machine: it is told what happened and asked what to do
// next; sockets, clocks and the store are its caller's.
//
// The one rule that keeps every instance's messages complete and in order: a session is given a
// stored message exactly if its sequence is above `deliveredThrough`, which then becomes it. A
// session that cannot keep up, or has just connected, is *behind*: live fanouts pass it by and it
// reads its mailbox instead, from `deliveredThrough` on, in a snapshot taken afterwards; when it has
// reached the end of the snapshot it is live again, and fanouts that were in the snapshot pass it by
// through the rule. This rests on one loop's fanouts of a project starting in their order, and on a
// loop hearing of a message only after it is committed.

public import Glibc
public import MartletBase
import MartletBits

/// One loop's delivery.
public struct Delivery: ~Copyable {
    private let sessions: UnsafeMutablePointer<Session>
    private let capacity: Int
    private var output: OutputQueues
    private var projects = ProjectTable()
    private var behind: SessionRing
    /// Acknowledgements of sessions that are closed already.
    private var closedAcknowledgements: [Acknowledgement] = []
    /// Open sessions with an acknowledgement to hand on.
    private var acknowledged: [UInt32] = []
    /// Single acknowledgements in `closedAcknowledgements`.
    private var singleCount = 0
    private let looksPerSend: Int
    /// Sessions looked at in this turn.
    private var looks = 0
    public private(set) var counters = DeliveryCounters()

    /// - Parameters:
    ///   - capacity: sessions are numbered below it.
    ///   - looksPerSend: see `step`.
    public init(capacity: Int, looksPerSend: Int = OutputBounds.looksPerSend) {
        self.capacity = capacity
        self.looksPerSend = looksPerSend
        sessions = .allocate(capacity: capacity)
        sessions.initialize(repeating: Session(), count: capacity)
        output = OutputQueues(sessions: sessions, capacity: capacity)
        behind = SessionRing(capacity: capacity)
    }

    deinit { sessions.deallocate() }

    // MARK: Sessions

    public mutating func open(_ index: UInt32) {
        let rings = sessions[Int(index)].flags.intersection(.rings)
        sessions[Int(index)] = Session()
        sessions[Int(index)].flags = rings
    }

    /// The session is a device's from now on and behind: it gets what is in its mailbox first.
    /// - Parameters:
    ///   - acknowledgedThrough: the instance's watermark in the store.
    ///   - receivedThrough: what the device says it has taken; it counts as an acknowledgement.
    /// - Returns: the session of the same instance that it replaces, still open.
    public mutating func attach(
        _ index: UInt32, project: ProjectNumber, ordinal: Ordinal,
        acknowledgedThrough: MessageSequence, receivedThrough: MessageSequence,
        connectionNumber: UInt64
    ) -> UInt32? {
        let session = sessions + Int(index)
        let through = max(acknowledgedThrough, receivedThrough).rawValue
        session.pointee.project = project
        session.pointee.ordinal = ordinal
        session.pointee.deliveredThrough = through
        session.pointee.highestDelivered = through
        session.pointee.acknowledgedThrough = acknowledgedThrough.rawValue
        session.pointee.connectionNumber = connectionNumber
        session.pointee.flags.formUnion([.device, .behind])
        queueCatchUp(index)
        let replaced = projects[project].pointee.connected.insert(ordinal, handle: index)
        if let replaced { detach(replaced) }
        _ = acknowledge(index, through: through, single: [])
        return replaced
    }

    /// The session of an instance here, and its connection number.
    public func session(
        of ordinal: Ordinal, in project: ProjectNumber
    ) -> (index: UInt32, connectionNumber: UInt64)? {
        guard let index = projects.find(project)?.pointee.connected.handle(of: ordinal) else {
            return nil
        }
        return (index, sessions[Int(index)].connectionNumber)
    }

    /// No more messages for the session; its queue is still sent.
    public mutating func detach(_ index: UInt32) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.device) else { return }
        let connected = projects[session.pointee.project]
        if connected.pointee.connected.handle(of: session.pointee.ordinal) == index {
            _ = connected.pointee.connected.remove(session.pointee.ordinal)
        }
        keepAcknowledgement(of: index)
        session.pointee.flags.subtract([.device, .behind, .acknowledged])
    }

    /// The session is gone, and no send is in flight.
    public mutating func close(_ index: UInt32) {
        detach(index)
        output.clear(index)
    }

    /// A session that has everything can be told to be further than its last message was: that
    /// spares it reading the same recipients again on its next connection.
    private mutating func keepAcknowledgement(of index: UInt32) {
        let session = sessions[Int(index)]
        var through = session.acknowledgedThrough
        var isNews = session.flags.contains(.acknowledged)
        if !session.flags.contains(.behind), session.highestDelivered <= through {
            let reached = max(
                session.deliveredThrough, projects[session.project].pointee.finishedThrough)
            if reached > through {
                through = reached
                isNews = true
            }
        }
        guard isNews else { return }
        closedAcknowledgements.append(
            Acknowledgement(
                project: session.project, ordinal: session.ordinal,
                through: MessageSequence(through)))
    }

    // MARK: Frames

    /// Room for one frame, to be written at once and then given away: a shared one by `enqueue`, a
    /// direct one by `send` or `catchUp`.
    public mutating func reserve(
        _ byteCount: Int, _ kind: FrameKind
    ) -> UnsafeMutableRawBufferPointer {
        output.arena.reserve(byteCount, kind)
    }

    /// Queues the first `byteCount` bytes of what was reserved for one session.
    /// - Returns: false if the session's queue is full.
    public mutating func send(_ byteCount: Int, to index: UInt32) -> Bool {
        let frame = output.arena.take(byteCount, .direct)
        return output.append(
            frame, to: index, bytesMax: OutputBounds.answerBytesPerSessionMax,
            segmentsMax: OutputBounds.answersPerSessionMax) == .queued
    }

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
    public static let fanoutsInProgressMax = 4096

    /// Too much is in progress here: whoever the stored message is for reads it from its mailbox.
    /// Messages that are not stored are dropped. Memory stays bounded whatever is sent.
    public mutating func postpone(_ fanout: Fanout) {
        guard let project = projects.find(fanout.project) else { return }
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
        switch work.fanout.recipients {
        case .one(let ordinal):
            if let index = project.pointee.connected.handle(of: ordinal) {
                deliver(work, to: index)
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
                    deliver(work, to: index)
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

    /// Queues all messages of a work for one session, as one run if it is to have all of them.
    @inline(__always)
    private mutating func deliver(_ work: borrowing FanoutWork, to index: UInt32) {
        let session = sessions + Int(index)
        let count = UInt64(truncatingIfNeeded: work.messageCount)
        looks &+= 1
        if session.pointee.flags.contains(.behind) {
            counters.passedBy &+= count
            return
        }
        if count > 1 {
            let isForAll =
                work.last.isStored
                ? work.fanout.header.sequence.rawValue > session.pointee.deliveredThrough
                : work.fanout.position.rawValue >= session.pointee.deliveredThrough
            guard isForAll, !work.hasExpired, output.append(work.frame, to: index) == .queued else {
                deliverEach(work, to: index)
                return
            }
            counters.delivered &+= count
            if work.last.isStored {
                session.pointee.deliveredThrough = work.last.rawValue
                session.pointee.highestDelivered = work.last.rawValue
            }
            return
        }
        deliver(work.frame, work.last, work.fanout.position.rawValue, to: index)
    }

    /// The messages of a work one by one: the session has the first of them already, or has no room
    /// for all, or some have expired.
    @inline(never)
    private mutating func deliverEach(_ work: borrowing FanoutWork, to index: UInt32) {
        var frame = work.frame
        for part in work.parts {
            defer { frame.offset += part.frameBytes }
            if part.isExpired { continue }
            if sessions[Int(index)].flags.contains(.behind) {
                counters.passedBy &+= 1
                continue
            }
            frame.length = part.frameBytes
            deliver(frame, part.sequence, work.fanout.position.rawValue, to: index)
        }
    }

    @inline(__always)
    private mutating func deliver(
        _ frame: FrameReference, _ sequence: MessageSequence, _ position: UInt64,
        to index: UInt32
    ) {
        let session = sessions + Int(index)
        let raw = sequence.rawValue
        guard sequence.isStored else {
            // Further than the message's position is who connected after it, which may be the next
            // holder of a recipient's ordinal.
            guard position >= session.pointee.deliveredThrough else { return }
            if output.append(frame, to: index) == .queued {
                counters.delivered &+= 1
            } else {
                counters.dropped &+= 1
            }
            return
        }
        guard raw > session.pointee.deliveredThrough else { return }
        if output.append(frame, to: index) == .queued {
            session.pointee.deliveredThrough = raw
            session.pointee.highestDelivered = raw
            counters.delivered &+= 1
        } else {
            // It was live, so it has everything before this one.
            session.pointee.deliveredThrough = raw &- 1
            session.pointee.flags.insert(.behind)
            counters.fellBehind &+= 1
        }
    }

    // MARK: Catching up

    /// The next session that is behind and has room for messages of its mailbox.
    public mutating func nextBehind() -> CatchUp? {
        while let index = behind.popFirst() {
            let session = sessions[Int(index)]
            sessions[Int(index)].flags.remove(.catchingUp)
            // It may have been closed meanwhile, and not be behind any more.
            guard session.flags.contains(.behind) else { continue }
            return CatchUp(
                index: index, project: session.project, ordinal: session.ordinal,
                after: MessageSequence(session.deliveredThrough))
        }
        return nil
    }

    public var hasBehind: Bool { behind.count > 0 }

    /// Queues a stored message for a session that is catching up. The first `byteCount` bytes of
    /// what was reserved are its frame.
    /// - Returns: false when the session has enough for now; this message was not queued then.
    public mutating func catchUp(
        _ index: UInt32, _ sequence: MessageSequence, byteCount: Int
    ) -> Bool {
        let session = sessions + Int(index)
        guard session.pointee.queuedBytes < OutputBounds.catchUpBytes else { return false }
        let frame = output.arena.take(byteCount, .direct)
        guard output.append(frame, to: index) == .queued else { return false }
        session.pointee.deliveredThrough = sequence.rawValue
        session.pointee.highestDelivered = sequence.rawValue
        counters.delivered &+= 1
        return true
    }

    /// The session has everything up to the last message of the snapshot it was read from.
    public mutating func caughtUp(_ index: UInt32, through sequence: MessageSequence) {
        let session = sessions + Int(index)
        session.pointee.deliveredThrough = max(
            session.pointee.deliveredThrough, sequence.rawValue)
        session.pointee.flags.remove(.behind)
    }

    /// Nothing up to a sequence is left for the session, but the end was not reached: it is read for
    /// again, after others.
    public mutating func catchUpPaused(_ index: UInt32, through sequence: MessageSequence) {
        let session = sessions + Int(index)
        session.pointee.deliveredThrough = max(
            session.pointee.deliveredThrough, sequence.rawValue)
        queueCatchUp(index)
    }

    /// The store could not be read: tries again when the session's queue has drained, or now.
    public mutating func catchUpLater(_ index: UInt32) {
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    private mutating func queueCatchUp(_ index: UInt32) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.behind), !session.pointee.flags.contains(.catchingUp)
        else { return }
        session.pointee.flags.insert(.catchingUp)
        behind.append(index)
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

    /// Bytes held for frames.
    public var frameBytes: Int { output.arena.byteCount }

    // MARK: Acknowledging

    /// Single acknowledgements kept until they are handed on. More are dropped, which costs one more
    /// delivery each; a device that goes on telling them would else fill the memory.
    public static let singleAcknowledgementsMax = 65_536

    /// - Returns: false if the device acknowledges what it was never sent.
    public mutating func acknowledge(
        _ index: UInt32, through: UInt64, single: [UInt64]
    ) -> Bool {
        let session = sessions + Int(index)
        guard through <= session.pointee.highestDelivered,
            single.allSatisfy({ $0 <= session.pointee.highestDelivered })
        else { return false }
        if !single.isEmpty, singleCount + single.count <= Self.singleAcknowledgementsMax {
            singleCount += single.count
            closedAcknowledgements.append(
                Acknowledgement(
                    project: session.pointee.project, ordinal: session.pointee.ordinal,
                    through: MessageSequence(max(through, session.pointee.acknowledgedThrough)),
                    single: single))
        }
        guard through > session.pointee.acknowledgedThrough else { return true }
        counters.acknowledged &+= 1
        session.pointee.acknowledgedThrough = through
        if !session.pointee.flags.contains(.acknowledged) {
            session.pointee.flags.insert(.acknowledged)
            acknowledged.append(index)
        }
        return true
    }

    /// Whether there are acknowledgements to hand on.
    public var hasAcknowledgements: Bool {
        !acknowledged.isEmpty || !closedAcknowledgements.isEmpty
    }

    /// What was acknowledged since the last call, each session's latest once.
    public mutating func takeAcknowledgements() -> [Acknowledgement] {
        var result: [Acknowledgement] = []
        swap(&result, &closedAcknowledgements)
        singleCount = 0
        result.reserveCapacity(result.count + acknowledged.count)
        for index in acknowledged {
            let session = sessions + Int(index)
            guard session.pointee.flags.contains(.acknowledged) else { continue }
            session.pointee.flags.remove(.acknowledged)
            result.append(
                Acknowledgement(
                    project: session.pointee.project, ordinal: session.pointee.ordinal,
                    through: MessageSequence(session.pointee.acknowledgedThrough)))
        }
        acknowledged.removeAll(keepingCapacity: true)
        return result
    }
}

/// A session to be given messages of its mailbox.
public struct CatchUp: Sendable {
    public let index: UInt32
    public let project: ProjectNumber
    public let ordinal: Ordinal
    /// It has everything up to here.
    public let after: MessageSequence
}

/// What one loop did since it began.
public struct DeliveryCounters: Sendable {
    public var fanoutsStarted: UInt64 = 0
    /// Messages queued for a session.
    public var delivered: UInt64 = 0
    /// Live messages that passed a session by because it was behind; it gets them from its mailbox.
    public var passedBy: UInt64 = 0
    /// Sessions whose queue was full.
    public var fellBehind: UInt64 = 0
    /// Messages that are not stored and found a full queue.
    public var dropped: UInt64 = 0
    /// Acknowledgements that moved a session on.
    public var acknowledged: UInt64 = 0
    public var sends: UInt64 = 0
}
