// SPDX-License-Identifier: Apache-2.0
//
// The events of the kernel: connections come, bytes come, sends end, connections end. The deadlines of
// connections are here too. Rests on Loop.

import Glibc
import Logging
import MartletBase
import MartletDelivery
import MartletEngine
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

extension Loop where Kernel: ~Copyable {
    mutating func handle(_ event: TransportEvent) {
        switch event {
        case .accepted(let id): accepted(id)
        case .received(let id, let bytes): received(id, bytes)
        case .sent(let id, let byteCount, let errno): sent(id, byteCount, errno)
        case .receiveEnded(let id, let errno): receiveEnded(id, errno)
        case .closed(let id): closed(id)
        case .woken: break
        case .acceptFailed(let errno):
            context.metrics.acceptFailures.add(1, ordering: .relaxed)
            context.logger.warning(
                "no connection can be accepted for now",
                metadata: [
                    "error": "\(String(cString: strerror(errno)))",
                    "connections": "\(transport.connectionCount)",
                ])
        }
    }

    private mutating func accepted(_ id: ConnectionID) {
        let connection = places.take(Connection(id: id, now: time.second))
        delivery.open(id.index)
        meet(connection, from: transport.acceptedOrigin)
    }

    /// Finds a connection; nil for an ended or closing connection.
    func connection(_ id: ConnectionID) -> UnsafeMutablePointer<Connection>? {
        let connection = places[id.index]
        guard places.isTaken(id.index), connection.pointee.id == id,
            connection.pointee.phase != .closed
        else { return nil }
        return connection
    }

    private mutating func received(_ id: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        guard let connection = connection(id), let bytes = behindProxyHeader(bytes, connection)
        else { return }
        memory.receivedCount &+= 1
        if connection.pointee.phase == .open { connection.pointee.since = time.second }
        if connection.pointee.phase == .lingering {
            linger(connection, over: bytes.count)
        } else if connection.pointee.isPaused {
            connection.pointee.keep(bytes)
            stopReadingIfFull(connection)
        } else {
            take(bytes, from: connection)
        }
        chargeUnfinished(connection)
    }

    /// Takes frames until the bytes are used up, or the connection must pause. NET-6: notes the beginning of an
    /// unfinished frame.
    private mutating func take(
        _ bytes: UnsafeRawBufferPointer, from connection: UnsafeMutablePointer<Connection>
    ) {
        var chunk = bytes
        var hasServed = false
        do {
            while connection.pointee.phase.isReading, !mustPause(connection),
                let frame = try connection.pointee.splitter.next(from: &chunk)
            {
                memory.servedBytes = frame.body.count
                hasServed = true
                let said = try ClientFrame.decode(type: frame.type, body: frame.body)
                if let shared = connection.pointee.shared {
                    try hear(consume said, shared, connection)
                } else {
                    try handle(consume said, of: connection)
                }
            }
        } catch {
            fail(connection, for: error)
        }
        if !connection.pointee.splitter.isInsideFrame {
            connection.pointee.frameSince = nil
        } else if hasServed || connection.pointee.frameSince == nil {
            connection.pointee.frameSince = time.second
        }
        if connection.pointee.phase.isReading, mustPause(connection) {
            connection.pointee.isPaused = true
            connection.pointee.keep(chunk)
            stopReadingIfFull(connection)
        }
    }

    /// Stops reading from a paused connection. A connection that awaits its WELCOME is still read from, up to a bound: the
    /// registration lasts a transaction, and the loop must notice an earlier end of the connection.
    private mutating func stopReadingIfFull(_ connection: UnsafeMutablePointer<Connection>) {
        if awaitsWelcome(connection),
            connection.pointee.backlogBytes <= Self.earlyBytesMax
        {
            return
        }
        transport.pauseReceive(connection.pointee.id)
    }

    private func mustPause(_ connection: UnsafeMutablePointer<Connection>) -> Bool {
        connection.pointee.isPaused || awaitsWelcome(connection)
            || connection.pointee.outstanding >= Connection.outstandingMax
            || Int(connection.pointee.requestBytes) >= Limits.requestBytesPerConnectionMax
            || queuedBytes(connection) >= queuedBytesMax(connection)
            || isCrowded(connection)
    }

    /// Resumes a paused connection after its requests were answered and its answers have left.
    mutating func resumeIfDrained(_ one: UnsafeMutablePointer<Connection>) {
        let connection = carrier(of: one)
        let id = connection.pointee.id
        guard connection.pointee.isPaused,
            connection.pointee.outstanding <= Connection.outstandingToResume,
            Int(connection.pointee.requestBytes) <= Limits.requestBytesPerConnectionMax / 2,
            queuedBytes(connection) <= queuedBytesMax(connection) / 4, !isCrowded(connection),
            !awaitsWelcome(connection)
        else { return }
        connection.pointee.isPaused = false
        // The peer could not send the rest of a frame meanwhile.
        if connection.pointee.frameSince != nil { connection.pointee.frameSince = time.second }
        if connection.pointee.phase == .open { connection.pointee.since = time.second }
        var backlog: [UInt8] = []
        swap(&backlog, &connection.pointee.backlog)
        backlog.withUnsafeBytes { take($0, from: connection) }
        chargeUnfinished(connection)
        guard connection.pointee.phase.isReading, !connection.pointee.isPaused else { return }
        if connection.pointee.endsWithBacklog {
            receiveEnded(id, 0)
        } else {
            transport.resumeReceive(id)
        }
    }

