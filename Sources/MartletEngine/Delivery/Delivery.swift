// SPDX-License-Identifier: Apache-2.0
//
// The delivery side of one loop: sessions, who of each project is connected here, the fanouts in
// progress, and what waits to be sent. A state machine: it is told what happened and asked what to do
// next; sockets, clocks and the store are its caller's.
//
// The one rule that keeps every instance's messages complete and in order: a session is given a
// stored message exactly if its sequence is above `deliveredThrough`, which then becomes it. A
// session that cannot keep up, or has just connected, is *behind*: live fanouts pass it by and it
// reads its mailbox instead, in a snapshot taken afterwards; when it has reached the end of the
// snapshot it is live again, and fanouts that were in the snapshot pass it by through the rule. This
// rests on one loop's fanouts of a project starting in their order, and on a loop hearing of a message
// only after it is committed.
//
// What a doze or the throttle holds back is held back lane by lane (see `Lane`): the session is
// *split*, the rule holds for each lane by itself, and what belongs to a closed lane passes by. When
// the lane opens again the session is behind, and finds in its mailbox what is still there.

public import MartletBase
import MartletBits
public import MartletRows

/// One loop's delivery.
public struct Delivery: ~Copyable {
    let sessions: UnsafeMutablePointer<Session>
    /// What belongs to a session once it is a device's; zeros before.
    let devices: UnsafeMutablePointer<DeviceSession>
    private let sessionTable: ZeroedTable<Session>
    private let deviceTable: ZeroedTable<DeviceSession>
    var kinds = InstanceKinds()
    let limits: MailboxLimits
    let throttle: Throttle
    var output: OutputQueues
    var projects: ProjectTable
    /// Sessions that are behind and have room.
    var behind: CatchUpQueue
    /// See `partialEntriesMaxDefault`.
    let partialEntriesMax: Int
    /// Mailboxes that have been read in part.
    var readings: [UInt32: MailboxReading] = [:]
    /// What devices said they have taken, until they have caught up.
    var taken: [UInt32: Set<UInt64>] = [:]
    /// REP-1: who was not given all that was in their mailboxes, until that is handed on.
    var skipped: [UInt32: Acknowledgement.Skipped] = [:]
    /// TTL-4: by session, of those that were delivered something late.
    var late: [UInt32: LateDeliveries] = [:]
    /// STO-1: sessions of which the store is to decide what their doze discards.
    private var overfull: [UInt32] = []
    /// Sessions whose collapsible lanes are closed.
    var waking: WakeQueue
    /// The given clock, by which the throttle goes.
    private var lastWake = Instant(rawValue: .min)
    /// Acknowledgements of sessions that are closed already, and single ones.
    var closedAcknowledgements: [Acknowledgement] = []
    /// Open sessions with an acknowledgement to hand on.
    var acknowledged: [UInt32] = []
    /// Single acknowledgements in `closedAcknowledgements`.
    var singleCount = 0
    /// Sessions to be told what is durable when what was handed on is.
    var unconfirmed: [Unconfirmed] = []
    /// Sessions for which a CONFIRMED frame was due since the last tick.
    var confirmable: [UInt32] = []
    /// The batch of acknowledgements that was handed on last.
    public internal(set) var lastBatch: UInt64 = 0
    var activity = ProjectActivity()
    /// A connection has ended since acknowledgements were handed on.
    public internal(set) var hasUrgentAcknowledgements = false
    /// Sessions looked at in this turn.
    var looks = 0
    /// What the walk that is on comes along with, and whom it comes to.
    var riders: UnsafeMutablePointer<Rider>
    /// Chunks with frames that readers of mailboxes share in this turn.
    var sharedChunks: [UInt32] = []
    /// REP-1: what was queued in this turn, app by app, and behind that the highest of these.
    let turnSent: UnsafeMutablePointer<UInt32>
    let turnSentCapacity = Limits.appsPerProjectMax
    var sent = SentCounts()
    private var ridersCapacity = 8
    var riderCount = 0
    let found: UnsafeMutableBufferPointer<UInt32>
    /// Sessions that were ever opened are below this number.
    var sessionCount = 0
    public internal(set) var counters = DeliveryCounters()

