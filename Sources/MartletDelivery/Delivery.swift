// SPDX-License-Identifier: Apache-2.0
//
// Delivers the messages of one loop: sessions, connected instances, fanouts in progress, and frames that wait to be sent. It is
// a state machine: the caller reports events and asks what to do next. Sockets, clocks and the store are the caller's.
//
// One rule keeps every instance's messages complete and in order. A session receives a stored message exactly if the
// message's sequence is above the session's `deliveredThrough`, which then becomes this sequence.
//
// A session that has just connected or can't keep up is *behind*. Live fanouts skip it, and it reads its mailbox from a later
// snapshot. At the end of the snapshot it is live again, and by the rule it skips fanouts of messages that were in it. This
// works because a project's fanouts begin in the order of their sequences on every loop, and because a loop hears of
// a message only after the commit.
//
// A doze and the throttle hold messages back lane by lane (see `Lane`). Then the session is *split*: the rule holds for each
// lane by itself, and messages of a closed lane pass the session by. When the lane opens again the session is behind, and
// reads what it missed from its mailbox.

package import MartletBase
import MartletBits
import MartletEngine
package import MartletRows

/// The delivery state machine of one loop.
package struct Delivery: ~Copyable {
    let sessions: UnsafeMutablePointer<Session>
    /// The device's part of each session, by session number. Zeros until a device is attached.
    let devices: UnsafeMutablePointer<DeviceSession>
    private let sessionTable: ZeroedTable<Session>
    private let deviceTable: ZeroedTable<DeviceSession>
    var kinds = InstanceKinds()
    let limits: BrokerLimits
    let throttle: Throttle
    var output: OutputQueues
    var projects: ProjectTable
    /// Sessions that are behind, have room in their queue, and wait to read their mailbox.
    var readingQueue: CatchUpQueue
    /// See `partialEntriesMaxDefault`.
    let partialEntriesMax: Int
    /// Paused mailbox readings, by session number.
    var readings: [UInt32: MailboxReading] = [:]
    /// Stream IDs that a device's HELLO named as taken, by session number, until the session has caught up.
    var taken: [UInt32: Set<UInt64>] = [:]
    /// Readings in which the mailbox rules dropped messages, by session number, until the session's next acknowledgement goes
    /// to the committer (REP-1).
    var skipped: [UInt32: Acknowledgement.Skipped] = [:]
    /// Late messages, by session number (TTL-4). Sessions without any have no entry.
    var late: [UInt32: LateDeliveries] = [:]
    /// Sessions in a doze that has held back too much: the store must decide on the discards (STO-1).
    private var overfull: [UInt32] = []
    /// Sessions with closed collapsible lanes, by the instant of their next token.
    var waking: WakeQueue
    /// The instant of the last `wake`, on the throttle's clock.
    private var lastWake = Instant(rawValue: .min)
    /// Departures of closed sessions, and single acknowledgements, for the committer.
    var queuedAcknowledgements: [Acknowledgement] = []
    /// Open sessions whose marks have risen, for the committer.
    var acknowledged: [UInt32] = []
    /// The number of single acknowledgements in `queuedAcknowledgements`.
    var singleCount = 0
    /// Sessions that get CONFIRMED once a batch of acknowledgements is on disk.
    var unconfirmed: [Unconfirmed] = []
    /// Sessions that a CONFIRMED frame was due for since the last tick.
    var confirmable: [UInt32] = []
    /// The number of the last batch of acknowledgements for the committer.
    package internal(set) var lastBatch: UInt64 = 0
    var activity = ProjectActivity()
    /// Whether departures, or the list in a HELLO, wait for the committer. The store needs them before the next commands.
    package internal(set) var hasUrgentAcknowledgements = false
    /// Sessions looked at in this turn.
    var looks = 0
    /// Fanouts in progress that have recipients in the block being walked. The first `walkedCount` are in use.
    var walked: UnsafeMutablePointer<WalkedFanout>
    /// Chunks of frames that this turn's mailbox readings share. We hold a reference to each.
    var sharedChunks: [UInt32] = []
    /// Messages queued in this turn, by app number (REP-1). The element after the apps is the highest number with a count.
    let turnSent: UnsafeMutablePointer<UInt32>
    let turnSentCapacity = Limits.appsPerProjectMax
    var sent = SentCounts()
    private var walkedCapacity = 8
    var walkedCount = 0
    /// Sessions of the block being walked, to be visited next.
    let found: UnsafeMutableBufferPointer<UInt32>
    /// All sessions ever opened have lower numbers.
    var sessionCount = 0
    /// Counts since the loop began.
    package internal(set) var counters = DeliveryCounters()

    /// - Parameters:
    ///   - capacity: the bound on session numbers. A number takes memory from its first use on.
    ///   - arrivalsMax: the highest arrival number of a project's fanouts, at which those in progress are renumbered.
    ///   - partialEntriesMax: see `partialEntriesMaxDefault`.
    package init(
        capacity: Int, limits: BrokerLimits = BrokerLimits(), arrivalsMax: UInt32 = .max,
        partialEntriesMax: Int = Delivery.partialEntriesMaxDefault
    ) {
        self.partialEntriesMax = partialEntriesMax
        self.limits = limits
        projects = ProjectTable(arrivalsMax: arrivalsMax)
        walked = .allocate(capacity: walkedCapacity)
        turnSent = .allocate(capacity: turnSentCapacity + 1)
        turnSent.initialize(repeating: 0, count: turnSentCapacity + 1)
        found = .allocate(capacity: ConnectedSet.handlesPerStep)
        throttle = Throttle(limits)
        sessionTable = ZeroedTable(capacity: capacity)
        sessions = sessionTable.base
        deviceTable = ZeroedTable(capacity: capacity)
        devices = deviceTable.base
        output = OutputQueues(sessions: sessions)
        readingQueue = CatchUpQueue(capacity: capacity)
        waking = WakeQueue(capacity: capacity)
    }

    deinit {
        for index in 0..<sessionCount where sessions[index].flags.contains(.known) {
            devices[index].free()
        }
        walked.deallocate()
        found.deallocate()
        turnSent.deallocate()
    }

    mutating func reserveWalked(_ count: Int) {
        guard count > walkedCapacity else { return }
        walked.deallocate()
        walkedCapacity = max(count, walkedCapacity * 2)
        walked = .allocate(capacity: walkedCapacity)
    }

    // MARK: Sessions

    /// Begins a session for a new connection. It has no device until `attach`.
    package mutating func open(_ index: UInt32) {
        invariant(Int(index) < sessionTable.capacity, "The numbers of sessions are bounded.")
        invariant(
            !sessions[Int(index)].flags.contains(.device),
            "A session ends before its number is used again.")
        sessionCount = max(sessionCount, Int(index) + 1)
        forgetDevice(index)
        let rings = sessions[Int(index)].flags.intersection(.rings)
        sessions[Int(index)] = Session()
        sessions[Int(index)].flags = rings
    }

    /// Attaches a device to a session, which is behind from now on: its mailbox comes first.
    /// - Returns: the instance's former session, if this one replaces it. It is still open.
    package mutating func attach(
        _ index: UInt32, _ attachment: borrowing Attachment, now: Instant
    ) -> UInt32? {
        let owner = attachment.owner
        invariant(Int(index) < sessionCount, "A session is opened before it gets a device.")
        invariant(owner.ordinal.isUsable, "The last 128 ordinals of a block are never issued.")
        let replaced = projects[owner.project].pointee.connected.insert(
            owner.ordinal, handle: index)
        if attachment.isBridge {
            _ = projects[owner.project].pointee.bridged.insert(owner.ordinal, handle: index)
        } else {
            projects[owner.project].pointee.connectedTotal += 1
        }
        var state = attachment.mailbox
        // Fanouts that have begun skip the session: their messages are in its mailbox, or not for it.
        var visitedThrough = projects[owner.project].pointee.lastArrival
        projects[owner.project].pointee.beginAnew()
        if let replaced {
            invariant(replaced != index, "A connection gets a device once.")
            detach(replaced, now: now)
            inherit(from: replaced, attachment.holder, &state)
            if devices[Int(replaced)].holder == attachment.holder {
                visitedThrough = sessions[Int(replaced)].visitedThrough
            }
        }
        forgetDevice(index)
        let session = sessions + Int(index)
        session.pointee.visitedThrough = visitedThrough
        session.pointee.project = owner.project
        session.pointee.ordinal = owner.ordinal
        session.pointee.app = UInt8(clamping: attachment.app.rawValue)
        session.pointee.deliveredThrough = state.acknowledged.lowest.rawValue
        session.pointee.attachedAt = attachment.position.rawValue
        session.pointee.flags.formUnion([.device, .known, .behind, .split])
        let kind = InstanceKind(
            app: attachment.app, platform: owner.platform, appKey: owner.appKey)
        (devices + Int(index)).initialize(
            to: DeviceSession(
                kind: kinds.number(of: kind), holder: attachment.holder,
                connectionNumber: attachment.connectionNumber, state,
                position: attachment.position))
        setThrottle(index, state.throttleFull, now)
        devices[Int(index)].isBridge = attachment.isBridge
        devices[Int(index)].isDozing = attachment.state == .doze
        devices[Int(index)].changingMarks().pointee.dozingFrom = attachment.position.rawValue
        devices[Int(index)].hasLostConnection = state.hasLostConnection
        // The former connection's acknowledgements are on their way to the store, ahead of the news of this one. The list in
        // HELLO doesn't affect what the absence discards, because the store decides that first.
        devices[Int(index)].waitsForStore = state.isConnected || !attachment.taken.isEmpty
        if !attachment.taken.isEmpty {
            taken[index] = Set(attachment.taken)
            keepSingle(index, attachment.taken, arrival: attachment.position)
            hasUrgentAcknowledgements = true
        }
        queueCatchUp(index)
        return replaced
    }

    /// Takes over the former session's marks and throttle, because the store doesn't know the latest values yet.
    private func inherit(from index: UInt32, _ holder: Holder, _ state: inout MailboxState) {
        let device = devices[Int(index)]
        guard device.holder == holder else { return }
        state.acknowledged.formMaximum(device.acknowledged)
        state.throttleFull = max(
            state.throttleFull, Instant(rawValue: sessions[Int(index)].throttleFull))
    }

    private func setThrottle(_ index: UInt32, _ full: Instant, _ now: Instant) {
        // Even if the clock was wrong, don't throttle for longer than an empty bucket would.
        sessions[Int(index)].throttleFull = min(
            max(full.rawValue, sessions[Int(index)].throttleFull), now.rawValue &+ throttle.bucket)
    }

    /// The store has answered: it has applied all news of the instance's earlier connections, and has decided what a doze
    /// discards (STO-1).
    package mutating func stored(_ index: UInt32, connectionNumber: UInt64) {
        guard isDevice(index, connectionNumber) else { return }
        let device = devices + Int(index)
        device.pointee.isStored = true
        device.pointee.hasLostConnection = false
        let isToldEarly = device.pointee.isToldEarly
        if device.pointee.isOverfull || isToldEarly {
            device.pointee.isOverfull = false
            device.pointee.isToldEarly = false
            sessions[Int(index)].flags.insert(.behind)
        } else if device.pointee.isSettled {
            return
        }
        // What was read so far lacks the news of the last connection.
        readings[index] = nil
        device.pointee.isStale = true
        guard device.pointee.waitsForStore || isToldEarly else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// The store can't be told of the session now. It reads its mailbox without the store's answer, because delivering twice
    /// is better than losing a message. After a lost connection it keeps waiting, because nobody knows yet what the absence
    /// discards.
    package mutating func notStored(_ index: UInt32) {
        guard sessions[Int(index)].flags.contains(.device) else { return }
        let device = devices + Int(index)
        device.pointee.isOverfull = false
        guard device.pointee.waitsForStore, !device.pointee.hasLostConnection else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Takes the instance's state from the snapshot of its reading, if it is news.
    ///
    /// The store may settle an absence's discards after the first catch-up: the session began with an old store,
    /// and another node had the instance before (OPS-7).
    /// - Returns: the reading to go on with. It begins anew if the store has settled the log meanwhile.
    package mutating func refresh(
        _ reading: consuming MailboxReading, _ state: MailboxState, now: Instant
    ) -> MailboxReading {
        let index = reading.index
        let device = devices + Int(index)
        // Begin anew if the store has settled the log meanwhile. Discards below the marks don't matter, because the device has
        // everything up to there.
        let known = max(reading.discardedThrough, device.pointee.acknowledged.lowest.rawValue)
        let isStale = device.pointee.isStale
        guard isStale || state.discardedThrough.rawValue > known else { return reading }
        device.pointee.isStale = false
        device.pointee.acknowledged.formMaximum(state.acknowledged)
        if !device.pointee.isSettled {
            // As the store sees it, the absence began after the messages that the device has (see `Absences`).
            let has = max(taken[index]?.max() ?? 0, state.acknowledged.highest.rawValue)
            device.pointee.changingMarks().pointee.awayFrom = max(
                state.awayFrom.rawValue, min(has, sessions[Int(index)].attachedAt))
        }
        device.pointee.changingMarks().pointee.awayThrough = min(
            state.awayThrough.rawValue, sessions[Int(index)].attachedAt)
        // In a stale session the store's values win, because the list in HELLO may have acknowledged the notice that we know.
        if isStale || state.discardedThrough.rawValue >= device.pointee.marks.discardedThrough {
            device.pointee.changingMarks().pointee.takeDiscards(of: state)
        }
        setThrottle(index, state.throttleFull, now)
        return self.reading(of: index)
    }

    func isDevice(_ index: UInt32, _ connectionNumber: UInt64) -> Bool {
        sessions[Int(index)].flags.contains(.device)
            && devices[Int(index)].connectionNumber == connectionNumber
    }

    /// An instance's session on this loop, and its connection number; nil if it isn't connected here.
    package func session(
        of ordinal: Ordinal, in project: ProjectNumber
    ) -> (index: UInt32, connectionNumber: UInt64)? {
        guard let index = projects.find(project)?.pointee.connected.handle(of: ordinal) else {
            return nil
        }
        return (index, devices[Int(index)].connectionNumber)
    }

    /// Stops delivering messages to a session. Its queued frames are still sent.
    package mutating func detach(_ index: UInt32, now: Instant) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.device) else { return }
        let connected = projects[session.pointee.project]
        if connected.pointee.connected.handle(of: session.pointee.ordinal) == index {
            _ = connected.pointee.connected.remove(session.pointee.ordinal)
        }
        if devices[Int(index)].isBridge,
            connected.pointee.bridged.handle(of: session.pointee.ordinal) == index
        {
            _ = connected.pointee.bridged.remove(session.pointee.ordinal)
        }
        keepDeparture(of: index, now)
        waking.remove(index)
        readings[index] = nil
        taken[index] = nil
        session.pointee.flags.subtract([
            .device, .behind, .acknowledged, .split, .confirmable,
        ])
    }

    /// Closes a session that has no send in flight.
    package mutating func close(_ index: UInt32, now: Instant) {
        detach(index, now: now)
        output.clear(index)
        forgetDevice(index)
    }

    private func forgetDevice(_ index: UInt32) {
        guard sessions[Int(index)].flags.contains(.known) else { return }
        sessions[Int(index)].flags.remove(.known)
        devices[Int(index)].free()
    }

    /// Whose log a device's session reads.
    func owner(of index: UInt32) -> MailboxOwner {
        let session = sessions + Int(index)
        let kind = kinds[devices[Int(index)].kind]
        return MailboxOwner(
            project: session.pointee.project, ordinal: session.pointee.ordinal,
            platform: kind.platform, appKey: kind.appKey)
    }

    /// Gives back memory that a burst of connections left behind.
    package mutating func releaseMemory() {
        output.releaseMemory()
        if readings.isEmpty { readings = [:] }
        if taken.isEmpty { taken = [:] }
        if skipped.isEmpty { skipped = [:] }
        if late.isEmpty { late = [:] }
        if acknowledged.isEmpty { acknowledged = [] }
    }

    // MARK: States

    /// Notes how awake the device is (PRI-2). A doze closes the lanes of normal priority; when it ends, the session reads its
    /// mailbox.
    package mutating func setState(_ index: UInt32, _ state: DeviceState) {
        guard sessions[Int(index)].flags.contains(.device) else { return }
        let device = devices + Int(index)
        let dozes = state == .doze
        guard dozes != device.pointee.isDozing else { return }
        if dozes {
            split(index)
            device.pointee.isDozing = true
            device.pointee.changingMarks().pointee.dozingFrom = heardThrough(index)
        } else {
            device.pointee.isDozing = false
            device.pointee.changingMarks().pointee.heldCount = 0
            reopen(index)
        }
    }

    /// The project's last stored message that a session could have heard of.
    func heardThrough(_ index: UInt32) -> UInt64 {
        let session = sessions + Int(index)
        let heard = projects.find(session.pointee.project)?.pointee.heardThrough ?? 0
        return max(
            heard, deliveredMarks(index).highest.rawValue, session.pointee.attachedAt)
    }

    /// Opens the collapsible lanes of sessions whose next token is due (COL-4).
    mutating func wake(_ now: Instant) {
        if now < lastWake { clockWasSetBack(now) }
        lastWake = now
        while let index = waking.popFirst(until: now.rawValue) {
            devices[Int(index)].isThrottled = false
            reopen(index)
        }
    }

    /// The clock was set back: no bucket may take longer to fill than an empty one.
    private mutating func clockWasSetBack(_ now: Instant) {
        let latest = now.rawValue &+ throttle.bucket
        for index in 0..<sessionCount
        where sessions[index].flags.contains(.device) && sessions[index].throttleFull > latest {
            sessions[index].throttleFull = latest
            guard devices[index].isThrottled else { continue }
            waking.insert(UInt32(index), at: throttle.nextToken(latest))
        }
    }

    /// When to call `step` even without an event, because a session gains a token; nil if none waits.
    package var nextWake: Instant? { waking.next.map { Instant(rawValue: $0) } }

    /// Closes a session's collapsible lanes until its next token.
    mutating func closeCollapsible(_ index: UInt32) {
        split(index)
        devices[Int(index)].isThrottled = true
        waking.insert(index, at: throttle.nextToken(sessions[Int(index)].throttleFull))
        counters.throttled &+= 1
    }

    // MARK: A doze

    /// Counts a message that isn't collapsible and waits for the end of a doze (STO-1).
    mutating func noteHeld(_ index: UInt32) {
        devices[Int(index)].changingMarks().pointee.heldCount += 1
        askIfOverfull(index)
    }

    /// Asks the store for the discards if a doze holds back more than may be stored (STO-1). The mailbox isn't read before the
    /// answer, and then once, for what is still held back.
    mutating func askIfOverfull(_ index: UInt32) {
        let device = devices + Int(index)
        guard limits.storedPerInstanceMax > 0, device.pointee.isDozing,
            device.pointee.marks.heldCount > limits.storedPerInstanceMax, device.pointee.isStored,
            !device.pointee.isOverfull
        else { return }
        device.pointee.isOverfull = true
        device.pointee.waitsForStore = true
        device.pointee.changingMarks().pointee.askedThrough = heardThrough(index)
        overfull.append(index)
    }

    /// The next session for which the store has to decide what its doze discards (STO-1). The caller tells the store as at the
    /// start of a connection, with `connectionStart`.
    package mutating func nextOverfull() -> UInt32? {
        while let index = overfull.popLast() {
            if sessions[Int(index)].flags.contains(.device), devices[Int(index)].isOverfull {
                return index
            }
        }
        return nil
    }

    /// The start of the device's connection. Includes the doze while the session asks for its discards (STO-1).
    package func connectionStart(of index: UInt32) -> ConnectionStart {
        let device = devices + Int(index)
        var start = ConnectionStart(
            number: device.pointee.connectionNumber,
            position: MessageSequence(sessions[Int(index)].attachedAt))
        if device.pointee.isOverfull, device.pointee.isDozing {
            start.held = .dozing(
                from: MessageSequence(device.pointee.marks.dozingFrom),
                through: MessageSequence(heardThrough(index)),
                heldFrom: deliveredMarks(index)[Self.heldLane])
        }
        return start
    }

    /// Lanes were opened. The session is behind, because what was held back comes first.
    private mutating func reopen(_ index: UInt32) {
        sessions[Int(index)].flags.insert(.behind)
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Splits a session: from now on each lane has its own position.
    func split(_ index: UInt32) {
        let session = sessions + Int(index)
        guard !session.pointee.flags.contains(.split) else { return }
        session.pointee.flags.insert(.split)
        devices[Int(index)].changingMarks().pointee.delivered = LaneMarks(
            MessageSequence(session.pointee.deliveredThrough))
    }

    func deliveredMarks(_ index: UInt32) -> LaneMarks {
        sessions[Int(index)].flags.contains(.split)
            ? devices[Int(index)].delivered
            : LaneMarks(MessageSequence(sessions[Int(index)].deliveredThrough))
    }

    // MARK: Frames

    /// Reserves room for one frame. The caller writes the frame at once and then passes it on: a frame of a
    /// fanout's kind to `enqueue`, a direct frame to `send`, `catchUp` or `share`.
    package mutating func reserve(
        _ byteCount: Int, _ kind: FrameKind
    ) -> UnsafeMutableRawBufferPointer {
        output.arena.reserve(byteCount, kind)
    }

    /// Queues the first `byteCount` bytes of the reserved room for one session.
    /// - Returns: false if its queue was full.
    package mutating func send(_ byteCount: Int, to index: UInt32) -> Bool {
        let frame = output.arena.take(byteCount, .direct)
        return output.append(
            frame, to: index, bytesMax: OutputBounds.answerBytesPerSessionMax,
            segmentsMax: OutputBounds.answersPerSessionMax) == .queued
    }

    /// Bytes of the arena's chunks, in use or kept for later.
    package var frameBytes: Int { output.arena.byteCount }
}

/// The start of a device's connection.
package struct Attachment: Sendable {
    /// The instance that has connected.
    package var owner: MailboxOwner
    /// Its app, which messages are counted for.
    package var app: AppNumber
    /// The ordinal's holder at the time.
    package var holder: Holder
    /// The state of its mailbox in the store.
    package var mailbox: MailboxState
    /// The project's last sequence in the snapshot of `mailbox`.
    package var position: MessageSequence
    /// How awake the device is (PRI-1).
    package var state: DeviceState
    /// Stream IDs that the device has taken, without knowing that the broker has heard.
    package var taken: [UInt64]
    /// Each of the broker's connections has a higher one.
    package var connectionNumber: UInt64
    /// Whether it belongs to the door to push services and isn't the device's own connection (GW-11).
    package var isBridge: Bool

    /// By default the device is active and has taken no messages.
    package init(
        owner: MailboxOwner, app: AppNumber = AppNumber(0), holder: Holder,
        mailbox: MailboxState, position: MessageSequence, state: DeviceState = .active,
        taken: [UInt64] = [], connectionNumber: UInt64, isBridge: Bool = false
    ) {
        self.owner = owner
        self.app = app
        self.holder = holder
        self.mailbox = mailbox
        self.position = position
        self.state = state
        self.taken = taken
        self.connectionNumber = connectionNumber
        self.isBridge = isBridge
    }
}

/// A loop's counts since it began.
package struct DeliveryCounters: Sendable {
    /// Fanouts begun, including messages for one instance.
    package var fanoutsStarted: UInt64 = 0
    /// Messages queued, once for each session.
    package var delivered: UInt64 = 0
    /// Those of `delivered` that fanouts in progress queued.
    package var fanoutDelivered: UInt64 = 0
    /// Live messages that passed a session by because it was behind. Stored ones are in its mailbox; others are lost for it.
    package var passedBy: UInt64 = 0
    /// Live messages held back because a lane was closed or the session had no token.
    package var heldBack: UInt64 = 0
    /// How often a session's throttle ran out of tokens.
    package var throttled: UInt64 = 0
    /// How often a session fell behind because its queue was full or a fanout was postponed.
    package var fellBehind: UInt64 = 0
    /// Now-or-never messages that were dropped: a queue was full, a device was dozing, the fanout was postponed, or
    /// another loop had no room.
    package var dropped: UInt64 = 0
    /// Acknowledgements that raised a session's marks.
    package var acknowledged: UInt64 = 0
    /// Sends gathered for the kernel.
    package var sends: UInt64 = 0
}
