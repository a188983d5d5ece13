// SPDX-License-Identifier: Apache-2.0
//
// A loop: a thread with its transport, its connections and its part of each fanout. A turn handles the events of the
// kernel and the messages of other threads, works through some blocks of fanouts, and hands all sends to the
// kernel in one call. The loop is a ~Copyable value on the stack of its thread, and no other thread sees the
// value. So no lock, reference count or check for exclusive access lies on the way of a message. Rests on
// Delivery and on the transport's interface.

import Glibc
import Logging
import MartletBase
import MartletBits
import MartletCommitter
import MartletCrypto
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import Synchronization

/// The context of a loop. `number`, `inbox`, `metrics` and `heartbeat` are the loop's own; all loops of a broker share the
/// rest.
struct LoopContext: Sendable {
    let number: Int
    let loopCount: Int
    let store: Store
    let requests: any RequestDesk
    let committer: Committer
    let committerAddress: TransportAddress
    let clock: @Sendable () -> Instant
    /// Monotonic clock in milliseconds, for timeouts.
    let monotonic: @Sendable () -> Int64
    let configuration: BrokerConfiguration
    let administratorKey: SecretDigest
    /// GW-11: the credential of the door to push services, in place of the device keys of its instances.
    let bridgeCredential: SecretDigest
    let senderCredentials: SenderCredentials
    /// nil: no port speaks TLS.
    let tls: TLSServer?
    let connectionNumbers: ConnectionNumbers
    /// FAN-7: the ceiling on deliveries; nil: no ceiling.
    let ceiling: DeliveryCeiling?
    let quotas: ProjectQuotas
    let requestMemory: RequestMemory
    let strangers: StrangerBook
    let refusalLog: RefusalLog
    let inbox: Inbox<LoopMessage>
    let metrics: LoopMetrics
    let heartbeat: Heartbeat
    let peers: Peers
    let logger: Logger
}

/// The state of a loop.
struct Loop<Kernel: Transport & ~Copyable>: ~Copyable {
    /// Sessions looked at in a turn before the kernel gets its sends. A look costs 10–20 ns, and a send 3–4 µs.
    static var looksPerTurn: Int { 16_384 }
    /// Sends of fanouts in a turn, handed to the kernel in one system call. Between two turns the loop hears of
    /// new messages. A session that still waits for its send gets the new messages with the old, so a burst in
    /// pieces costs hardly more than a burst at once.
    static var sendsPerTurn: Int { 256 }
    /// Cost of reading mailboxes in a turn while other projects have messages. A row read or a message queued
    /// costs a unit, about a microsecond. So live messages of other projects wait for mailboxes no longer than
    /// for the sends of a turn.
    static var catchUpCostPerTurn: Int { 256 }
    /// Cost of reading mailboxes in a turn while no other project has messages. The higher bound lets some
    /// fifty devices share the rows of a reading.
    static var catchUpCostPerTurnAlone: Int { 1024 }
    /// Fewest mailboxes read in a turn of a storm: devices come back faster than the loop can read their
    /// mailboxes.
    static var stormReadings: Int { 16 }
    /// Cost of the start of a reading: some searches.
    static var catchUpCostPerReading: Int { 4 }
    /// Shared rows and messages for the cost of a unit. After the first reading of the turn, a look and a
    /// reference to a frame cost some ten nanoseconds.
    static var catchUpSharedPerCost: Int { 16 }
    /// Queued bytes for the cost of a unit, because the kernel copies the bytes in the same turn.
    static var catchUpBytesPerCost: Int { 4096 }
    /// Messages that a reading looks at, for any recipient. The bound lets a mailbox with a long log share the
    /// turn with other mailboxes.
    static var mailboxRowsPerRead: Int { 256 }
    /// Milliseconds for which acknowledgements gather before the committer is told. Acknowledgements lost in a
    /// crash cost one more delivery, and the device drops the repeated message.
    static var acknowledgeMilliseconds: Int64 { 50 }
    /// REP-1: milliseconds for which counts of sent messages wait to be handed over together with
    /// acknowledgements.
    static var sentMilliseconds: Int64 { 1000 }
    /// Milliseconds after which requests are offered again to a full committer.
    static var handOverRestMilliseconds: Int { 10 }
    /// Waiting requests and acknowledgements past which new connections are refused, because the news of ended
    /// connections is kept. Single acknowledgements alone are fewer.
    static var waitingMax: Int { 2 * Delivery.singleAcknowledgementsMax }
    /// Milliseconds for which acknowledgements wait after a refusal by the store.
    static var storeRestMilliseconds: Int64 { 1000 }
    /// Milliseconds for which mailboxes are not read after the store could not be read.
    static var catchUpRestMilliseconds: Int64 { 100 }
    /// Milliseconds for which mailboxes are not read after a full turn, if other projects have messages.
    /// Meanwhile loops, committer and cores are free for the other projects.
    static var catchUpPauseMilliseconds: Int64 { 2 }

