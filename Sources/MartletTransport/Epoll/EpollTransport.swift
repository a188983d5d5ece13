// SPDX-License-Identifier: Apache-2.0
//
// The transport on epoll, for kernels and containers without io_uring. Connections are sockets that do not block, each
// registered once with edges for every change. A turn has a queue of connections with work:
//
//     submitAndWait: epoll_wait marks sockets readable or writable, and queues them
//     nextEvent:     takes the connections that were queued at the wait; each tells a send, receives once, or ends
//     send:          one sendmsg at once; the outcome is queued for the next turn
//
// All connections share one receive buffer, so idle connections hold none. A connection with bytes left after its
// receive waits in the queue for the next turn: the events of a turn are bounded, however fast peers send. A send
// that the socket does not take waits until the socket has room (`StuckSend`), and a send that the socket takes in
// part is told as a short send. A connection has at most one send in flight.
//
// The transport is a non-copyable struct over tables allocated at creation: no operation and no event allocates,
// counts a reference or passes a dynamic exclusivity check, except for sends that wait. Rests on EpollDescriptor and
// SocketTable.

internal import Glibc
public import MartletBase

/// Connections over one epoll instance, used by one thread.
public struct EpollTransport: ~Copyable, SocketTransport {
    var epoll: EpollDescriptor
    var table: SocketTable
    let buffer: UnsafeMutableRawBufferPointer
    let event: EventDescriptor
    let configuration: EpollConfiguration

    /// The largest number of connections: the configured number, clamped to the limit of open descriptors
    /// (RLIMIT_NOFILE) less the descriptors reserved for files and other sockets of the process.
    public let connectionsMax: Int
    /// The number of connections between `.accepted` and `.closed`, at most `connectionsMax`.
    public internal(set) var connectionCount = 0
    public private(set) var hasArrivals = false
    public private(set) var arrivalCount: UInt32 = 0
    /// The origin of the connection of the last `.accepted`.
    public internal(set) var acceptedOrigin = ConnectionOrigin(address: .loopback, listener: 0)

    /// Connections of the queue that belong to this turn.
    var dueCount = 0
    /// The connection whose send was told last, and whose receive comes next.
    var toReceive = SocketSlot.noIndex
    var isWakeDue = false
    /// Connections that this turn may still accept.
    var acceptsLeft = 0
    var listeners: [Listener] = []
    var isAcceptFailing = false
    /// When accepting resumes after a failure, in nanoseconds of the monotonic clock; nil: accepting does not rest.
    var acceptResumes: UInt64?
    /// Sends that their sockets have not taken, by connection index.
    var stuck: [UInt32: StuckSend] = [:]

    /// Descriptors left to the rest of the process: the store, the loops' own, a journal that is being replaced.
    public static let descriptorsReserved = 64

    /// Creates the epoll instance.
    ///
    /// - Throws: `TransportError` for a faulty configuration, or if the kernel has no descriptor or no memory left.
    public init(configuration: EpollConfiguration) throws(TransportError) {
        if let fault = configuration.fault { throw .badConfiguration(fault) }
        let connectionsMax = Self.connectionsMax(
            wanted: configuration.connectionsMax, transportCount: 1)
        let epoll = try EpollDescriptor(eventsPerWait: configuration.eventsPerWait)
        let event = try EventDescriptor.open()
        let failure = epoll.watchInput(event.descriptor, name: EventSource.waker.name())
        guard failure == 0 else { throw TransportError.epoll("epoll_ctl", errno: failure) }
        self.epoll = epoll
        self.event = event
        self.configuration = configuration
        self.connectionsMax = connectionsMax
        table = SocketTable(capacity: connectionsMax)
        buffer = .allocate(byteCount: configuration.receiveBufferBytes, alignment: 64)
    }

    /// Creates the epoll instance with default sizes.
    public init(connectionsMax: Int) throws(TransportError) {
        var configuration = EpollConfiguration()
        configuration.connectionsMax = max(1, connectionsMax)
        try self.init(configuration: configuration)
    }

    /// The descriptors of the process, divided by the transports. The call raises the limit of open descriptors as
    /// far as permitted. Half of a small limit is reserved.
    public static func connectionsMax(wanted: Int, transportCount: Int) -> Int {
        let limit = OpenDescriptors.raiseLimit(
            to: wanted * transportCount + descriptorsReserved)
        let free = limit - min(descriptorsReserved, limit / 2)
        return max(1, min(wanted, free / transportCount))
    }

    deinit {
        for listener in listeners where listener.state != .closed {
            ListeningSocket.close(listener.descriptor)
        }
        for index in 0..<table.usedCount {
            let slot = table.slots[index]
            if slot.state.contains(.open), !slot.state.contains(.closing) {
                Glibc.close(slot.descriptor)
            }
        }
        for send in stuck.values { send.free() }
        buffer.deallocate()
    }

    // MARK: The turn of a loop

    /// Waits for the kernel, or does not wait if events are there already. Sends have left before.
    /// - Throws: `TransportError` if the kernel refuses the call. A timeout and a signal are not errors.
    public mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {
        var timeout = timeoutMicroseconds
        if let acceptResumes { timeout = restOfAccepting(until: acceptResumes, timeout) }
        hasArrivals = false
        let count = try epoll.wait(
            timeoutMicroseconds: table.queuedCount > 0 || isWakeDue ? 0 : timeout)
        for place in 0..<count { note(epoll.readiness(place)) }
        dueCount = table.queuedCount
        acceptsLeft = configuration.acceptsPerTurn
    }

    private mutating func noteArrival() {
        hasArrivals = true
        arrivalCount &+= 1
    }

    private mutating func note(_ readiness: Readiness) {
        let index = readiness.index
        switch readiness.source {
        case .connection:
            let slot = table.slots + Int(index)
            guard slot.pointee.generation == readiness.generation,
                slot.pointee.state.contains(.open)
            else { return }
            if readiness.isReadable {
                slot.pointee.state.insert(.readable)
                noteArrival()
            }
            if readiness.isEnding { slot.pointee.state.formUnion([.readable, .ending]) }
            if readiness.isWritable { slot.pointee.state.remove(.full) }
            table.queueIfNeeded(index)
        case .listener:
            listeners[Int(index)].isReady = true
            noteArrival()
        case .waker:
            isWakeDue = true
            noteArrival()
        case nil: break
        }
    }

    /// The next event of the turn.
    public mutating func nextEvent() -> TransportEvent? {
        if isWakeDue {
            isWakeDue = false
            return .woken(event.take())
        }
        if toReceive != SocketSlot.noIndex, let event = receiveAfterSend() { return event }
        while dueCount > 0 {
            dueCount -= 1
            if let event = work(on: table.takeQueued()) { return event }
        }
        return acceptsLeft > 0 ? acceptNext() : nil
    }

    // MARK: Waking

    /// Wakes the transport from any thread.
    public var waker: TransportWaker { TransportWaker(event: event) }

    /// The target for wakes from other transports.
    public var address: TransportAddress { TransportAddress(event: event) }

    /// Wakes another transport at once. The value must be at least 1. A wake to an ended transport is dropped.
    public mutating func wake(_ other: TransportAddress, value: UInt64) {
        other.event?.add(value)
    }
}
