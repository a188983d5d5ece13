// SPDX-License-Identifier: Apache-2.0
//
// The TLS layer between a loop and its transport (OPS-6). The loop sees plain bytes and the events of any other connection;
// the kernel sees records. Frames stay shared in the loop's arena until a send: then the pieces of the send are sealed into a
// stage of this connection, which lives until the kernel has taken its bytes. Received records are opened in the kernel's
// receive buffer. A connection of a plain port passes through with one branch.
//
//     Loop ──send: plain pieces──► seal ──► stage ──► kernel        one send of the loop, one `.sent`
//     Loop ◄──.received: plain──── open in place ◄─── kernel        one `.received` per record
//
// Handshakes take their steps between the events of a turn, a bounded number each turn. Rests on MartletCrypto.

import Glibc
import MartletBase
import MartletBits
import MartletCrypto
import MartletThreads
import MartletTransport
import Synchronization

/// A transport whose connections speak TLS, if its listener says so.
struct SecureTransport<Kernel: Transport & ~Copyable>: ~Copyable, Transport {
    // The order matters for destruction: the kernel must end before the memory of sends.
    var kernel: Kernel
    var stages = StagingPool()
    var records = TLSRecordLayer()
    let sessions: TLSSessionTable
    private let linkTable: ZeroedTable<SecureLink>
    let links: UnsafeMutablePointer<SecureLink>
    private let linksMax: Int
    /// nil: all connections are plain.
    let server: TLSServer?
    /// The protection of each listener's connections, in the order of `listen`.
    private let securities: [BrokerConfiguration.Listener.Security]
    let counters: SecureCounters
    /// Milliseconds of a monotonic clock.
    let monotonic: @Sendable () -> Int64

    /// Events for the loop that no completion of the kernel brings.
    var told: [TransportEvent] = []
    /// The rest of a received chunk, and its connection.
    var chunk: (id: ConnectionID, bytes: UnsafeMutableRawBufferPointer)?
    /// Memory of a chunk that came with a handshake's last bytes.
    var chunkOwned: UnsafeMutableRawBufferPointer?
    /// Handshakes with received bytes. Each address has its turn.
    var steps = AddressTurns<ConnectionID>()
    /// Steps left in this turn.
    var stepsLeft = SecureBounds.handshakeStepsPerTurn
    var handshakes = HandshakePlaces(
        placesMax: SecureBounds.handshakesMax,
        silentMillisecondsMax: SecureBounds.silentMillisecondsMax)
    /// Sealed bytes since the last submission.
    var batchBytes = 0
    /// Verified certificates of clients.
    var certificates: [UInt32: VerifiedCertificate] = [:]
    /// Reasons of failures until the loop asks, by the number of the connection.
    var failures: [UInt32: String] = [:]

    init(
        _ kernel: consuming Kernel, _ server: TLSServer?,
        securities: [BrokerConfiguration.Listener.Security], connectionsMax: Int,
        counters: SecureCounters = SecureCounters(), monotonic: @escaping @Sendable () -> Int64
    ) {
        self.kernel = kernel
        self.server = securities.contains(.tls) ? server : nil
        self.securities = securities
        linksMax = self.server == nil ? 0 : connectionsMax
        sessions = TLSSessionTable(capacity: linksMax)
        linkTable = ZeroedTable(capacity: linksMax)
        links = linkTable.base
        self.counters = counters
        self.monotonic = monotonic
    }

    deinit {
        chunkOwned?.deallocate()
        for index in 0..<linksMax where links[index].phase != .plain {
            if links[index].hasSession { records.end(sessions[UInt32(index)]) }
            UnsafeMutableRawPointer(links[index].inFlight)?.deallocate()
            UnsafeMutableRawPointer(links[index].next)?.deallocate()
            (links + index).deinitialize(count: 1)
        }
    }

    /// The link of a connection of a TLS port; nil for other connections and other generations.
    @inline(__always)
    func link(_ id: ConnectionID) -> UnsafeMutablePointer<SecureLink>? {
        guard Int(id.index) < linksMax else { return nil }
        let link = links + Int(id.index)
        guard link.pointee.phase != .plain, link.pointee.generation == id.generation else {
            return nil
        }
        return link
    }

    // MARK: The turn of a loop

    mutating func nextEvent() -> TransportEvent? {
        guard server != nil else { return kernel.nextEvent() }
        while true {
            if !told.isEmpty { return told.removeFirst() }
            if let event = openChunk() { return event }
            if let event = kernel.nextEvent() {
                if let event = handle(event) { return event }
            } else if let event = takeStep() {
                return event
            } else if told.isEmpty, chunk == nil {
                if handshakes.hasWaiting { readWaiting() }
                if told.isEmpty { return nil }
            }
        }
    }

    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {
        stepsLeft = SecureBounds.handshakeStepsPerTurn
        batchBytes = 0
        var timeout = timeoutMicroseconds
        if !told.isEmpty || !steps.isEmpty {
            timeout = 0
        } else if handshakes.hasWaiting {
            timeout = min(timeout ?? .max, SecureBounds.waitingMicrosecondsMax)
        }
        try kernel.submitAndWait(timeoutMicroseconds: timeout)
    }

