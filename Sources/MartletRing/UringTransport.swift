// SPDX-License-Identifier: Apache-2.0
//
// The transport on io_uring. Connections are direct descriptors: entries of a table inside the ring. A direct
// descriptor costs no descriptor of the process, and its number is the connection's index. Each connection has a
// multishot receive armed from its first moment, so the loop only handles arriving bytes. The transport is a
// non-copyable struct over tables allocated at creation: no operation and no completion allocates, counts a
// reference or passes a dynamic exclusivity check.
//
// The methods are ordinary functions instead of inlinable ones. A generic loop of another module, once specialised,
// calls them directly; the call costs 1 ns against the microseconds of an operation, and liburing stays out of the
// module's interface. Rests on Ring, ReceiveBuffers, ConnectionSlot.

internal import CLiburing
internal import Glibc
public import MartletBase
public import MartletTransport

/// Connections over one io_uring, used only by the thread that created the transport.
public struct UringTransport: ~Copyable, SocketTransport {
    // The order matters for destruction: the ring must end before the memory that the kernel accesses.
    var ring: Ring
    var buffers: ReceiveBuffers
    let memory: TransportMemory
    let event: EventDescriptor
    let configuration: UringConfiguration

    /// The largest number of connections: the configured number, clamped to the limit of open descriptors
    /// (RLIMIT_NOFILE) and to the kernel's limit (1,048,576 per ring).
    public let connectionsMax: Int
    /// The number of connections between `.accepted` and `.closed`, at most `connectionsMax`.
    public internal(set) var connectionCount = 0

    /// The buffer of the last `.received`, returned at the next `nextEvent()`; -1 for none.
    var heldBuffer: Int32 = -1
    /// An index for which the next event is `.accepted`; see `completedAccept`.
    var acceptedNext: UInt32 = .max
    /// The index of the last `.accepted`, whose receive is armed by the next `nextEvent()`, unless the loop has paused
    /// the connection; `.max` for none.
    var acceptedLast: UInt32 = .max
    var listeners: [Listener] = []
    var isAcceptFailing = false
    /// Whether the next event tells that the table is full.
    var mustTellFullTable = false
    /// The origin of the connection of the last `.accepted`.
    public internal(set) var acceptedOrigin = ConnectionOrigin(address: .loopback, listener: 0)
    var isAcceptRetryArmed = false

    /// Whether closing begins with a shutdown. Before Linux 6.13 a closed direct descriptor keeps its socket while
    /// any older operation of the ring is in flight, and idle receives are always in flight. The peer would not see
    /// the end. On newer kernels the transport saves the detour over a kernel worker.
    package var isShutdownNeeded: Bool

    /// The connections for each of several transports. The kernel bounds the table of each ring by the limit of open
    /// descriptors (RLIMIT_NOFILE), which the call raises as far as permitted.
    public static func connectionsMax(wanted: Int, transportCount: Int) -> Int {
        min(wanted, Kernel.fixedFilesMax, OpenDescriptors.raiseLimit(to: wanted))
    }

    /// Creates the ring. Must be called on the thread that will use the transport.
    ///
    /// - Throws: `TransportError` for a faulty configuration, a missing kernel feature or a failed registration.
    public init(configuration: UringConfiguration) throws(TransportError) {
        if let fault = configuration.fault { throw .badConfiguration(fault) }
        let ring = try Ring(
            submissionEntries: configuration.submissionEntries,
            completionEntries: configuration.completionEntries)
        let connectionsMax = Self.connectionsMax(
            wanted: configuration.connectionsMax, transportCount: 1)
        let registered = ring.withControl {
            io_uring_register_files_sparse($0, UInt32(connectionsMax))
        }
        guard registered == 0 else {
            throw TransportError.setup(
                "registering \(connectionsMax) direct descriptors", errno: -registered)
        }
        let buffers = try ReceiveBuffers(
            ring: ring, count: configuration.receiveBufferCount,
            bufferBytes: configuration.receiveBufferBytes)
        let event = try EventDescriptor.open()

        memory = TransportMemory(
            connectionsMax: connectionsMax, submissionEntries: ring.submissionCapacity,
            listenersMax: Self.listenersMax)
        isShutdownNeeded = ring.features & Kernel.featureReadWriteAttributes == 0
        self.ring = ring
        self.buffers = buffers
        self.event = event
        self.configuration = configuration
        self.connectionsMax = connectionsMax
        armWaker()
    }

    /// Creates the ring with default sizes; without connections, the sizes of a ring that only sleeps and wakes.
    public init(connectionsMax: Int) throws(TransportError) {
        var configuration = UringConfiguration()
        configuration.connectionsMax = max(1, connectionsMax)
        if connectionsMax == 0 {
            configuration.submissionEntries = 256
            configuration.completionEntries = 4096
            configuration.receiveBufferCount = 1
        }
        try self.init(configuration: configuration)
    }

