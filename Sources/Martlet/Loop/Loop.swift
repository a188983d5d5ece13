// SPDX-License-Identifier: Apache-2.0
//
// One loop: a thread with its ring, its connections and its part of every fanout. A turn takes what
// the kernel and the other threads have for it, works through some blocks of fanouts, and hands
// everything that is to be sent to the kernel in one call. It owns its state alone, as a ~Copyable
// value on its own stack, so nothing on the way of a message is locked, counted or checked for
// exclusive access. Rests on Delivery and on the transport's interface.

import Glibc
import Logging
import MartletBase
import MartletBits
import MartletEngine
import MartletRing
import MartletRows
import MartletStore
import Synchronization

/// What all loops of a broker share.
struct LoopContext: Sendable {
    let number: Int
    let store: Store
    let inquiry: Inquiry
    let committer: Committer
    let committerAddress: RingAddress
    let clock: @Sendable () -> Instant
    /// Milliseconds that only rise, for timeouts.
    let monotonic: @Sendable () -> Int64
    let configuration: BrokerConfiguration
    let administratorKey: SecretDigest
    let senderCredentials: SenderCredentials
    let connectionNumbers: ConnectionNumbers
    /// FAN-7; nil: as many as can be.
    let ceiling: DeliveryCeiling?
    let quotas: ProjectQuotas
    let requestMemory: RequestMemory
    let frameBounds: FrameBounds
    let inbox: Inbox<LoopMessage>
    let metrics: LoopMetrics
    let peers: Peers
    let logger: Logger
}

/// Numbers every connection of a broker, over all its loops.
final class ConnectionNumbers: Sendable {
    private let last = Atomic<UInt64>(0)
    func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue }
}

/// The loops of a broker in the order of their numbers. One is in here before it takes connections.
final class Peers: Sendable {
    private let handles = Mutex<[LoopHandle]>([])
    func add(_ loop: LoopHandle) { handles.withLock { $0.append(loop) } }
    var all: [LoopHandle] { handles.withLock { $0 } }
    var count: Int { handles.withLock { $0.count } }
}

/// One loop's state.
struct Loop<Kernel: Transport & ~Copyable>: ~Copyable {
    /// Sessions looked at in one turn before the kernel is given its sends: a look costs 10–20 ns and a
    /// send 3–4 µs.
    static var looksPerTurn: Int { 16_384 }
    /// Sends that fanouts cause in one turn, given to the kernel in one system call. Between two turns the loop hears
    /// what has come meanwhile, and what that brings to sessions that still wait for their turn leaves
    /// with it: a burst that arrives in pieces costs hardly more than one that arrives at once.
    static var sendsPerTurn: Int { 256 }
    /// Rows of mailboxes that are read, and messages that are queued from there, in one turn: either
    /// costs about a microsecond, and live messages of other projects wait for them no longer than for
    /// a turn's sends.
    static var catchUpCostPerTurn: Int { 256 }
    /// The bound while no other project has messages: what some fifty devices share is then read once
    /// for all of them.
    static var catchUpCostPerTurnAlone: Int { 1024 }
    /// Mailboxes read in one turn from which on devices come back faster than theirs can be read.
    static var stormReadings: Int { 16 }
    /// What beginning to read a mailbox costs beside: some searches.
    static var catchUpCostPerReading: Int { 4 }
    /// Rows and messages that others have read in the same turn, for the cost of one: a look and a
    /// reference to a frame cost some ten nanoseconds.
    static var catchUpSharedPerCost: Int { 16 }
    /// Bytes queued for the cost of one: the kernel copies them in the same turn.
    static var catchUpBytesPerCost: Int { 4096 }
    /// Messages that one reading looks at, whoever they are for: a mailbox that has not been read for
    /// long shares the turn with others.
    static var mailboxRowsPerRead: Int { 256 }
    /// How long acknowledgements gather before the committer is told: losing them in a crash costs
    /// one more delivery, which the device drops.
    static var acknowledgeMilliseconds: Int64 { 50 }
    /// REP-1: how long what was sent waits for an acknowledgement to be handed over with.
    static var sentMilliseconds: Int64 { 1000 }
    /// How soon the committer is asked again that had no room.
    static var handOverRestMilliseconds: Int { 10 }
    /// Past so many requests and acknowledgements that wait nobody may connect: what connections leave
    /// behind is kept. Single acknowledgements alone are fewer.
    static var waitingMax: Int { 2 * Delivery.singleAcknowledgementsMax }
    /// How long what the store could not take waits.
    static var storeRestMilliseconds: Int64 { 1000 }
    /// How long mailboxes rest after the store could not be read,
    static var catchUpRestMilliseconds: Int64 { 100 }
    /// and after a turn of them where other projects have messages: their way through the loops, the
    /// committer and the cores is free meanwhile.
    static var catchUpPauseMilliseconds: Int64 { 2 }