    private mutating func sent(_ id: ConnectionID, _ byteCount: Int, _ errno: Int32) {
        if let shared = places[id.index].pointee.shared {
            sent(shared, byteCount: byteCount)
        } else {
            delivery.sent(id.index, byteCount: byteCount)
            if byteCount > 0 { newcomerLeft(id.index) }
        }
        guard let connection = connection(id) else { return }
        if errno != 0 {
            close(connection)
        } else {
            resumeIfDrained(connection)
            if connection.pointee.receiptsWait, delivery.hasRoom(id.index) {
                connection.pointee.receiptsWait = false
                listeners.receiptsDue.append(id)
            }
            sendUpstream(to: connection.pointee.upstreamListener)
            closeIfDone(connection)
        }
    }

    private mutating func receiveEnded(_ id: ConnectionID, _ errno: Int32) {
        guard let connection = connection(id) else { return }
        connection.pointee.hasEnded = true
        if errno != 0 { noteSecureFailure(connection) }
        // The last frame is still on its way to the peer.
        if errno == 0, connection.pointee.phase == .closing { return }
        guard errno == 0, connection.pointee.phase == .open else {
            close(connection)
            return
        }
        guard !connection.pointee.isPaused else {
            connection.pointee.endsWithBacklog = true
            // Apps without an answer to their registration end now. The requests of other apps are still
            // answered.
            for app in connection.pointee.shared?.apps ?? []
            where places[app.place].pointee.phase == .awaitingWelcome {
                leave(places[app.place])
            }
            resumeIfDrained(connection)
            return
        }
        // After its last frame a peer may still wait for answers, but takes no more messages.
        connection.pointee.phase = .finishing
        connection.pointee.since = time.second
        delivery.detach(id.index, now: context.clock())
        leaveUpstream(connection)
        for app in connection.pointee.shared?.apps ?? []
        where places[app.place].pointee.phase.isReading {
            leave(places[app.place])
        }
        closeIfDone(connection)
    }

    private mutating func closed(_ id: ConnectionID) {
        guard places.isTaken(id.index) else { return }
        let connection = places[id.index]
        places.closingCount -= 1
        for app in connection.pointee.shared?.apps ?? [] { release(app.place) }
        delivery.close(id.index, now: context.clock())
        newcomerEnded(id.index)
        context.requestMemory.giveBack(connection.pointee.unfinished)
        silence.end(id.index)
        forget(id.index)
        stopListening(connection)
        leaveUpstream(connection)
        if case .sender(let project) = connection.pointee.principal {
            context.quotas.senderLeft(project)
            senders[id.index] = nil
        }
        places.free(id.index)
    }

    // MARK: Time

    /// Checks deadlines once a second: handshakes, silence, and sends that do not end. Both ends of a span are
    /// whole seconds, so a span of N counted seconds may be shorter by a part of a second. A deadline of N
    /// seconds is over when more than N seconds are counted: between N and N + 1 seconds after its beginning.
    mutating func tick(_ now: UInt32) {
        let configuration = context.configuration
        limits.take(context.committer.limits, loopCount: context.loopCount)
        listeners.receiptsDue += listeners.receiptsUnread
        listeners.receiptsUnread.removeAll()
        goOnWithUpstream()
        countReceives()
        sendConfirmations()
        endExpiredSenders()
        endHeldRefusals()
        if !hellos.held.isEmpty { lookAgain() }
        if context.number == 0, let tls = context.tls {
            certificateWatch.look(tls.current.validity, at: context.clock())
        }
        undoAgain()
        makeRoom()
        logStrangers(now)
        if !silence.unheard.isEmpty { forgetHeard() }
        askForAnotherDoor()
        for index in places.taken {
            let connection = places[index]
            let inPhase = now &- connection.pointee.since
            if isStuck(connection),
                now &- connection.pointee.sendBegan > Connection.sendSecondsMax
            {
                close(connection)
                continue
            }
            if silence.hasDoor { noteIfUnheard(connection) }
            if connection.pointee.isApp {
                tickApp(connection, now)
                continue
            }
            if isFrameLate(connection, now) {
                fail(
                    connection,
                    MartletError(
                        .deadlineExceeded,
                        "A frame did not come whole within \(configuration.frameSeconds) seconds."))
                chargeUnfinished(connection)
                continue
            }
            switch connection.pointee.phase {
            // The time of a connection begins when the transport reads from it.
            case .hello where transport.isUnread(connection.pointee.id):
                connection.pointee.since = now
            case .hello where inPhase > configuration.handshakeSeconds:
                fail(
                    connection,
                    MartletError(
                        .deadlineExceeded,
                        "No HELLO within \(configuration.handshakeSeconds) seconds."))
            case .open where inPhase > configuration.idleSeconds:
                fail(
                    connection,
                    MartletError(
                        .deadlineExceeded,
                        "Nothing was heard for \(configuration.idleSeconds) seconds; send PING."))
            case .open where isDeserted(connection, now):
                fail(
                    connection,
                    MartletError(
                        .deadlineExceeded,
                        "No app for \(configuration.handshakeSeconds) seconds."))
            case .open where connection.pointee.isSeenDue(now): tellConnected(connection)
            case .closing, .finishing:
                if inPhase >= Connection.closingSecondsMax { close(connection) }
            case .lingering where inPhase > Connection.lingerSecondsMax: close(connection)
            default: break
            }
        }
        freeFrames(now)
    }
}

extension Connection.Phase {
    /// Whether frames of the peer are taken.
    var isReading: Bool {
        switch self {
        case .hello, .awaitingWelcome, .open: true
        case .finishing, .closing, .lingering, .closed: false
        }
    }

    /// Whether the peer can still be sent frames.
    var isAlive: Bool {
        switch self {
        case .hello, .awaitingWelcome, .open, .finishing: true
        case .closing, .lingering, .closed: false
        }
    }
}
