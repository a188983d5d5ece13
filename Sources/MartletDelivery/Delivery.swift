// SPDX-License-Identifier: Apache-2.0
//
// The delivery side of one loop: sessions, the connected instances of each project, fanouts in progress, and frames
// that wait to be sent. Delivery is a state machine. Its caller reports events and asks for the next action;
// sockets, clocks and the store belong to the caller.
//
// One rule keeps the messages of every instance complete and in order. A session receives a stored message exactly
// if the message's sequence is above the session's `deliveredThrough`. `deliveredThrough` then becomes this
// sequence.
//
// A session that cannot keep up, or has just connected, is *behind*. Live fanouts skip the session, and the session
// reads its mailbox in a later snapshot. At the end of the snapshot the session is live again. By the rule, fanouts
// of messages in the snapshot skip the session. The rule rests on two facts: on each loop the fanouts of a project
// begin in the order of the sequences, and a loop hears of a message only after the commit.
//
// A doze and the throttle hold messages back lane by lane (see `Lane`). The session is then *split*: the rule holds
// for each lane separately, and messages of a closed lane pass the session by. When the lane opens again, the
// session is behind, and reads the remaining messages of the lane from its mailbox.

package import MartletBase
import MartletBits
import MartletEngine
package import MartletRows

/// The delivery state machine of one loop.
package struct Delivery: ~Copyable {
    let sessions: UnsafeMutablePointer<Session>
    /// The device's part of each session, by session number. An entry is zeros until a device is attached.
    let devices: UnsafeMutablePointer<DeviceSession>
    private let sessionTable: ZeroedTable<Session>
    private let deviceTable: ZeroedTable<DeviceSession>
    var kinds = InstanceKinds()
    let limits: MailboxLimits
    let throttle: Throttle
    var output: OutputQueues
    var projects: ProjectTable
    /// Sessions waiting for a mailbox reading: they are behind and have room in the queue.
    var readingQueue: CatchUpQueue
    /// Replayed entries after which delivery may begin before the end of the log; see `partialEntriesMaxDefault`.
    let partialEntriesMax: Int
    /// Paused mailbox readings, by session number.
    var readings: [UInt32: MailboxReading] = [:]
    /// Stream IDs that devices named as taken in HELLO, by session number. An entry ends when the session has
    /// caught up.
    var taken: [UInt32: Set<UInt64>] = [:]
    /// REP-1: mailbox readings in which the mailbox rules had dropped messages, by session number. An entry ends
    /// with the session's next acknowledgement for the committer.
    var skipped: [UInt32: Acknowledgement.Skipped] = [:]
    /// TTL-4: the late messages of sessions, by session number. A session without late messages has no entry.
    var late: [UInt32: LateDeliveries] = [:]
    /// STO-1: sessions for whose doze the store has to decide on the discards.
    private var overfull: [UInt32] = []
    /// Sessions with closed collapsible lanes, by the instant of their next token.
    var waking: WakeQueue
    /// The instant of the last `wake`, on the throttle's clock.
    private var lastWake = Instant(rawValue: .min)
    /// Departures of closed sessions, and single acknowledgements, not yet taken for the committer.
    var queuedAcknowledgements: [Acknowledgement] = []
    /// Open sessions with risen marks, not yet taken for the committer.
    var acknowledged: [UInt32] = []
    /// The number of single acknowledgements in `queuedAcknowledgements`.
    var singleCount = 0
    /// Sessions waiting for CONFIRMED until a batch of acknowledgements is on disk.
    var unconfirmed: [Unconfirmed] = []
    /// Sessions for which a CONFIRMED frame was due since the last tick.
    var confirmable: [UInt32] = []
    /// The number of the last batch of acknowledgements for the committer.
    package internal(set) var lastBatch: UInt64 = 0
    var activity = ProjectActivity()
    /// Whether departures, or the list of taken messages in a HELLO, wait for the committer. The store needs them
    /// before the next commands.
    package internal(set) var hasUrgentAcknowledgements = false
    /// Sessions looked at in the present turn.
    var looks = 0
    /// The fanouts in progress with recipients in the block of the present walk. The first `riderCount` elements
    /// are in use.
    var riders: UnsafeMutablePointer<Rider>
    /// Chunks of frames shared by the mailbox readings of the present turn. Delivery holds a reference to each
    /// chunk.
    var sharedChunks: [UInt32] = []
    /// REP-1: messages queued in the present turn, by app number. The element behind the apps is the highest app
    /// number with a count.
    let turnSent: UnsafeMutablePointer<UInt32>
    let turnSentCapacity = Limits.appsPerProjectMax
    var sent = SentCounts()
    private var ridersCapacity = 8
    var riderCount = 0
    /// Session numbers in a walk's block, to be visited next.
    let found: UnsafeMutableBufferPointer<UInt32>
    /// All sessions ever opened have numbers below this count.
    var sessionCount = 0
    /// Counts since the beginning of the loop.
    package internal(set) var counters = DeliveryCounters()

    /// - Parameters:
    ///   - capacity: the bound on session numbers. A session takes memory from the first opening on.
    ///   - arrivalsMax: the highest arrival number of a project's fanouts. At this number the fanouts in progress
    ///     are numbered anew.
    ///   - partialEntriesMax: replayed entries after which messages are delivered before the rest of the log is
    ///     read, if no later entry can change the outcome.
    package init(
        capacity: Int, limits: MailboxLimits = MailboxLimits(), arrivalsMax: UInt32 = .max,
        partialEntriesMax: Int = Delivery.partialEntriesMaxDefault
    ) {
        self.partialEntriesMax = partialEntriesMax
        self.limits = limits
        projects = ProjectTable(arrivalsMax: arrivalsMax)
        riders = .allocate(capacity: ridersCapacity)
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
        riders.deallocate()
        found.deallocate()
        turnSent.deallocate()
    }

    mutating func reserveRiders(_ count: Int) {
        guard count > ridersCapacity else { return }
        riders.deallocate()
        ridersCapacity = max(count, ridersCapacity * 2)
        riders = .allocate(capacity: ridersCapacity)
    }

    // MARK: Sessions

    /// Begins a session for a new connection. The session belongs to no device before `attach`.
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

    /// Attaches a device to a session. The session is behind from now on, because the messages in the mailbox come
    /// first.
    /// - Returns: the replaced session of the instance, still open, or nil.
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
        // Fanouts from before the connection skip the session: the messages are in the mailbox, or not for the
        // session.
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
        devices[Int(index)].dozingFrom = attachment.position.rawValue
        devices[Int(index)].hasLostConnection = state.hasLostConnection
        // The acknowledgements of the connection before are on their way to the store, ahead of the news of the new
        // connection. The list in HELLO has no effect on the discards of the absence before, because the store
        // decides on the discards first.
        devices[Int(index)].waitsForStore = state.isConnected || !attachment.taken.isEmpty
        if !attachment.taken.isEmpty {
            taken[index] = Set(attachment.taken)
            keepSingle(index, attachment.taken, arrival: attachment.position)
            hasUrgentAcknowledgements = true
        }
        queueCatchUp(index)
        return replaced
    }

    /// Takes over the marks and the throttle of the replaced session, because the store does not know the latest
    /// values yet.
    private func inherit(from index: UInt32, _ holder: Holder, _ state: inout MailboxState) {
        let device = devices[Int(index)]
        guard device.holder == holder else { return }
        state.acknowledged.formMaximum(device.acknowledged)
        state.throttleFull = max(
            state.throttleFull, Instant(rawValue: sessions[Int(index)].throttleFull))
    }

    private func setThrottle(_ index: UInt32, _ full: Instant, _ now: Instant) {
        // An instant from a wrong clock throttles for no longer than an empty bucket does.
        sessions[Int(index)].throttleFull = min(
            max(full.rawValue, sessions[Int(index)].throttleFull), now.rawValue &+ throttle.bucket)
    }

    /// Notes the store's answer: the store has applied all news of earlier connections of the session's instance,
    /// and has decided on the discards of a doze (STO-1).
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
        // Readings until now lack the news of the last connection.
        readings[index] = nil
        device.pointee.isStale = true
        guard device.pointee.waitsForStore || isToldEarly else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Notes that the store cannot be told of the session now. The session reads the mailbox without the store's
    /// answer, because a message delivered twice is better than a lost message. After a lost connection the session
    /// keeps waiting, because the discards of the absence are not known yet.
    package mutating func notStored(_ index: UInt32) {
        guard sessions[Int(index)].flags.contains(.device) else { return }
        let device = devices + Int(index)
        device.pointee.isOverfull = false
        guard device.pointee.waitsForStore, !device.pointee.hasLostConnection else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Takes the state of the session's instance from the snapshot of the mailbox reading, if the state is news.
    ///
    /// OPS-7: the store of a node may settle the discards of an absence after the session's first catch-up: the session
    /// began with an old store, and another node had the instance before.
    /// - Returns: the reading to continue with. The reading begins anew if the store has settled the log meanwhile.
    package mutating func refresh(
        _ reading: consuming MailboxReading, _ state: MailboxState, now: Instant
    ) -> MailboxReading {
        let index = reading.index
        let device = devices + Int(index)
        // The reading begins anew if the store has settled the log meanwhile. Discards below the marks do not
        // count, because the device has all messages up to there.
        let known = max(reading.discardedThrough, device.pointee.acknowledged.lowest.rawValue)
        let isStale = device.pointee.isStale
        guard isStale || state.discardedThrough.rawValue > known else { return reading }
        device.pointee.isStale = false
        device.pointee.acknowledged.formMaximum(state.acknowledged)
        if !device.pointee.isSettled {
            // As the store decides: the absence began behind the messages that the device has (see `Absences`).
            let has = max(taken[index]?.max() ?? 0, state.acknowledged.highest.rawValue)
            device.pointee.awayFrom = max(
                state.awayFrom.rawValue, min(has, sessions[Int(index)].attachedAt))
        }
        device.pointee.awayThrough = min(
            state.awayThrough.rawValue, sessions[Int(index)].attachedAt)
        // The store's values replace the values of a stale session, because the list in HELLO may have acknowledged
        // the known notice.
        if isStale || state.discardedThrough.rawValue >= device.pointee.discardedThrough {
            device.pointee.discardedThrough = state.discardedThrough.rawValue
            device.pointee.discardedCount = state.discardedCount
            device.pointee.noticeStreamID = state.noticeStreamID.rawValue
        }
        setThrottle(index, state.throttleFull, now)
        return self.reading(of: index)
    }

    func isDevice(_ index: UInt32, _ connectionNumber: UInt64) -> Bool {
        sessions[Int(index)].flags.contains(.device)
            && devices[Int(index)].connectionNumber == connectionNumber
    }

    /// The session of an instance on the loop, with the connection number; nil if the instance is not connected
    /// here.
    package func session(
        of ordinal: Ordinal, in project: ProjectNumber
    ) -> (index: UInt32, connectionNumber: UInt64)? {
        guard let index = projects.find(project)?.pointee.connected.handle(of: ordinal) else {
            return nil
        }
        return (index, devices[Int(index)].connectionNumber)
    }

    /// Ends the delivery of messages to a session. The queued frames are still sent.
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

    /// Closes a session without a send in flight.
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

    /// The owner of the log that a device's session reads.
    func owner(of index: UInt32) -> MailboxOwner {
        let session = sessions + Int(index)
        let kind = kinds[devices[Int(index)].kind]
        return MailboxOwner(
            project: session.pointee.project, ordinal: session.pointee.ordinal,
            platform: kind.platform, appKey: kind.appKey)
    }

    /// Gives back memory that a burst of connections has left behind.
    package mutating func releaseMemory() {
        output.releaseMemory()
        if readings.isEmpty { readings = [:] }
        if taken.isEmpty { taken = [:] }
        if skipped.isEmpty { skipped = [:] }
        if late.isEmpty { late = [:] }
        if acknowledged.isEmpty { acknowledged = [] }
    }

    // MARK: States

    /// PRI-2: notes how awake the device is. A doze closes the lanes of normal priority. At the end of the doze the
    /// session reads its mailbox.
    package mutating func setState(_ index: UInt32, _ state: DeviceState) {
        guard sessions[Int(index)].flags.contains(.device) else { return }
        let device = devices + Int(index)
        let dozes = state == .doze
        guard dozes != device.pointee.isDozing else { return }
        if dozes {
            split(index)
            device.pointee.isDozing = true
            device.pointee.dozingFrom = heardThrough(index)
        } else {
            device.pointee.isDozing = false
            device.pointee.heldCount = 0
            reopen(index)
        }
    }

    /// The last stored message of the project that a session could have heard of.
    func heardThrough(_ index: UInt32) -> UInt64 {
        let session = sessions + Int(index)
        let heard = projects.find(session.pointee.project)?.pointee.heardThrough ?? 0
        return max(
            heard, deliveredMarks(index).highest.rawValue, session.pointee.attachedAt)
    }

    /// COL-4: opens the collapsible lanes of sessions whose next token is due.
    mutating func wake(_ now: Instant) {
        if now < lastWake { clockWasSetBack(now) }
        lastWake = now
        while let index = waking.popFirst(until: now.rawValue) {
            devices[Int(index)].isThrottled = false
            reopen(index)
        }
    }

    /// Limits the throttle after the clock was set back: no bucket is full later than an empty bucket would be.
    private mutating func clockWasSetBack(_ now: Instant) {
        let latest = now.rawValue &+ throttle.bucket
        for index in 0..<sessionCount
        where sessions[index].flags.contains(.device) && sessions[index].throttleFull > latest {
            sessions[index].throttleFull = latest
            guard devices[index].isThrottled else { continue }
            waking.insert(UInt32(index), at: throttle.nextToken(latest))
        }
    }

    /// The instant at which `step` is due without another event, because a session gains a token. nil: no session
    /// waits.
    package var nextWake: Instant? { waking.next.map { Instant(rawValue: $0) } }

    /// Closes the collapsible lanes of a session without tokens, until its next token.
    mutating func closeCollapsible(_ index: UInt32) {
        split(index)
        devices[Int(index)].isThrottled = true
        waking.insert(index, at: throttle.nextToken(sessions[Int(index)].throttleFull))
        counters.throttled &+= 1
    }

    // MARK: A doze

    /// STO-1: counts a message that is not collapsible and waits for the end of a session's doze.
    mutating func noteHeld(_ index: UInt32) {
        devices[Int(index)].heldCount += 1
        askIfOverfull(index)
    }

    /// STO-1: asks the store for the discards if a doze holds back more messages than may be stored. The mailbox is
    /// not read before the answer, and then once, for the messages still held back.
    mutating func askIfOverfull(_ index: UInt32) {
        let device = devices + Int(index)
        guard limits.storedPerInstanceMax > 0, device.pointee.isDozing,
            device.pointee.heldCount > limits.storedPerInstanceMax, device.pointee.isStored,
            !device.pointee.isOverfull
        else { return }
        device.pointee.isOverfull = true
        device.pointee.waitsForStore = true
        device.pointee.askedThrough = heardThrough(index)
        overfull.append(index)
    }

    /// STO-1: the next session for whose doze the store has to decide on the discards, or nil. The caller tells the
    /// store as at the beginning of a connection, with `connectionStart`.
    package mutating func nextOverfull() -> UInt32? {
        while let index = overfull.popLast() {
            if sessions[Int(index)].flags.contains(.device), devices[Int(index)].isOverfull {
                return index
            }
        }
        return nil
    }

    /// The beginning of the device's connection. STO-1: includes the doze while the session asks for the discards.
    package func connectionStart(of index: UInt32) -> ConnectionStart {
        let device = devices + Int(index)
        var start = ConnectionStart(
            number: device.pointee.connectionNumber,
            position: MessageSequence(sessions[Int(index)].attachedAt))
        if device.pointee.isOverfull, device.pointee.isDozing {
            start.held = .dozing(
                from: MessageSequence(device.pointee.dozingFrom),
                through: MessageSequence(heardThrough(index)),
                heldFrom: deliveredMarks(index)[Self.heldLane])
        }
        return start
    }

    /// Notes that lanes were opened. The session is behind, because the messages held back come first.
    private mutating func reopen(_ index: UInt32) {
        sessions[Int(index)].flags.insert(.behind)
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// Splits a session: from now on each lane has a separate position.
    func split(_ index: UInt32) {
        let session = sessions + Int(index)
        guard !session.pointee.flags.contains(.split) else { return }
        session.pointee.flags.insert(.split)
        devices[Int(index)].delivered = LaneMarks(
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
    /// - Returns: false if the session's queue is full; the frame is not queued then.
    package mutating func send(_ byteCount: Int, to index: UInt32) -> Bool {
        let frame = output.arena.take(byteCount, .direct)
        return output.append(
            frame, to: index, bytesMax: OutputBounds.answerBytesPerSessionMax,
            segmentsMax: OutputBounds.answersPerSessionMax) == .queued
    }

    /// Bytes of the arena's chunks, in use or kept for later use.
    package var frameBytes: Int { output.arena.byteCount }
}

/// The beginning of a device's connection.
package struct Attachment: Sendable {
    /// Instance at the connection.
    package var owner: MailboxOwner
    /// App of the instance. The app decides where the messages are counted.
    package var app: AppNumber
    /// Holder of the ordinal at the beginning of the connection.
    package var holder: Holder
    /// The mailbox state of the instance in the store.
    package var mailbox: MailboxState
    /// The project's last sequence in the snapshot of `mailbox`.
    package var position: MessageSequence
    /// PRI-1: state of the device at the beginning of the connection.
    package var state: DeviceState
    /// Stream IDs that the device has taken and does not know to be acknowledged.
    package var taken: [UInt64]
    /// Rises with every connection of the broker.
    package var connectionNumber: UInt64
    /// GW-11: the session belongs to the door to push services, and is no connection of the device.
    package var isBridge: Bool

    /// Makes the beginning of a connection. By default, the device is active and has taken no messages.
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

/// Counts of a loop since its beginning.
package struct DeliveryCounters: Sendable {
    /// Fanouts begun on the loop, including messages for one instance.
    package var fanoutsStarted: UInt64 = 0
    /// Messages queued for sessions, counted once for each session.
    package var delivered: UInt64 = 0
    /// Messages queued by fanouts in progress, a part of `delivered`.
    package var fanoutDelivered: UInt64 = 0
    /// Live messages that passed a session by because the session was behind. The mailbox has the stored messages;
    /// other messages are lost for the session.
    package var passedBy: UInt64 = 0
    /// Live messages held back because the lane was closed or the session had no token.
    package var heldBack: UInt64 = 0
    /// How often a session's throttle ran out of tokens.
    package var throttled: UInt64 = 0
    /// How often a session fell behind, because its queue was full or a fanout was postponed.
    package var fellBehind: UInt64 = 0
    /// Messages that are not stored and were dropped: a queue was full, a device was dozing, the fanout was
    /// postponed, or another loop had no room.
    package var dropped: UInt64 = 0
    /// Acknowledgements that raised a session's marks.
    package var acknowledged: UInt64 = 0
    /// Sends gathered for the kernel.
    package var sends: UInt64 = 0
}