    let context: LoopContext
    var transport: Kernel
    var delivery: Delivery
    let connections: UnsafeMutablePointer<Connection>
    let connectionsMax: Int
    /// Places for connections, and behind them as many places for apps.
    let placesMax: Int
    /// Whether a place holds a connection or an app.
    let isOccupied: UnsafeMutablePointer<Bool>
    private let occupationTable: ZeroedTable<Bool>
    /// GW-9: by place, the beginning of each device's connection.
    let origins: UnsafeMutablePointer<DeviceOrigin>
    private let originTable: ZeroedTable<DeviceOrigin>
    var highestIndex = -1
    /// The places up to the last occupied place; empty without connections.
    var places: Range<Int> { 0..<(highestIndex + 1) }
    /// `placesChanged`: connections and apps that came or went. `receivedCount`: events with bytes. Both counts
    /// wrap.
    var placesChanged: UInt32 = 0
    var receivedCount: UInt32 = 0
    var release = ReleaseState()
    /// The free places for apps.
    var appPlaces: AppPlaces
    /// Places of apps after DETACHED. Some of the places may have been given back.
    var endedApps: [UInt32] = []
    let prefixes = ChannelPrefixes()
    /// Requests for the committer, handed over once a turn.
    var requests: [Request] = []
    /// TTL-2: `live` sends messages that are not stored. `liveForOthers` has the fanouts for the other loops,
    /// to be handed over once a turn.
    var live: LiveSender
    var liveForOthers: [Fanout] = []
    /// OPS-7: the bytes of `liveForOthers`, which bound a frame to other nodes.
    var liveBytesForOthers = 0
    /// Called for each message that is not stored, if an owner steps the loop.
    var observeLive: ((Command, Outcome) -> Void)?
    var writer = FrameWriter()
    /// Vectors of the sends since the last submission. The kernel reads the vectors at the next submission.
    let vectors: UnsafeMutableBufferPointer<iovec>
    var vectorsUsed = 0
    /// Beginning of the loop's clock, in milliseconds of the monotonic clock.
    private var began: Int64
    var lastTick: UInt32 = 0
    var lastAcknowledged: Int64 = 0
    /// When a count of sent messages began to wait for the committer; nil: no count waits.
    private var sentSince: Int64?
    /// Batches of acknowledgements at the committer. Meanwhile further acknowledgements gather in the loop, so
    /// devices cannot acknowledge faster than the committer writes. Urgent acknowledgements do not wait,
    /// because later commands depend on them.
    var gathered: Set<UInt64> = []
    /// REG-9: credentials of senders' connections, by the connection's place.
    var senders: [UInt32: SenderCredential] = [:]
    /// NET-11: devices that have been silent since a message, by place. They are noted once a door to push services has
    /// asked for them.
    var unheard: [UInt32: Unheard] = [:]
    var hasDoor = false
    /// NET-6: connections without a credential, by place.
    var strangers: [UInt32: Stranger] = [:]
    /// The strangers by their addresses: some of them end when places are scarce.
    var arrivals = PeersByAddress<ConnectionID>()
    /// Connections that the transport is closing, with places that are free soon.
    var closingCount = 0
    var strangerLog = StrangerLog()
    /// TLS handshakes ended for their silence, as far as the log knows.
    var crowdedOutTold: UInt64 = 0
    /// REG-7: tickets to be verified, and how many this turn may still verify.
    var waitingTickets = AddressTurns<WaitingTicket>()
    var ticketsLeft = 0
    /// OPS-7: HELLOs that a newer store may accept.
    var helloHeld: [HeldHello] = []
    /// OPS-7: whether some of them need not wait.
    var mustLookAgain = false
    /// Whether `takeMessages` is under way, and has perhaps more messages to handle.
    var isTakingMessages = false
    /// OPS-7: the second before which HELLOs of devices are held, because the loop was away.
    var returnEnds: UInt32 = 0
    /// Sends of the last turn, and whether the loop waits for more arrivals after them.
    private(set) var turnSends = 0
    var arrivalWaits = ArrivalWaits()
    /// Milliseconds since the loop began, at its last turn.
    private var lastTurn: Int64 = 0
    /// REG-10: refusals that wait, in the order of their ends.
    var heldRefusals: [HeldRefusal] = []
    /// OPS-6: looks at the certificate of the port. One loop of a broker has a use for the watch.
    var certificateWatch: CertificateWatch
    /// `newcomers`: instances registered by this loop, with unsent tokens, by the connection's place.
    /// `notUndone`: instances with an unsent token that the store could not unregister.
    var newcomers: [UInt32: Newcomer] = [:]
    var notUndone: [Newcomer] = []
    /// RCP-1: `listening` has the listening senders of each project. `receiptsDue` has the listeners with
    /// possibly new receipts.
    var listening: [ProjectNumber: [ConnectionID]] = [:]
    var receiptsDue: [ConnectionID] = []
    /// Senders whose receipts could not be read. The next tick tries again.
    var receiptsUnread: [ConnectionID] = []
    /// UPS-1: listening senders, by listener number.
    var upstreamListeners: [UInt64: UpstreamListener] = [:]
    /// FAN-7: `allowance` is the loop's part of the ceiling. `paidDeliveries` counts the deliveries taken from
    /// the part.
    var allowance: DeliveryAllowance?
    var paidDeliveries: UInt64 = 0
    /// Bytes of the frame in service.
    var servedBytes = 0
    /// Bytes of all frames at the last measurement of each project's frames.
    var measuredFrameBytes = 0
    /// When mailboxes are read again, in milliseconds of the monotonic clock.
    var catchUpResumes: Int64 = 0
    /// OPS-11: the limits that the loop uses itself, and the number of changes that they have.
    var frameBounds: FrameBounds
    private var fanoutsInProgressMax: Int
    private var limitChangeCount: UInt64 = 0
    var isDraining = false
    /// OPS-7: whether the node is drained.
    var isResting = false
    /// OPS-7: whether connections of a drained node have still to end.
    var isEmptying = false
    var drainBegan: UInt32 = 0
    /// When the loop stops waiting for peers to read the last frames, in milliseconds of the monotonic clock.
    var drainLingerUntil: Int64 = 0