    let context: LoopContext
    var transport: Kernel
    var delivery: Delivery
    let connections: UnsafeMutablePointer<Connection>
    let connectionsMax: Int
    /// Connections, and behind them as many apps that share some of them.
    let placesMax: Int
    /// Which numbers hold a connection.
    let isOccupied: UnsafeMutablePointer<Bool>
    private let occupationTable: ZeroedTable<Bool>
    var highestIndex = -1
    /// Connections and apps that came or went, and events with bytes.
    var placesChanged: UInt32 = 0
    var receivedCount: UInt32 = 0
    var release = ReleaseState()
    /// Numbers of apps that share a connection.
    var appPlaces: AppPlaces
    /// Apps that have been told that they are detached; some have left.
    var endedApps: [UInt32] = []
    let prefixes = ChannelPrefixes()
    /// Requests for the committer, handed over once a turn.
    var requests: [Request] = []
    /// TTL-2: sends what is not stored, and fanouts of that for the other loops, told once a turn.
    var live: LiveSender
    var liveForOthers: [Fanout] = []
    /// Told of them, for whoever turns a loop by hand.
    var observeLive: ((Command, Outcome) -> Void)?
    var writer = FrameWriter()
    /// Vectors of the sends since the last submission; the kernel reads them then.
    let vectors: UnsafeMutableBufferPointer<iovec>
    var vectorsUsed = 0
    let began: Int64
    var lastTick: UInt32 = 0
    var lastAcknowledged: Int64 = 0
    /// Since when there is something sent that the committer was not told; nil: there is nothing.
    private var sentSince: Int64?
    /// Batches of everything acknowledged that the committer has. With one there further ones gather here,
    /// so that devices cannot tell them faster than they are written; but what is urgent goes before what
    /// depends on it.
    var gathered: Set<UInt64> = []
    /// REG-9: what connections of senders were opened with, by their numbers.
    var senders: [UInt32: SenderCredential] = [:]
    /// Instances that were registered here and whose tokens have not left, by the place of their
    /// connection; and those that nobody knows of and that could not be unregistered yet.
    var newcomers: [UInt32: Newcomer] = [:]
    var notUndone: [Newcomer] = []
    /// RCP-1: senders that listen, and those of them that may have receipts to be sent.
    var listening: [ProjectNumber: [ConnectionID]] = [:]
    var receiptsDue: [ConnectionID] = []
    /// Senders whose receipts could not be read: that is tried again with the next tick.
    var receiptsUnread: [ConnectionID] = []
    /// UPS-1: senders that listen, by their numbers.
    var upstreamListeners: [UInt64: UpstreamListener] = [:]
    /// FAN-7: this loop's part of the ceiling, and deliveries that were taken from it.
    var allowance: DeliveryAllowance?
    var paidDeliveries: UInt64 = 0
    /// Bytes of the frame that is being served.
    var servedBytes = 0
    /// Bytes of frames when it was last measured whose they are.
    var measuredFrameBytes = 0
    /// When mailboxes are read again, in milliseconds of the monotonic clock.
    var catchUpResumes: Int64 = 0
    var isDraining = false
    var drainBegan: UInt32 = 0
    /// Milliseconds of the monotonic clock until which peers may hear that this is the end.
    var drainLingerUntil: Int64 = 0

