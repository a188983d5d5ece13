// SPDX-License-Identifier: Apache-2.0
//
// A loop: a thread with its transport, its connections and its part of each fanout. A turn handles the events of the
// kernel and the messages of other threads, works through some blocks of fanouts, and hands all sends to the
// kernel in one call. The loop is a ~Copyable value on the stack of its thread, and no other thread sees the
// value. So no lock, reference count or check for exclusive access lies on the way of a message to a device. Rests on
// Delivery and on the transport's interface.

import Glibc
import Logging
import MartletBase
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
    let requests: any RequestHandler
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

/// The state of a loop, in values with a job each. They lie in the loop and are changed in place, so shape costs nothing.
struct Loop<Kernel: Transport & ~Copyable>: ~Copyable {
    let context: LoopContext
    var transport: Kernel
    var delivery: Delivery
    var places: Places
    var time: LoopTime
    var pace: Pace
    var ending = Ending()
    var limits: LoopLimits
    var memory = LoopMemory()
    var output = LoopOutput()
    var handOver = HandOver()
    var nowOrNever: NowOrNeverOutbox
    var strangers = Strangers()
    var heldRefusals: [HeldRefusal] = []
    var tickets = Tickets()
    var hellos = HeldHellos()
    var newcomers = Newcomers()
    /// REG-9: credentials of senders' connections, by the connection's place.
    var senders: [UInt32: SenderCredential] = [:]
    var listeners = Listeners()
    var silence = Silence()
    /// OPS-6: looks at the certificate of the port. One loop of a broker has a use for the watch.
    var certificateWatch: CertificateWatch

    init(context: LoopContext, transport: consuming Kernel, connectionsMax: Int) {
        self.context = context
        self.transport = transport
        places = Places(connectionsMax: connectionsMax)
        delivery = Delivery(capacity: places.count, limits: context.configuration.limits)
        time = LoopTime(monotonic: context.monotonic())
        pace = Pace(context.ceiling)
        limits = LoopLimits(context.committer.limits.value, loopCount: context.loopCount)
        nowOrNever = NowOrNeverOutbox(sender: NowOrNeverSender(context.committer.nowOrNeverSending))
        certificateWatch = CertificateWatch("tls-certificate", context.logger)
    }

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
        let isTickDue = time.beginTurn(at: context.monotonic())
        let now = time.second
        goOnWithTickets()
        while let event = transport.nextEvent() {
            handle(event)
            // The peer may know of the end of an app, and want the place in the next event of this turn.
            if !places.endedApps.isEmpty { releaseApps() }
        }
        if hellos.mustLookAgain { lookAgain() }
        if hasBurst || hasSpareBuffers { releaseMemory() }
        takeMessages()
        if !nowOrNever.forOthers.isEmpty { handOverNowOrNever() }
        if !handOver.requests.isEmpty {
            handOverRequests()
            // The committer is woken before the sends of the turn. On another core the committer works
            // meanwhile. On this core the outcomes are mostly here at once, so messages that came together also
            // leave together.
            submitAndWait(0)
            takeMessages()
            // A request that waited for an outcome may have sent a message.
            if !nowOrNever.forOthers.isEmpty { handOverNowOrNever() }
        }
        let isBusy = goOnWithFanouts()
        let readCount = catchUp()
        decideDozes()
        sendReceipts()
        if needsMeasuring { _ = measureFrames() }
        sendReady(afterReading: readCount)
        handOverAcknowledgements()
        if !places.endedApps.isEmpty { releaseApps() }
        if isTickDue { tick(now) }
        if ending.isEmptying || ending.isResting && isTickDue { goOnEmptying(now) }
        context.metrics.record(
            delivery.counters, connections: transport.connectionCount,
            frameBytes: delivery.frameBytes, sealedBytes: transport.heldBytes)
        return ending.isDraining && (!isBusy || !waitsForFanouts(now)) && goOnDraining(now)
    }

    /// Handles the messages of other threads. Held HELLOs are looked at after the last message.
    mutating func takeMessages() {
        handleMessages()
        if hellos.mustLookAgain { lookAgain() }
    }

    mutating func handleMessages() {
        hellos.isTakingMessages = true
        for message in context.inbox.drain() { handle(message) }
        hellos.isTakingMessages = false
    }

    mutating func waitMilliseconds() -> Int {
        if hellos.mustLookAgain { return 0 }
        if delivery.readyCount > 0 || !listeners.receiptsDue.isEmpty || !tickets.waiting.isEmpty {
            return 0
        }
        guard delivery.fanoutCount > 0 else { return idleMilliseconds() }
        // Fanouts wait for the ceiling alone.
        guard pace.hasCeiling, let wait = pace.wait(at: context.clock()), wait > 0 else { return 0 }
        return min(wait, idleMilliseconds())
    }

    private func idleMilliseconds() -> Int {
        guard delivery.hasDueReadings, hasRoomForFrames else { return quietMilliseconds() }
        return min(Int(max(pace.catchUpResumes - context.monotonic(), 0)), quietMilliseconds())
    }

    private func quietMilliseconds() -> Int {
        if !handOver.requests.isEmpty { return HandOver.restMilliseconds }
        if delivery.hasAcknowledgements, handOver.isFree {
            return Int(HandOver.acknowledgeMilliseconds)
        }
        if ending.isDraining || ending.isEmptying { return 20 }
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
        let allowed = pace.deliveriesMax(fanoutCount: delivery.fanoutCount, at: now)
        let isBusy = delivery.step(
            budget: Pace.looksPerTurn, sendsMax: Pace.sendsPerTurn, deliveriesMax: allowed,
            now: now)
        pace.pay(upTo: delivery.counters.fanoutDelivered)
        // FAN-1: the loop wakes the committer if the end of a fanout lets a deferred message begin.
        if context.committer.book.takeRoom() {
            transport.wake(context.committerAddress, value: 1)
        }
        return isBusy
    }

    /// Whether a draining loop waits for the fanouts in progress. With a ceiling the fanouts may take for ever,
    /// so the loop waits only some seconds: stored messages come from the mailboxes.
    private func waitsForFanouts(_ now: UInt32) -> Bool {
        !pace.hasCeiling || !ending.isLate(now)
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
    /// senders at the limit itself (`sendNowOrNever`). The bound here is twice the limit, because an accepted message has
    /// a fanout for each variant, and because other loops accept messages too.
    private func hasPlace(for fanout: Fanout) -> Bool {
        let max = limits.fanoutsInProgressMax
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
        let isStorm = readCount >= Pace.stormReadings && delivery.hasDueReadings
        let most = isStorm ? readCount : 2 * Pace.sendsPerTurn
        var left = most
        defer { pace.turnSends = most - left }
        while left > 0, !transport.mustSubmit, let index = delivery.nextReady() {
            left -= 1
            guard places.isTaken(index) else { continue }
            let connection = places[index]
            confirm(connection)
            guard connection.pointee.phase != .closed else { continue }
            if !output.hasFreeVectors { submitAndWait(0) }
            let free = output.freeVectors
            if let shared = connection.pointee.shared {
                send(connection, shared, into: free)
                continue
            }
            let count = delivery.gather(index, into: free)
            connection.pointee.sendBegan = time.second
            if count == 1 {
                transport.send(
                    connection.pointee.id,
                    UnsafeRawBufferPointer(start: free[0].iov_base, count: free[0].iov_len))
            } else {
                output.use(count)
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
        output.submitted()
    }
}