    init(context: LoopContext, transport: consuming Kernel, connectionsMax: Int) {
        self.context = context
        certificateWatch = CertificateWatch("tls-certificate", context.logger)
        self.transport = transport
        self.connectionsMax = connectionsMax
        placesMax = 2 * connectionsMax
        delivery = Delivery(
            capacity: placesMax, limits: context.configuration.limits)
        connections = .allocate(capacity: placesMax)
        occupationTable = ZeroedTable(capacity: placesMax)
        isOccupied = occupationTable.base
        originTable = ZeroedTable(capacity: placesMax)
        origins = originTable.base
        appPlaces = AppPlaces(from: connectionsMax, to: placesMax)
        vectors = .allocate(capacity: OutputBounds.vectorsPerSend * 256)
        live = LiveSender(context.committer.liveSending)
        began = context.monotonic()
        allowance = context.ceiling.map { DeliveryAllowance($0) }
        let limits = context.committer.limits.value
        frameBounds = FrameBounds(limits, loopCount: context.loopCount)
        fanoutsInProgressMax = limits.fanoutsInProgressMax
    }

    deinit {
        for index in 0..<placesMax where isOccupied[index] {
            (connections + index).deinitialize(count: 1)
        }
        connections.deallocate()
        vectors.deallocate()
    }

