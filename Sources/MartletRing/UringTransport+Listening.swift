// SPDX-License-Identifier: Apache-2.0
//
// Accepts connections with a multishot accept per listening socket. The kernel puts each connection into the ring's
// own table. After a failure accepting rests: with a full table until a connection has closed, otherwise for a
// fixed time. Connections wait in the backlog meanwhile. The first connection beyond a full table is lost, because
// the kernel removes the connection from the backlog before it looks for a free index. From then on, until a
// sixteenth of the table is free, connections are accepted one by one and none is lost.
//
//     armed ──failure──► resting ──place or time──► armed          stopAccepting: ──► stopping ──► closed
//
// Rests on ListeningSocket and Ring.

internal import CLiburing
internal import Glibc
public import MartletTransport

/// One listening socket of a transport.
struct Listener {
    let descriptor: Int32
    /// Whether an accept is in flight.
    var isArmed = false
    var state: State = .accepting

    enum State {
        /// An accept is in flight. Can transition to: tableFull, resting, closed.
        case accepting
        /// Every index is taken. Can transition to: accepting, closed.
        case tableFull
        /// Descriptors or memory ran out. Can transition to: accepting, closed.
        case resting
        /// The accept is being cancelled. Can transition to: closed.
        case stopping
        /// The socket is closed. Final state.
        case closed
    }
}

extension UringTransport {
    /// Sockets that one transport may listen on; a loop uses one or two.
    public static var listenersMax: Int { 16 }

    /// Throws if `listen` would share the port with another process. A broker calls this once, before its first
    /// loop listens.
    public static func requireFree(address: String, port: UInt16) throws(TransportError) {
        try ListeningSocket.requireFree(address: address, port: port)
    }

    /// Listens on an address and accepts connections from the next submission on.
    ///
    /// - Parameters:
    ///   - address: a numeric IPv4 or IPv6 address; `::` accepts IPv6 only.
    ///   - port: 0 lets the kernel choose.
    /// - Returns: the bound port.
    public mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 {
        guard listeners.count < Self.listenersMax else {
            throw .badConfiguration("A transport listens on \(Self.listenersMax) sockets at most.")
        }
        let socket = try ListeningSocket(
            address: address, port: port, sendBytes: configuration.socketSendBytes)
        let boundPort = socket.port
        listeners.append(Listener(descriptor: socket.take()))
        armAccept(listeners.count - 1)
        return boundPort
    }

    /// Stops all listening sockets. An accept in flight is cancelled at the next submission; a socket without an
    /// accept in flight closes at once.
    public mutating func stopAccepting() {
        for index in listeners.indices where listeners[index].state != .closed {
            if listeners[index].isArmed {
                guard listeners[index].state != .stopping else { continue }
                listeners[index].state = .stopping
                let entry = ring.nextSubmission()
                io_uring_prep_cancel64(
                    entry, Operation.accept.userData(index: UInt32(index)), 0)
                entry.pointee.flags = Kernel.skipSuccess
                entry.pointee.user_data = Operation.cancel.userData()
            } else {
                closeListener(index)
            }
        }
    }

    private mutating func armAccept(_ index: Int) {
        let isOneComing = acceptedNext != .max
        guard connectionCount + (isOneComing ? 1 : 0) < connectionsMax else {
            listeners[index].state = .tableFull
            return
        }
        listeners[index].isArmed = true
        listeners[index].state = .accepting
        let entry = ring.nextSubmission()
        io_uring_prep_multishot_accept_direct(entry, listeners[index].descriptor, nil, nil, 0)
        // While indices are scarce, accept one connection at a time: a multishot accept would take and lose one too
        // many.
        if isAcceptFailing { entry.pointee.ioprio = 0 }
        entry.pointee.user_data = Operation.accept.userData(index: UInt32(index))
    }

    private mutating func closeListener(_ index: Int) {
        listeners[index].state = .closed
        ListeningSocket.close(listeners[index].descriptor)
    }

    /// Decides how the listener continues after an accept has ended.
    mutating func continueAccepting(_ index: Int) {
        guard !listeners[index].isArmed else { return }
        switch listeners[index].state {
        case .stopping: closeListener(index)
        case .accepting: armAccept(index)
        case .tableFull, .resting, .closed: break
        }
    }

    /// Sets the listener's state after a failed accept.
    ///
    /// - Returns: the event for the loop; nil for a transient failure, or if the loop already knows of the trouble.
    mutating func acceptFailure(_ index: Int, errno: Int32) -> TransportEvent? {
        guard listeners[index].state == .accepting else { return nil }
        switch errno {
        // The failure concerns a single connection, which is already gone, or no connection at all.
        case ECONNABORTED, EPROTO, EPERM, EINTR, EAGAIN, ECANCELED, ENETDOWN, ENOPROTOOPT,
            EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH:
            return nil
        case ENFILE where connectionCount >= connectionsMax:
            listeners[index].state = .tableFull
        default:
            listeners[index].state = .resting
            armAcceptRetry()
        }
        defer { isAcceptFailing = true }
        return isAcceptFailing ? nil : .acceptFailed(errno: errno)
    }

    private mutating func armAcceptRetry() {
        guard !isAcceptRetryArmed else { return }
        isAcceptRetryArmed = true
        let milliseconds = configuration.acceptRetryMilliseconds
        memory.acceptRetryTime.pointee.tv_sec = Int64(milliseconds / 1000)
        memory.acceptRetryTime.pointee.tv_nsec = Int64(milliseconds % 1000) * 1_000_000
        let entry = ring.nextSubmission()
        io_uring_prep_timeout(entry, memory.acceptRetryTime, 0, 0)
        entry.pointee.user_data = Operation.acceptRetry.userData()
    }

    mutating func completedAcceptRetry() -> TransportEvent? {
        isAcceptRetryArmed = false
        resumeAccepting(.resting)
        return nil
    }

    /// Accepts again on the listeners in the given state.
    mutating func resumeAccepting(_ state: Listener.State) {
        for index in listeners.indices where listeners[index].state == state { armAccept(index) }
    }
}
