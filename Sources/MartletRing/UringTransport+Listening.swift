// SPDX-License-Identifier: Apache-2.0
//
// Accepts connections with several single accepts per listening socket. A single accept tells the peer's address; a
// multishot accept would write all addresses to one place. The kernel puts each connection into the ring's own table.
// No more accepts are in flight than the table has free indices, because the kernel removes a connection from the
// backlog before it looks for a free index, and would lose the connection. After a failure accepting rests: with a
// full table until a connection has closed, otherwise for a fixed time. Connections wait in the backlog meanwhile.
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
    /// The accepts in flight: a bit for each place of `TransportMemory.acceptAddresses`.
    var armed: UInt32 = 0
    var state: State = .accepting

    /// Accepts in flight at most: connections that one turn of a loop can take.
    static let acceptsMax = 32

    /// A place without an accept in flight.
    var freePlace: Int? {
        let place = (~armed).trailingZeroBitCount
        return place < Self.acceptsMax ? place : nil
    }

    enum State {
        /// Accepts are in flight. Can transition to: tableFull, resting, stopping, closed.
        case accepting
        /// Every index is taken. Can transition to: accepting, closed.
        case tableFull
        /// Descriptors or memory ran out. Can transition to: accepting, closed.
        case resting
        /// The accepts are being cancelled. Can transition to: closed.
        case stopping
        /// The socket is closed. Final state.
        case closed
    }
}

extension UringTransport {
    /// Listens on an address and accepts connections from the next submission on.
    ///
    /// - Parameters:
    ///   - address: a numeric IPv4 or IPv6 address; `::` accepts IPv6 only.
    ///   - port: 0 lets the kernel choose.
    /// - Returns: the bound port.
    public mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 {
        try Self.requireRoom(beside: listeners.count)
        let socket = try ListeningSocket(
            address: address, port: port, sendBytes: configuration.socketSendBytes)
        let boundPort = socket.port
        listeners.append(Listener(descriptor: socket.take()))
        armAccept(listeners.count - 1)
        return boundPort
    }

    /// Stops all listening sockets. Accepts in flight are cancelled at the next submission; a socket without an
    /// accept in flight closes at once.
    public mutating func stopAccepting() {
        for index in listeners.indices where listeners[index].state != .closed {
            guard listeners[index].armed != 0 else {
                closeListener(index)
                continue
            }
            guard listeners[index].state != .stopping else { continue }
            listeners[index].state = .stopping
            for place in 0..<Listener.acceptsMax where listeners[index].armed & 1 << place != 0 {
                let entry = ring.nextSubmission()
                io_uring_prep_cancel64(entry, Self.accept(index, place), 0)
                entry.pointee.flags = Kernel.skipSuccess
                entry.pointee.user_data = Operation.cancel.userData()
            }
        }
    }

    private static func accept(_ index: Int, _ place: Int) -> UInt64 {
        Operation.accept.userData(generation: UInt32(place), index: UInt32(index))
    }

    /// The address that an accept has written.
    func acceptAddress(_ index: Int, _ place: Int) -> UnsafeMutablePointer<AcceptAddress> {
        memory.acceptAddresses + (index * Listener.acceptsMax + place)
    }

    /// Arms accepts, as many as the listener's part of the free indices allows.
    private mutating func armAccept(_ index: Int) {
        let inFlight = listeners.reduce(0) { $0 + $1.armed.nonzeroBitCount }
        let isOneComing = acceptedNext != .max
        let free = connectionsMax - connectionCount - (isOneComing ? 1 : 0)
        var room = min(
            free - inFlight,
            max(1, free / listeners.count) - listeners[index].armed.nonzeroBitCount)
        while room > 0, let place = listeners[index].freePlace {
            room -= 1
            listeners[index].armed |= 1 << place
            let target = acceptAddress(index, place)
            target.pointee.byteCount = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let entry = ring.nextSubmission()
            io_uring_prep_multishot_accept_direct(
                entry, listeners[index].descriptor,
                UnsafeMutableRawPointer(target).assumingMemoryBound(to: sockaddr.self),
                &target.pointee.byteCount, 0)
            // The library has no single accept that lets the kernel choose the index.
            entry.pointee.ioprio = 0
            entry.pointee.user_data = Self.accept(index, place)
        }
        guard listeners[index].armed == 0 else {
            listeners[index].state = .accepting
            return
        }
        listeners[index].state = .tableFull
        if free <= 0, !isAcceptFailing {
            isAcceptFailing = true
            mustTellFullTable = true
        }
    }

    private mutating func closeListener(_ index: Int) {
        listeners[index].state = .closed
        ListeningSocket.close(listeners[index].descriptor)
    }

    /// Decides how the listener continues after an accept has ended.
    mutating func continueAccepting(_ index: Int) {
        switch listeners[index].state {
        case .stopping: if listeners[index].armed == 0 { closeListener(index) }
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
        case _ where ListeningSocket.isTransient(acceptErrno: errno): return nil
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
        for index in listeners.indices
        where listeners[index].state == state && (listeners[index].armed == 0 || state == .resting)
        {
            armAccept(index)
        }
    }
}