    /// - Parameters:
    ///   - capacity: sessions are numbered below it; each takes memory from when it is first opened.
    ///   - arrivalsMax: fanouts of a project after which those in progress are numbered anew.
    ///   - partialEntriesMax: entries of a mailbox after which they are delivered before the rest is
    ///     read, where nothing that is read later can change what becomes of them.
    public init(
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
        behind = CatchUpQueue(capacity: capacity)
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

    public mutating func open(_ index: UInt32) {
        sessionCount = max(sessionCount, Int(index) + 1)
        forgetDevice(index)
        let rings = sessions[Int(index)].flags.intersection(.rings)
        sessions[Int(index)] = Session()
        sessions[Int(index)].flags = rings
    }

    /// The session is a device's from now on and behind: it gets what is in its mailbox first.
    /// - Returns: the session of the same instance that it replaces, still open.
    public mutating func attach(
        _ index: UInt32, _ attachment: borrowing Attachment, now: Instant
    ) -> UInt32? {
        let owner = attachment.owner
        let replaced = projects[owner.project].pointee.connected.insert(
            owner.ordinal, handle: index)
        var state = attachment.mailbox
        // What began before it was connected is in its mailbox, or not for it.
        var visitedThrough = projects[owner.project].pointee.lastArrival
        projects[owner.project].pointee.beginAnew()
        if let replaced {
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
        devices[Int(index)].isDozing = attachment.state == .doze
        devices[Int(index)].dozingFrom = attachment.position.rawValue
        devices[Int(index)].hasLostConnection = state.hasLostConnection
        // What the connection before has acknowledged is on its way to the store, before the news of this one.
        // The list in HELLO has no effect on the discards of the absence before. The store decides on those first.
        devices[Int(index)].waitsForStore = state.isConnected || !attachment.taken.isEmpty
        if !attachment.taken.isEmpty {
            taken[index] = Set(attachment.taken)
            keepSingle(index, attachment.taken, arrival: attachment.position)
            hasUrgentAcknowledgements = true
        }
        queueCatchUp(index)
        return replaced
    }

    /// The session that is replaced knows more than the store does yet.
    private func inherit(from index: UInt32, _ holder: Holder, _ state: inout MailboxState) {
        let device = devices[Int(index)]
        guard device.holder == holder else { return }
        state.acknowledged.formMaximum(device.acknowledged)
        state.throttleFull = max(
            state.throttleFull, Instant(rawValue: sessions[Int(index)].throttleFull))
    }

    private func setThrottle(_ index: UInt32, _ full: Instant, _ now: Instant) {
        // A clock that was wrong once does not throttle for longer than an empty bucket.
        sessions[Int(index)].throttleFull = min(
            max(full.rawValue, sessions[Int(index)].throttleFull), now.rawValue &+ throttle.bucket)
    }

    /// The store has all that earlier connections of the session's instance left behind.
    public mutating func stored(_ index: UInt32, connectionNumber: UInt64) {
        guard isDevice(index, connectionNumber) else { return }
        let device = devices + Int(index)
        device.pointee.isStored = true
        if device.pointee.isOverfull {
            device.pointee.isOverfull = false
            sessions[Int(index)].flags.insert(.behind)
        } else if device.pointee.isSettled {
            return
        }
        // What was read before does not know yet what the last connection left.
        readings[index] = nil
        device.pointee.isStale = true
        guard device.pointee.waitsForStore else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// The store cannot be told of the session now. Better a message twice than none; but where a connection
    /// was lost, nobody knows yet what was discarded.
    public mutating func notStored(_ index: UInt32) {
        guard sessions[Int(index)].flags.contains(.device) else { return }
        let device = devices + Int(index)
        device.pointee.isOverfull = false
        guard device.pointee.waitsForStore, !device.pointee.hasLostConnection else { return }
        device.pointee.waitsForStore = false
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// What the store says of the session's instance in the snapshot that its mailbox is read from.
    /// - Returns: how to read it now.
    public mutating func refresh(
        _ reading: consuming MailboxReading, _ state: MailboxState, now: Instant
    ) -> MailboxReading {
        let index = reading.index
        let device = devices + Int(index)
        // A log that the store has settled meanwhile is begun anew.
        // The discards of an acknowledged notice lie below the marks, and may still stand in the store.
        let known = max(reading.discardedThrough, device.pointee.acknowledged.lowest.rawValue)
        let isStale = device.pointee.isStale
        guard isStale || state.discardedThrough.rawValue > known else { return reading }
        device.pointee.isStale = false
        device.pointee.acknowledged.formMaximum(state.acknowledged)
        if !device.pointee.isSettled { device.pointee.awayFrom = state.awayFrom.rawValue }
        device.pointee.awayThrough = min(
            state.awayThrough.rawValue, sessions[Int(index)].attachedAt)
        // The list in HELLO may have acknowledged the notice that was known then.
        if isStale || state.discardedThrough.rawValue >= device.pointee.discardedThrough {
            device.pointee.discardedThrough = state.discardedThrough.rawValue
            device.pointee.discardedCount = state.discardedCount
        }
        setThrottle(index, state.throttleFull, now)
        return self.reading(of: index)
    }

    func isDevice(_ index: UInt32, _ connectionNumber: UInt64) -> Bool {
        sessions[Int(index)].flags.contains(.device)
            && devices[Int(index)].connectionNumber == connectionNumber
    }

    /// The session of an instance here, and its connection number.
    public func session(
        of ordinal: Ordinal, in project: ProjectNumber
    ) -> (index: UInt32, connectionNumber: UInt64)? {
        guard let index = projects.find(project)?.pointee.connected.handle(of: ordinal) else {
            return nil
        }
        return (index, devices[Int(index)].connectionNumber)
    }

    /// No more messages for the session; its queue is still sent.
    public mutating func detach(_ index: UInt32, now: Instant) {
        let session = sessions + Int(index)
        guard session.pointee.flags.contains(.device) else { return }
        let connected = projects[session.pointee.project]
        if connected.pointee.connected.handle(of: session.pointee.ordinal) == index {
            _ = connected.pointee.connected.remove(session.pointee.ordinal)
        }
        keepDeparture(of: index, now)
        waking.remove(index)
        readings[index] = nil
        taken[index] = nil
        session.pointee.flags.subtract([
            .device, .behind, .acknowledged, .split, .confirmable,
        ])
    }

    /// The session is gone, and no send is in flight.
    public mutating func close(_ index: UInt32, now: Instant) {
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

    /// Gives back memory that a burst of connections has left behind.
    public mutating func releaseMemory() {
        output.releaseMemory()
        if readings.isEmpty { readings = [:] }
        if taken.isEmpty { taken = [:] }
        if skipped.isEmpty { skipped = [:] }
        if late.isEmpty { late = [:] }
        if acknowledged.isEmpty { acknowledged = [] }
    }

    // MARK: States

    /// PRI-2: the device says how awake it is.
    public mutating func setState(_ index: UInt32, _ state: DeviceState) {
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

    /// The last stored message of its project that a session could have heard of.
    func heardThrough(_ index: UInt32) -> UInt64 {
        let session = sessions + Int(index)
        let heard = projects.find(session.pointee.project)?.pointee.heardThrough ?? 0
        return max(
            heard, deliveredMarks(index).highest.rawValue, session.pointee.attachedAt)
    }

    /// COL-4: the sessions whose next token has come.
    mutating func wake(_ now: Instant) {
        if now < lastWake { clockWasSetBack(now) }
        lastWake = now
        while let index = waking.popFirst(until: now.rawValue) {
            devices[Int(index)].isThrottled = false
            reopen(index)
        }
    }

    /// Buckets that are full at a later instant than an empty one are empty.
    private mutating func clockWasSetBack(_ now: Instant) {
        let latest = now.rawValue &+ throttle.bucket
        for index in 0..<sessionCount
        where sessions[index].flags.contains(.device) && sessions[index].throttleFull > latest {
            sessions[index].throttleFull = latest
            guard devices[index].isThrottled else { continue }
            waking.insert(UInt32(index), at: throttle.nextToken(latest))
        }
    }

    /// When `step` is to be called next although nothing happened.
    public var nextWake: Instant? { waking.next.map { Instant(rawValue: $0) } }

    /// No token is left: collapsible messages wait for the next.
    mutating func closeCollapsible(_ index: UInt32) {
        split(index)
        devices[Int(index)].isThrottled = true
        waking.insert(index, at: throttle.nextToken(sessions[Int(index)].throttleFull))
        counters.throttled &+= 1
    }

    // MARK: A doze

    /// STO-1: a message that is not collapsible waits for the end of a session's doze.
    mutating func noteHeld(_ index: UInt32) {
        devices[Int(index)].heldCount += 1
        askIfOverfull(index)
    }

    /// STO-1: where more wait for the end of a doze than may be stored, the store decides what is discarded.
    /// The mailbox is not read meanwhile, and then once, for what is still held back.
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

    /// The next session of which the store is to decide that. It is told as that of a connection.
    public mutating func nextOverfull() -> UInt32? {
        while let index = overfull.popLast() {
            if sessions[Int(index)].flags.contains(.device), devices[Int(index)].isOverfull {
                return index
            }
        }
        return nil
    }

    /// How a device's connection began, and the doze that it is in.
    public func connectionStart(of index: UInt32) -> ConnectionStart {
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

    /// Lanes were opened: what was held back comes first.
    private mutating func reopen(_ index: UInt32) {
        sessions[Int(index)].flags.insert(.behind)
        if sessions[Int(index)].queuedBytes == 0 { queueCatchUp(index) }
    }

    /// From now on each of the session's lanes has a position of its own.
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

    /// Bytes held for frames.
    public var frameBytes: Int { output.arena.byteCount }
}

/// A device's connection, as it begins.
public struct Attachment: Sendable {
    public var owner: MailboxOwner
    public var app: AppNumber
    public var holder: Holder
    /// What the store says of the instance.
    public var mailbox: MailboxState
    /// The project's last sequence in the same snapshot.
    public var position: MessageSequence
    public var state: DeviceState
    /// Stream IDs that the device has taken and does not know to be acknowledged.
    public var taken: [UInt64]
    public var connectionNumber: UInt64

    public init(
        owner: MailboxOwner, app: AppNumber = AppNumber(0), holder: Holder,
        mailbox: MailboxState, position: MessageSequence, state: DeviceState = .active,
        taken: [UInt64] = [], connectionNumber: UInt64
    ) {
        self.owner = owner
        self.app = app
        self.holder = holder
        self.mailbox = mailbox
        self.position = position
        self.state = state
        self.taken = taken
        self.connectionNumber = connectionNumber
    }
}

/// What one loop did since it began.
public struct DeliveryCounters: Sendable {
    public var fanoutsStarted: UInt64 = 0
    /// Messages queued for a session.
    public var delivered: UInt64 = 0
    /// Those of them that fanouts in progress brought.
    public var fanoutDelivered: UInt64 = 0
    /// Live messages that passed a session by because it was behind; it gets them from its mailbox.
    public var passedBy: UInt64 = 0
    /// Live messages whose lane was closed.
    public var heldBack: UInt64 = 0
    /// How often a session's throttle ran out of tokens.
    public var throttled: UInt64 = 0
    /// Sessions whose queue was full.
    public var fellBehind: UInt64 = 0
    /// Messages that are not stored and found a full queue, or a dozing device.
    public var dropped: UInt64 = 0
    /// Acknowledgements that moved a session on.
    public var acknowledged: UInt64 = 0
    public var sends: UInt64 = 0
}