    private mutating func handle(_ event: TransportEvent) -> TransportEvent? {
        switch event {
        case .accepted(let id):
            guard securities[kernel.acceptedOrigin.listener] == .tls else { return event }
            accepted(id, from: kernel.acceptedOrigin.address.network)
            return event
        case .received(let id, let bytes):
            guard let link = link(id) else { return event }
            return received(id, link, bytes)
        case .receiveEnded(let id, let errno):
            guard let link = link(id) else { return event }
            return receiveEnded(id, link, errno)
        case .sent(let id, let byteCount, let errno):
            guard let link = link(id) else { return event }
            return sent(id, link, byteCount, errno)
        case .closed(let id):
            if let link = link(id) { vacate(id, link) }
            return event
        case .woken, .acceptFailed: return event
        }
    }

    private mutating func vacate(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        if let stage = link.pointee.inFlight { stages.giveBack(stage) }
        if let stage = link.pointee.next { stages.giveBack(stage) }
        if link.pointee.hasSession { records.end(sessions[id.index]) }
        endOpening(id, link)
        if !certificates.isEmpty { certificates[id.index] = nil }
        if !failures.isEmpty { failures[id.index] = nil }
        link.deinitialize(count: 1)
        link.initialize(to: SecureLink())
    }

    // MARK: What the loop asks

    mutating func pauseReceive(_ connection: ConnectionID) {
        if let link = link(connection) { link.pointee.isPaused = true }
        kernel.pauseReceive(connection)
    }

    mutating func resumeReceive(_ connection: ConnectionID) {
        if let link = link(connection) {
            link.pointee.isPaused = false
            // After close_notify nothing is read (RFC 8446 §6.1).
            guard link.pointee.phase != .ended, link.pointee.phase != .unread, !link.pointee.isFull
            else { return }
        }
        kernel.resumeReceive(connection)
    }

    mutating func endSending(_ connection: ConnectionID) {
        guard let link = link(connection) else { return kernel.endSending(connection) }
        guard !link.pointee.endsSending else { return }
        link.pointee.endsSending = true
        if link.pointee.hasSession {
            sealAlert(connection, link)
        } else {
            link.pointee.phase = .ended
            endOpening(connection, link)
        }
        if link.pointee.inFlight == nil { kernel.endSending(connection) }
    }

    /// Ends the connection. A last alert leaves, if it leaves at once: the kernel tries the send before the
    /// cancellation that follows in the same submission.
    mutating func close(_ connection: ConnectionID) {
        if let link = link(connection) {
            if link.pointee.hasSession, link.pointee.phase != .closing,
                link.pointee.inFlight == nil
            {
                sealAlert(connection, link)
            }
            link.pointee.phase = .closing
            endOpening(connection, link)
        }
        kernel.close(connection)
    }

    mutating func releaseMemory() {
        stages.releaseMemory()
        kernel.releaseMemory()
    }

    mutating func stopAccepting() { kernel.stopAccepting() }
    var connectionCount: Int { kernel.connectionCount }
    var hasArrivals: Bool { kernel.hasArrivals }
    var arrivalCount: UInt32 { kernel.arrivalCount }
    var acceptedOrigin: ConnectionOrigin { kernel.acceptedOrigin }
    var address: TransportAddress { kernel.address }
    mutating func wake(_ other: TransportAddress, value: UInt64) {
        kernel.wake(other, value: value)
    }
    mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 {
        try kernel.listen(address: address, port: port)
    }

    var heldBytes: Int { stages.usedBytes }

    @inline(__always)
    var mustSubmit: Bool { batchBytes >= SecureBounds.batchBytesMax }

    func keptBytes(of connection: ConnectionID) -> Int {
        guard let link = link(connection) else { return 0 }
        guard link.pointee.hasSession else { return link.pointee.opening?.firstRecord.count ?? 0 }
        return sessions[connection.index].pointee.keptBytes
    }

    /// Whether the connection has not had a turn yet.
    func isUnread(_ connection: ConnectionID) -> Bool {
        guard let link = link(connection) else { return false }
        return link.pointee.phase == .unread && link.pointee.opening?.wasRead == false
    }

    func verifiedCertificate(of connection: ConnectionID) -> VerifiedCertificate? {
        link(connection) == nil ? nil : certificates[connection.index]
    }
    mutating func takeFailure(of connection: ConnectionID) -> String? {
        failures.isEmpty ? nil : failures.removeValue(forKey: connection.index)
    }

}

/// OPS-6, NET-6: the bounds of TLS in a loop.
enum SecureBounds {
    /// Handshake steps in a turn: some 230 µs each, so that other connections wait half a millisecond at most.
    static let handshakeStepsPerTurn = 2
    /// Handshakes in progress. OpenSSL holds some 50 KB for each, so all have 50 MB. A core makes some 4000 handshakes a
    /// second, so peers a quarter of a second away keep it busy. At the bound newcomers wait unread.
    static let handshakesMax = 1024
    /// Silence of a peer in its handshake after which others get its place, in milliseconds. A lost packet is sent again
    /// after one second, after two more and after four more.
    static let silentMillisecondsMax: Int64 = 7500
    /// Time after which the places are looked at again while connections wait, in microseconds.
    static let waitingMicrosecondsMax = 50_000
    /// Received bytes that wait for a handshake's step, past which the connection is read from later.
    static let handshakeBytesMax = 64 * 1024
    /// Plain bytes of a send: four records. The loop sends the rest when the kernel has taken these.
    static let sendBytesMax = 64 * 1024
    /// Sealed bytes past which the loop submits before it seals more. A stage that is free again is written while its
    /// bytes are still in the processor's second cache (1 MiB), where the kernel finds them too.
    static let batchBytesMax = 256 * 1024
    /// Sealed bytes of all sends past which a send has one short record, so that readers that stopped hold little.
    static let stagedBytesMax = 64 << 20
    static let sendBytesWhenFull = 4 * 1024
}