    init(context: LoopContext, transport: consuming Kernel, connectionsMax: Int) {
        self.context = context
        self.transport = transport
        self.connectionsMax = connectionsMax
        placesMax = 2 * connectionsMax
        delivery = Delivery(
            capacity: placesMax, limits: context.configuration.limits)
        connections = .allocate(capacity: placesMax)
        occupationTable = ZeroedTable(capacity: placesMax)
        isOccupied = occupationTable.base
        appPlaces = AppPlaces(from: connectionsMax, to: placesMax)
        vectors = .allocate(capacity: OutputBounds.vectorsPerSend * 256)
        live = LiveSender(context.committer.liveSending)
        began = context.monotonic()
        allowance = context.ceiling.map { DeliveryAllowance($0) }
    }

    deinit {
        for index in 0..<placesMax where isOccupied[index] {
            (connections + index).deinitialize(count: 1)
        }
        connections.deallocate()
        vectors.deallocate()
    }

    /// Seconds since the loop began.
    var seconds: UInt32 { UInt32((context.monotonic() - began) / 1000) }

    /// Turns until the loop was told to drain and has.
    mutating func run() {
        repeat { submitAndWait(waitMilliseconds()) } while !turn()
    }

    /// Everything between two waits.
    /// - Returns: whether the loop was told to drain and has.
    mutating func turn() -> Bool {
        // Before the events, so that no deadline counts time that went by before its connection came.
        let now = seconds
        let isTickDue = now != lastTick
        lastTick = now
        while let event = transport.nextEvent() { handle(event) }
        if hasBurst || hasSpareBuffers { releaseMemory() }
        for message in context.inbox.drain() { handle(message) }
        if !liveForOthers.isEmpty { handOverLive() }
        if !requests.isEmpty {
            handOverRequests()
            // The committer is woken before this turn's sends and not behind them: on another core
            // it works meanwhile, on this one it mostly has its outcomes here at once, so that
            // messages that came together also leave together.
            submitAndWait(0)
            for message in context.inbox.drain() { handle(message) }
        }
        let isBusy = goOnWithFanouts()
        let readCount = catchUp()
        decideDozes()
        sendReceipts()
        if needsMeasuring { _ = measureFrames() }
        sendReady(afterReading: readCount)
        handOverAcknowledgements()
        if !endedApps.isEmpty { releaseApps() }
        if isTickDue { tick(now) }
        context.metrics.record(
            delivery.counters, connections: transport.connectionCount,
            frameBytes: delivery.frameBytes)
        return isDraining && (!isBusy || !waitsForFanouts(now)) && isDrained(now)
    }

    mutating func waitMilliseconds() -> Int {
        if delivery.readyCount > 0 || !receiptsDue.isEmpty { return 0 }
        guard delivery.fanoutCount > 0 else { return idleMilliseconds() }
        // Fanouts wait for nothing but the ceiling.
        guard let wait = allowance?.wait(at: context.clock()), wait > 0 else { return 0 }
        return min(wait, idleMilliseconds())
    }

    private func idleMilliseconds() -> Int {
        guard delivery.hasBehind, hasRoomForFrames else { return quietMilliseconds() }
        return min(Int(max(catchUpResumes - context.monotonic(), 0)), quietMilliseconds())
    }

    private func quietMilliseconds() -> Int {
        if !requests.isEmpty { return Self.handOverRestMilliseconds }
        if delivery.hasAcknowledgements, gathered.isEmpty {
            return Int(Self.acknowledgeMilliseconds)
        }
        if isDraining { return 20 }
        let longest = hasBurst ? Self.burstRestMilliseconds : 1000
        guard let wake = delivery.nextWake else { return longest }
        let left = wake.millisecondsSince1970 - context.clock().millisecondsSince1970
        return min(Int(max(left, 0)), longest)
    }