    /// OPS-11: takes changed limits over, once a second.
    mutating func takeLimits() {
        let count = context.committer.limits.changeCount
        guard count != limitChangeCount else { return }
        limitChangeCount = count
        let limits = context.committer.limits.value
        frameBounds = FrameBounds(limits, loopCount: context.loopCount)
        fanoutsInProgressMax = limits.fanoutsInProgressMax
    }

    /// Seconds since the loop began.
    var seconds: UInt32 { UInt32((context.monotonic() - began) / 1000) }

    /// Runs turns until the loop has drained.
    mutating func run() {
        repeat {
            let wait = waitMilliseconds()
            context.heartbeat.rest(milliseconds: wait)
            submitAndWait(wait)
            context.heartbeat.beat()
            awaitArrivals()
        } while !turn()
        context.heartbeat.end()
    }

    /// Does all work between two waits.
    /// - Returns: whether the loop has drained.
    mutating func turn() -> Bool {
        // The time is read before the events, so no deadline counts time before the start of its connection.
        var turn = context.monotonic() - began
        let away = turn - lastTurn
        if away > Self.awayMilliseconds {
            // NET-11: what peers sent meanwhile waits in the kernel, so the loop's clock stood still but for the second
            // of a tick.
            began += away - 1000
            turn = lastTurn + 1000
            returnEnds = UInt32(turn / 1000) &+ Self.returnSeconds
        }
        let now = UInt32(turn / 1000)
        let isTickDue = now != lastTick
        lastTurn = turn
        lastTick = now
        goOnWithTickets()
        while let event = transport.nextEvent() {
            handle(event)
            // The peer may know of the end of an app, and want the place in the next event of this turn.
            if !endedApps.isEmpty { releaseApps() }
        }
        if mustLookAgain { lookAgain() }
        if hasBurst || hasSpareBuffers { releaseMemory() }
        takeMessages()
        if !liveForOthers.isEmpty { handOverLive() }
        if !requests.isEmpty {
            handOverRequests()
            // The committer is woken before the sends of the turn. On another core the committer works
            // meanwhile. On this core the outcomes are mostly here at once, so messages that came together also
            // leave together.
            submitAndWait(0)
            takeMessages()
            // A request that waited for an outcome may have sent a message.
            if !liveForOthers.isEmpty { handOverLive() }
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
        if isEmptying || isResting && isTickDue { goOnEmptying(now) }
        context.metrics.record(
            delivery.counters, connections: transport.connectionCount,
            frameBytes: delivery.frameBytes, sealedBytes: transport.heldBytes)
        return isDraining && (!isBusy || !waitsForFanouts(now)) && goOnDraining(now)
    }

    /// Handles the messages of other threads. Held HELLOs are looked at after the last message.
    mutating func takeMessages() {
        isTakingMessages = true
        for message in context.inbox.drain() { handle(message) }
        isTakingMessages = false
        if mustLookAgain { lookAgain() }
    }

    mutating func waitMilliseconds() -> Int {
        if mustLookAgain { return 0 }
        if delivery.readyCount > 0 || !receiptsDue.isEmpty || !waitingTickets.isEmpty { return 0 }
        guard delivery.fanoutCount > 0 else { return idleMilliseconds() }
        // Fanouts wait for the ceiling alone.
        guard let wait = allowance?.wait(at: context.clock()), wait > 0 else { return 0 }
        return min(wait, idleMilliseconds())
    }

    private func idleMilliseconds() -> Int {
        guard delivery.hasDueReadings, hasRoomForFrames else { return quietMilliseconds() }
        return min(Int(max(catchUpResumes - context.monotonic(), 0)), quietMilliseconds())
    }

    private func quietMilliseconds() -> Int {
        if !requests.isEmpty { return Self.handOverRestMilliseconds }
        if delivery.hasAcknowledgements, gathered.isEmpty {
            return Int(Self.acknowledgeMilliseconds)
        }
        if isDraining || isEmptying { return 20 }
        let longest = hasBurst ? Self.burstRestMilliseconds : 1000
        guard let wake = delivery.nextWake else { return longest }
        let left = wake.millisecondsSince1970 - context.clock().millisecondsSince1970
        return min(Int(max(left, 0)), longest)
    }

    // MARK: Fanouts

    /// FAN-7: runs a turn of the fanouts in progress, as far as the ceiling allows.
    /// - Returns: whether fanouts are still in progress.
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
        // FAN-1: the loop wakes the committer if the end of a fanout lets a deferred message begin.
        if context.committer.book.takeRoom() {
            transport.wake(context.committerAddress, value: 1)
        }
        return isBusy
    }