    /// Tries a ring and a submission. The kernel interrupts a blocking call of the calling thread soon afterwards, so
    /// the thread should have no other use.
    /// - Throws: `TransportError` if the kernel or a filter of system calls refuses a step.
    public static func requireAvailable() throws(TransportError) {
        var transport = try UringTransport(connectionsMax: 0)
        try transport.submitAndWait(timeoutMicroseconds: 0)
    }

    deinit {
        for listener in listeners where listener.state != .closed {
            ListeningSocket.close(listener.descriptor)
        }
        // Ends all operations in flight, so that none touches memory afterwards. Closing the ring alone would only
        // begin to end them.
        var everything = io_uring_sync_cancel_reg()
        everything.fd = -1
        everything.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL
        everything.timeout.tv_sec = 1
        ring.withControl {
            _ = io_uring_register_sync_cancel($0, &everything)
            _ = io_uring_unregister_buf_ring($0, Int32(Kernel.receiveBufferGroup))
        }
    }

    // MARK: The turn of a loop

    /// Submits and waits in one system call. Without queued operations and with a timeout of 0, the call is saved
    /// unless the kernel holds completions back.
    /// - Throws: `TransportError` if the kernel refuses the call. A timeout, a signal and a momentary lack of memory
    ///   in the kernel are not errors.
    public mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {
        try ring.enter(timeoutMicroseconds: timeoutMicroseconds)
    }

    /// Most sends complete while they are submitted, and arrivals are looked for behind the submission. So the newest
    /// completion is an arrival, if the last call found one.
    public var hasArrivals: Bool {
        switch ring.newestCompletion?.operation {
        case .receive, .accept, .waker, .message: true
        case .send, .shutdown, .endSending, .close, .cancel, .acceptRetry, .messageFailed, nil:
            false
        }
    }

    /// The number of completions. Between two submissions, nearly all completions are arrivals.
    public var arrivalCount: UInt32 { ring.completionCount }

    /// The next completion from the ring. The buffer of the last `.received` goes back to the kernel first.
    public mutating func nextEvent() -> TransportEvent? {
        if heldBuffer >= 0 {
            buffers.giveBack(UInt16(truncatingIfNeeded: heldBuffer))
            heldBuffer = -1
        }
        if acceptedLast != .max {
            let slot = memory.slots + Int(acceptedLast)
            armReceiveIfWanted(
                ConnectionID(index: acceptedLast, generation: slot.pointee.generation), slot)
            acceptedLast = .max
        }
        if acceptedNext != .max {
            defer { acceptedNext = .max }
            return occupy(acceptedNext)
        }
        if mustTellFullTable {
            mustTellFullTable = false
            return .acceptFailed(errno: ENFILE)
        }
        while let completion = ring.nextCompletion() {
            if let event = handle(completion) { return event }
        }
        return nil
    }

    /// Returns the pages of the receive buffers. The kernel takes receive buffers in order, so a burst touches all
    /// buffers, and afterwards a few frames a second keep all pages in use. Completions appear only in `enter`:
    /// while none waits, no buffer holds bytes.
    public mutating func releaseMemory() {
        guard heldBuffer < 0, ring.hasToldAll else { return }
        buffers.releasePages()
    }

    // MARK: Waking

    /// Wakes the transport from any thread.
    public var waker: TransportWaker { TransportWaker(event: event) }

    /// The target for wakes from other rings.
    public var address: TransportAddress {
        TransportAddress(ringDescriptor: ring.descriptor, event: event)
    }

    /// Wakes another transport with a value, together with the next submission.
    ///
    /// If the kernel lacks memory for the message, the transport wakes the target through the target's eventfd with
    /// the lower half of the value, so a wake is never lost. A wake to an ended transport is dropped.
    public mutating func wake(_ other: TransportAddress, value: UInt64) {
        let low = UInt32(truncatingIfNeeded: value)
        let entry = ring.nextSubmission()
        io_uring_prep_msg_ring(
            entry, other.ringDescriptor, low,
            Operation.message.userData(index: UInt32(truncatingIfNeeded: value >> 32)), 0)
        entry.pointee.flags = Kernel.skipSuccess
        entry.pointee.user_data = Operation.messageFailed.userData(
            generation: UInt32(bitPattern: other.event?.descriptor ?? -1), index: low)
    }

    mutating func armWaker() {
        let entry = ring.nextSubmission()
        io_uring_prep_read(entry, event.descriptor, memory.wakeValue, 8, 0)
        entry.pointee.user_data = Operation.waker.userData()
    }
}