    // MARK: Fanouts

    /// A turn of the fanouts in progress, as far as the ceiling lets them (FAN-7).
    private mutating func goOnWithFanouts() -> Bool {
        let now = context.clock()
        var allowed = Int.max
        if allowance != nil { allowed = delivery.fanoutCount > 0 ? allowance!.next(at: now) : 0 }
        let isBusy = delivery.step(
            budget: Self.looksPerTurn, sendsMax: Self.sendsPerTurn, deliveriesMax: allowed,
            now: now)
        let delivered = delivery.counters.fanoutDelivered
        allowance?.use(Int(delivered &- paidDeliveries))
        paidDeliveries = delivered
        // Whoever ended a fanout that others wait for has the next one begun (FAN-1).
        if context.committer.book.takeRoom() {
            transport.wake(context.committerAddress, value: 1)
        }
        return isBusy
    }

    /// Whether what is in progress is finished before a loop ends: below a ceiling it may take for
    /// ever, and what was stored comes from the mailboxes.
    private func waitsForFanouts(_ now: UInt32) -> Bool {
        allowance == nil || now &- drainBegan < Connection.closingSecondsMax
    }

    mutating func begin(_ fanout: Fanout) {
        guard delivery.concerns(fanout) else {
            delivery.skip(fanout)
            fanout.progress?.endPart(at: context.clock())
            return
        }
        guard delivery.fanoutCount < Delivery.fanoutsInProgressMax,
            hasRoomForFrames, !delivery.isCrowded(fanout.project), hasPlace(for: fanout)
        else {
            delivery.postpone(fanout)
            fanout.progress?.endPart(at: context.clock())
            return
        }
        let count = fanout.body.withUnsafeBytes { body in
            encodeDelivery(fanout.header, body, fanout.frameKind)
        }
        delivery.enqueue(fanout, byteCount: count, now: context.clock())
    }

    /// TTL-2: what is now or never takes no place from what is stored: of a project only so many are in
    /// progress here.
    private func hasPlace(for fanout: Fanout) -> Bool {
        let max = context.configuration.limits.fanoutsInProgressMax
        guard max > 0, !fanout.header.sequence.isStored, case .many = fanout.recipients else {
            return true
        }
        return delivery.fanoutCount(of: fanout.project) < 2 * max
    }

    /// Writes a DELIVER frame into what it reserves and returns its size.
    mutating func encodeDelivery(
        _ header: MessageHeader, _ body: UnsafeRawBufferPointer, _ kind: FrameKind
    ) -> Int {
        let count = DeliveryFrame.byteCount(header, bodyBytes: body.count)
        DeliveryFrame.write(header, body, into: delivery.reserve(count, kind))
        return count
    }

    // MARK: Sending

    /// Starts one send for each session that has something to send, as many as a turn has: half of
    /// them are for what is for one session alone. Where many devices have come, and some of them wait
    /// for their mailboxes, as many are sent to as were read for: the sessions that have something to
    /// send stand in the order in which they came, and so each of them gets its WELCOME and what it
    /// missed in one send.
    private mutating func sendReady(afterReading readCount: Int) {
        let isStorm = readCount >= Self.stormReadings && delivery.hasBehind
        var left = isStorm ? readCount : 2 * Self.sendsPerTurn
        while left > 0, let index = delivery.nextReady() {
            left -= 1
            let connection = connections + Int(index)
            guard isOccupied[Int(index)] else { continue }
            confirm(connection)
            guard connection.pointee.phase != .closed else { continue }
            if vectorsUsed + OutputBounds.vectorsPerSend > vectors.count { submitAndWait(0) }
            let free = UnsafeMutableBufferPointer(
                rebasing: vectors[vectorsUsed..<(vectorsUsed + OutputBounds.vectorsPerSend)])
            if let carriage = connection.pointee.carriage {
                send(connection, carriage, into: free)
                continue
            }
            let count = delivery.gather(index, into: free)
            connection.pointee.sendBegan = lastTick
            if count == 1 {
                transport.send(
                    connection.pointee.id,
                    UnsafeRawBufferPointer(start: free[0].iov_base, count: free[0].iov_len))
            } else {
                vectorsUsed += count
                transport.send(
                    connection.pointee.id, vectors: UnsafeBufferPointer(rebasing: free[..<count]))
            }
        }
    }

