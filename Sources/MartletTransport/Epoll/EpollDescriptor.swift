// SPDX-License-Identifier: Apache-2.0
//
// The owner of one epoll instance and of the memory for its events. Each event names its source in 64 bits:
//
//     63      56 55                      32 31                           0
//     | source  | generation (24 bits)     | index                        |
//
// The generation exposes events of an earlier occupant of the index. Rests on CEpoll.

internal import CEpoll
internal import Glibc

/// The sources of events.
enum EventSource: UInt8 {
    /// Index = number of the connection.
    case connection = 1
    /// Index = number of the listener.
    case listener
    /// The waker's eventfd.
    case waker

    @inline(__always)
    func name(index: UInt32 = 0, generation: UInt32 = 0) -> UInt64 {
        UInt64(rawValue) << 56 | UInt64(generation & SocketSlot.generationMask) << 32
            | UInt64(index)
    }
}

/// What an event says of its source.
struct Readiness {
    private let bits: UInt32
    let name: UInt64

    @inline(__always) init(_ event: epoll_event) {
        bits = event.events
        name = event.data.u64
    }

    @inline(__always) var source: EventSource? { EventSource(rawValue: UInt8(name >> 56)) }
    @inline(__always) var generation: UInt32 {
        UInt32(truncatingIfNeeded: name >> 32) & SocketSlot.generationMask
    }
    @inline(__always) var index: UInt32 { UInt32(truncatingIfNeeded: name) }

    /// The stream has ended or broken, or has urgent data.
    @inline(__always) var isEnding: Bool {
        bits & (EPOLLRDHUP.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue | EPOLLPRI.rawValue)
            != 0
    }
    @inline(__always) var isReadable: Bool { bits & EPOLLIN.rawValue != 0 }
    /// There is room in the socket's buffer, or a send would fail at once.
    @inline(__always) var isWritable: Bool {
        bits & (EPOLLOUT.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
    }
}

struct EpollDescriptor: ~Copyable {
    private let descriptor: Int32
    private let events: UnsafeMutablePointer<epoll_event>
    private let capacity: Int
    /// Whether the kernel waits with a resolution of nanoseconds (epoll_pwait2, Linux 5.11). Some sandboxes and
    /// profiles of containers lack the call.
    private var hasFineTimeouts = true

    init(eventsPerWait: Int) throws(TransportError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw TransportError.epoll("epoll_create1", errno: errno) }
        capacity = eventsPerWait
        events = .allocate(capacity: capacity)
        events.initialize(repeating: epoll_event(), count: capacity)
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// Watches a connection for every change, as edges. The kernel reports a change once, so a connection costs one
    /// registration for its whole life, and pausing costs no call.
    /// - Returns: 0 or an errno.
    func watchEdges(_ socket: Int32, name: UInt64) -> Int32 {
        control(
            EPOLL_CTL_ADD, socket,
            EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLRDHUP.rawValue | EPOLLPRI.rawValue
                | EPOLLET.rawValue, name)
    }

    /// Watches a listener or an eventfd for as long as there is something to read.
    /// - Returns: 0 or an errno.
    func watchInput(_ descriptor: Int32, name: UInt64) -> Int32 {
        control(EPOLL_CTL_ADD, descriptor, EPOLLIN.rawValue, name)
    }

    /// Pauses or resumes watching a listener.
    func setWatching(_ isWatching: Bool, _ descriptor: Int32, name: UInt64) {
        _ = control(EPOLL_CTL_MOD, descriptor, isWatching ? EPOLLIN.rawValue : 0, name)
    }

    private func control(
        _ operation: Int32, _ watched: Int32, _ bits: UInt32, _ name: UInt64
    ) -> Int32 {
        var event = epoll_event()
        event.events = bits
        event.data.u64 = name
        return epoll_ctl(descriptor, operation, watched, &event) == 0 ? 0 : errno
    }

    /// Waits for events.
    /// - Parameter timeoutMicroseconds: longest wait; 0 does not wait, nil waits without a limit.
    /// - Returns: the number of events; 0 also after a signal.
    mutating func wait(timeoutMicroseconds: Int?) throws(TransportError) -> Int {
        if hasFineTimeouts {
            let count = martlet_epoll_wait(
                descriptor, events, Int32(capacity), Int64(timeoutMicroseconds ?? -1) * 1000)
            if count >= 0 { return Int(count) }
            switch errno {
            case EINTR: return 0
            case ENOSYS, EPERM: hasFineTimeouts = false
            default: throw TransportError.epoll("epoll_pwait2", errno: errno)
            }
        }
        // The wait is rounded up, so that a wait never turns into a spin.
        let milliseconds = timeoutMicroseconds.map { Int32(clamping: ($0 + 999) / 1000) } ?? -1
        let count = epoll_wait(descriptor, events, Int32(capacity), milliseconds)
        if count >= 0 { return Int(count) }
        guard errno == EINTR else { throw TransportError.epoll("epoll_wait", errno: errno) }
        return 0
    }

    /// An event of the last wait.
    @inline(__always)
    func readiness(_ place: Int) -> Readiness { Readiness(events[place]) }
}

extension TransportError {
    /// The error for an errno of epoll or eventfd.
    static func epoll(_ operation: String, errno: Int32) -> TransportError {
        switch errno {
        case ENOMEM: .outOfMemory(operation: operation)
        case EMFILE, ENFILE: .descriptorsExhausted(operation: operation)
        default: .system(operation: operation, errno: errno)
        }
    }
}

extension EventDescriptor {
    /// A new eventfd.
    static func open() throws(TransportError) -> EventDescriptor {
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw TransportError.epoll("eventfd", errno: errno) }
        return EventDescriptor(owning: descriptor)
    }

    /// Takes the sum of the wakes since the last call. The eventfd must be readable, else the call waits.
    func take() -> UInt64 {
        var value: UInt64 = 0
        while read(descriptor, &value, MemoryLayout<UInt64>.size) < 0 && errno == EINTR {}
        return value
    }
}
