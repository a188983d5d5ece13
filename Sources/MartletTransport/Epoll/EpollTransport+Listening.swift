// SPDX-License-Identifier: Apache-2.0
//
// Accepts connections from listening sockets that do not block. After a failure accepting rests: with a full table
// until a connection has closed, otherwise for a fixed time. Connections wait in the backlog meanwhile, and none is
// lost, because a connection is accepted only if there is an index for it.
//
//     accepting ──failure──► tableFull, resting ──place or time──► accepting        stopAccepting: ──► closed
//
// Rests on ListeningSocket and EpollDescriptor.

internal import CEpoll
internal import Glibc
import MartletBase

/// One listening socket of a transport.
struct Listener {
    let descriptor: Int32
    /// Whether connections may wait.
    var isReady = false
    var state: State = .accepting

    enum State {
        /// The socket is watched. Can transition to: tableFull, resting, closed.
        case accepting
        /// Every index is taken. Can transition to: accepting, closed.
        case tableFull
        /// Descriptors or memory ran out. Can transition to: accepting, closed.
        case resting
        /// The socket is closed. Final state.
        case closed
    }
}

extension EpollTransport {
    /// Listens on an address and accepts connections from the next wait on.
    ///
    /// - Parameters:
    ///   - address: a numeric IPv4 or IPv6 address; `::` accepts IPv6 only.
    ///   - port: 0 lets the kernel choose.
    /// - Returns: the bound port.
    public mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 {
        try Self.requireRoom(beside: listeners.count)
        let socket = try ListeningSocket(
            address: address, port: port, sendBytes: configuration.socketSendBytes)
        // Another transport's accept may take the connection that made this socket readable.
        guard fcntl(socket.descriptor, F_SETFL, O_NONBLOCK) == 0 else {
            throw TransportError.epoll("fcntl", errno: errno)
        }
        let failure = epoll.watchInput(socket.descriptor, name: name(listeners.count))
        guard failure == 0 else { throw TransportError.epoll("epoll_ctl", errno: failure) }
        let boundPort = socket.port
        listeners.append(Listener(descriptor: socket.take()))
        return boundPort
    }

    /// Closes all listening sockets.
    public mutating func stopAccepting() {
        for index in listeners.indices where listeners[index].state != .closed {
            listeners[index].state = .closed
            listeners[index].isReady = false
            ListeningSocket.close(listeners[index].descriptor)
        }
    }

    private func name(_ listener: Int) -> UInt64 {
        EventSource.listener.name(index: UInt32(listener))
    }

    /// Accepts the next connection of this turn.
    mutating func acceptNext() -> TransportEvent? {
        for index in listeners.indices {
            while listeners[index].isReady, acceptsLeft > 0 {
                guard connectionCount < connectionsMax else {
                    if let event = rest(index, .tableFull, errno: ENFILE) { return event }
                    break
                }
                acceptsLeft -= 1
                var storage = sockaddr_storage()
                var byteCount = UInt32(MemoryLayout<sockaddr_storage>.size)
                let descriptor = martlet_accept(
                    listeners[index].descriptor, &storage, &byteCount)
                if descriptor >= 0 {
                    acceptedOrigin = ConnectionOrigin(
                        address: PeerAddress(storage), listener: index)
                    if let event = occupy(descriptor, index) { return event }
                } else if errno == EAGAIN {
                    listeners[index].isReady = false
                } else if !ListeningSocket.isTransient(acceptErrno: errno) {
                    if let event = rest(index, .resting, errno: errno) { return event }
                }
            }
        }
        return nil
    }

    /// Makes a connection of an accepted socket.
    private mutating func occupy(_ descriptor: Int32, _ listener: Int) -> TransportEvent? {
        guard let index = table.takeIndex() else {
            preconditionFailure("fewer indices than connections")
        }
        let slot = table.slots + Int(index)
        let failure = epoll.watchEdges(
            descriptor,
            name: EventSource.connection.name(index: index, generation: slot.pointee.generation))
        guard failure == 0 else {
            Glibc.close(descriptor)
            table.giveBack(index)
            return rest(listener, .resting, errno: failure)
        }
        slot.pointee.descriptor = descriptor
        slot.pointee.state = [.open, .receiveWanted]
        connectionCount += 1
        if connectionsMax - connectionCount > connectionsMax / 16 { isAcceptFailing = false }
        return .accepted(ConnectionID(index: index, generation: slot.pointee.generation))
    }

    /// Pauses a listener.
    /// - Returns: the event for the loop; nil if the loop already knows of the trouble.
    private mutating func rest(
        _ index: Int, _ state: Listener.State, errno: Int32
    ) -> TransportEvent? {
        listeners[index].state = state
        listeners[index].isReady = false
        epoll.setWatching(false, listeners[index].descriptor, name: name(index))
        if state == .resting, acceptResumes == nil {
            acceptResumes =
                Self.monotonicNanoseconds() + UInt64(configuration.acceptRetryMilliseconds)
                * 1_000_000
        }
        defer { isAcceptFailing = true }
        return isAcceptFailing ? nil : .acceptFailed(errno: errno)
    }

    /// Accepts again on the listeners in the given state, in this turn if the turn still accepts.
    mutating func resumeAccepting(_ state: Listener.State) {
        for index in listeners.indices where listeners[index].state == state {
            listeners[index].state = .accepting
            listeners[index].isReady = true
            epoll.setWatching(true, listeners[index].descriptor, name: name(index))
        }
    }

    /// Resumes accepting if the rest is over.
    /// - Returns: the timeout, shortened to the end of the rest.
    mutating func restOfAccepting(until end: UInt64, _ timeoutMicroseconds: Int?) -> Int? {
        let now = Self.monotonicNanoseconds()
        guard now < end else {
            acceptResumes = nil
            resumeAccepting(.resting)
            return timeoutMicroseconds
        }
        return min(timeoutMicroseconds ?? .max, Int((end - now) / 1000) + 1)
    }

    private static func monotonicNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