    mutating func submitAndWait(_ timeoutMilliseconds: Int) {
        do { try transport.submitAndWait(timeoutMicroseconds: timeoutMilliseconds * 1000) } catch {
            context.logger.error("a loop's ring failed", metadata: ["error": "\(error)"])
            usleep(100_000)
        }
        vectorsUsed = 0
    }

    // MARK: Handing over

    private mutating func handOverRequests() {
        guard !requests.isEmpty else { return }
        var batch: [Request] = []
        swap(&batch, &requests)
        switch context.committer.inbox.push(batch) {
        case .taken(let mustWake):
            if mustWake { transport.wake(context.committerAddress, value: 1) }
        case .full: refuse(batch, isFull: true)
        case .closed: refuse(batch, isFull: false)
        }
    }

    /// Whoever asked may ask again. What became of connections nobody tells a second time: it waits,
    /// first in its order, until the committer takes it.
    private mutating func refuse(_ batch: [Request], isFull: Bool) {
        let refusal = MartletError(
            .unavailable, "The broker has more to write than it can; try again.",
            retryDelayMilliseconds: 200)
        var kept: [Request] = []
        for request in batch {
            switch request.reply {
            case .connection(_, let id, let context):
                handle(.outcome(id, context, .refused(refusal)))
            case .acknowledging, .connected, .undoing: if isFull { kept.append(request) }
            case .caller, .counting: break
            }
        }
        requests.insert(contentsOf: kept, at: 0)
    }

    private mutating func handOverAcknowledgements() {
        guard delivery.hasAcknowledgements || delivery.hasSent else { return }
        let now = context.monotonic()
        let isDue: Bool
        if delivery.hasAcknowledgements {
            isDue = now - lastAcknowledged >= Self.acknowledgeMilliseconds
        } else {
            // Acknowledgements mostly follow and take it along; sent at once it would hold them up.
            let since = sentSince ?? now
            sentSince = since
            isDue = now - since >= Self.sentMilliseconds
        }
        guard isDraining || gathered.isEmpty && isDue else { return }
        lastAcknowledged = now
        requestAcknowledgement()
        handOverRequests()
    }

    /// What ended connections left behind, and what devices say they have taken when they connect.
    mutating func handOverUrgent() {
        guard delivery.hasUrgentAcknowledgements else { return }
        request(.acknowledge(delivery.takeUrgentAcknowledgements()))
    }

    /// STO-1: the store decides what a doze discards, with every acknowledgement that the loop has read.
    private mutating func decideDozes() {
        var next = delivery.nextOverfull()
        guard next != nil else { return }
        handOverWaiting()
        while let index = next {
            tellConnected(connections + Int(index))
            next = delivery.nextOverfull()
        }
        handOverRequests()
    }

    /// Everything, for what is asked next depends on it.
    mutating func handOverWaiting() {
        if delivery.hasAcknowledgements { requestAcknowledgement() }
    }

    /// The same where only what was sent matters.
    mutating func handOverSent() {
        if delivery.hasSent { requestAcknowledgement() }
    }

    private mutating func requestAcknowledgement() {
        sentSince = nil
        request(.acknowledge(delivery.takeAcknowledgements(), sent: delivery.takeSent()))
        gathered.insert(delivery.lastBatch)
    }

    private mutating func request(_ command: Command) {
        requests.append(
            Request(
                command: command,
                reply: .acknowledging(loop: context.number, batch: delivery.lastBatch)))
    }
}