    /// Whether a draining loop waits for the fanouts in progress. With a ceiling the fanouts may take for ever,
    /// so the loop waits only some seconds: stored messages come from the mailboxes.
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

    /// TTL-2: whether a fanout may begin. Stored fanouts take no place from a now-or-never fanout. A loop refuses
    /// senders at the limit itself (`sendLive`). The bound here is twice the limit, because an accepted message has
    /// a fanout for each variant, and because other loops accept messages too.
    private func hasPlace(for fanout: Fanout) -> Bool {
        let max = fanoutsInProgressMax
        guard max > 0, !fanout.header.sequence.isStored, case .many = fanout.recipients else {
            return true
        }
        return delivery.nowOrNeverCount(of: fanout.project) < 2 * max
    }

    /// Writes a DELIVER frame into reserved memory.
    /// - Returns: the size of the frame in bytes.
    mutating func encodeDelivery(
        _ header: MessageHeader, _ body: UnsafeRawBufferPointer, _ kind: FrameKind
    ) -> Int {
        let count = DeliveryFrame.byteCount(header, bodyBytes: body.count)
        DeliveryFrame.write(header, body, into: delivery.reserve(count, kind))
        return count
    }

    // MARK: Sending

    /// Starts sends for sessions with bytes to send, twice `sendsPerTurn` at most: half of the sends are for
    /// messages to single sessions. If many devices have come back and some wait for a mailbox, the turn has as
    /// many sends as mailboxes were read. Ready sessions are served in the order of arrival, so each session
    /// gets WELCOME and its missed messages in one send. Over TLS the sealed bytes of a turn are bounded too.
    private mutating func sendReady(afterReading readCount: Int) {
        let isStorm = readCount >= Self.stormReadings && delivery.hasDueReadings
        let most = isStorm ? readCount : 2 * Self.sendsPerTurn
        var left = most
        defer { turnSends = most - left }
        while left > 0, !transport.mustSubmit, let index = delivery.nextReady() {
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
            context.logger.error("a loop's transport failed", metadata: ["error": "\(error)"])
            SystemClock.pause(microseconds: 100_000)
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

    /// Handles a batch refused by the committer. Peers get an error and may ask again. News of connections is
    /// told only once, so the loop keeps the news, before later requests, until the committer has room.
    private mutating func refuse(_ batch: [Request], isFull: Bool) {
        let refusal = MartletError(
            .unavailable, "The broker has more to write than it can; try again.",
            retryDelayMilliseconds: 200)
        var kept: [Request] = []
        for request in batch {
            switch request.reply {
            case .connection(_, let id, let purpose):
                context.committer.noteRefusal(of: request.command, refusal)
                handle(.outcome(id, purpose, .refused(refusal)))
            case .acknowledging, .connected, .undoing: if isFull { kept.append(request) }
            case .caller, .counting, .node: break
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
            // Acknowledgements mostly follow and take the counts along. A batch for the counts alone would hold
            // the acknowledgements up.
            let since = sentSince ?? now
            sentSince = since
            isDue = now - since >= Self.sentMilliseconds
        }
        guard isDraining || gathered.isEmpty && isDue else { return }
        lastAcknowledged = now
        requestAcknowledgement()
        handOverRequests()
    }

    /// Hands over the acknowledgements of ended connections, and the lists of taken messages in HELLO.
    mutating func handOverUrgent() {
        guard delivery.hasUrgentAcknowledgements else { return }
        request(.acknowledge(delivery.takeQueuedAcknowledgements()))
    }

    /// STO-1: has the store decide on the discards of a doze, after all acknowledgements known to the loop.
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

    /// Hands over all acknowledgements, because the next command depends on them.
    mutating func handOverWaiting() {
        if delivery.hasAcknowledgements { requestAcknowledgement() }
    }

    /// Hands over the counts of sent messages, because the next command depends on them.
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
