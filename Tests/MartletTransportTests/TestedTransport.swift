// SPDX-License-Identifier: Apache-2.0
//
// Either transport, chosen when a test runs: the tests of streams, accepting, closing and waking are the
// contract of every transport, and run on each. Rests on MartletRing and MartletTransport.

import Glibc
import MartletBase
import MartletRing
import MartletTransport

/// What a test runs on.
enum Kernel: String, CaseIterable {
    case ioUring
    /// With a shutdown before each close, as kernels before Linux 6.13 need it.
    case ioUringWithShutdown
    case epoll

    /// All three, or those of the transport that `MARTLET_TRANSPORT` names.
    static let allCases: [Kernel] = {
        let all: [Kernel] = [.ioUring, .ioUringWithShutdown, .epoll]
        guard let wanted = getenv("MARTLET_TRANSPORT").map({ String(cString: $0) }) else {
            return all
        }
        return all.filter { ($0 == .epoll) == (wanted == "epoll") }
    }()

    static let usual = allCases.filter { $0 != .ioUringWithShutdown }
}

/// Sizes that every transport has in some form.
struct Sizes {
    var connectionsMax = 1024
    /// Operations, or events, of one system call.
    var operations = 256
    var receiveBufferBytes = 2048
    /// A ring's; over epoll all connections share one buffer.
    var receiveBufferCount = 256
    var socketSendBytes: Int?

    var uring: UringConfiguration {
        var configuration = UringConfiguration()
        configuration.connectionsMax = connectionsMax
        configuration.submissionEntries = operations
        configuration.completionEntries = operations * 2
        configuration.receiveBufferBytes = receiveBufferBytes
        configuration.receiveBufferCount = receiveBufferCount
        configuration.socketSendBytes = socketSendBytes
        return configuration
    }

    var epoll: EpollConfiguration {
        var configuration = EpollConfiguration()
        configuration.connectionsMax = connectionsMax
        configuration.eventsPerWait = operations
        configuration.acceptsPerTurn = operations
        configuration.receiveBufferBytes = receiveBufferBytes
        configuration.socketSendBytes = socketSendBytes
        return configuration
    }
}

/// A transport with a listener on 127.0.0.1, told to the clients through `port`.
func makeTransport(
    _ kernel: Kernel, _ port: Handoff<UInt16>? = nil,
    _ configure: (inout Sizes) -> Void = { _ in }
) throws -> TestedTransport {
    var sizes = Sizes()
    configure(&sizes)
    var transport = try TestedTransport(kernel, sizes)
    if let port { port.give(try transport.listen(address: "127.0.0.1", port: 0)) }
    return transport
}

/// One of the two, the other nil.
struct TestedTransport: ~Copyable, Transport {
    private var ring: UringTransport?
    private var epoll: EpollTransport?
    let connectionsMax: Int
    let waker: TransportWaker
    let address: TransportAddress

    init(_ kernel: Kernel, _ sizes: Sizes) throws {
        switch kernel {
        case .ioUring, .ioUringWithShutdown:
            var transport = try UringTransport(configuration: sizes.uring)
            if kernel == .ioUringWithShutdown { transport.isShutdownNeeded = true }
            connectionsMax = transport.connectionsMax
            waker = transport.waker
            address = transport.address
            ring = consume transport
            epoll = nil
        case .epoll:
            let transport = try EpollTransport(configuration: sizes.epoll)
            connectionsMax = transport.connectionsMax
            waker = transport.waker
            address = transport.address
            ring = nil
            epoll = consume transport
        }
    }

    var connectionCount: Int {
        switch ring {
        case .some(let transport): return transport.connectionCount
        case .none: break
        }
        switch epoll {
        case .some(let transport): return transport.connectionCount
        case .none: return 0
        }
    }

    var hasArrivals: Bool {
        switch ring {
        case .some(let transport): return transport.hasArrivals
        case .none: break
        }
        switch epoll {
        case .some(let transport): return transport.hasArrivals
        case .none: return false
        }
    }

    var arrivalCount: UInt32 {
        switch ring {
        case .some(let transport): return transport.arrivalCount
        case .none: break
        }
        switch epoll {
        case .some(let transport): return transport.arrivalCount
        case .none: return 0
        }
    }

    var acceptedOrigin: ConnectionOrigin {
        switch ring {
        case .some(let transport): return transport.acceptedOrigin
        case .none: break
        }
        switch epoll {
        case .some(let transport): return transport.acceptedOrigin
        case .none: return ConnectionOrigin(address: .loopback, listener: 0)
        }
    }

    mutating func nextEvent() -> TransportEvent? {
        if let event = ring?.nextEvent() { return event }
        return epoll?.nextEvent()
    }

    mutating func submitAndWait(timeoutMicroseconds: Int?) throws(TransportError) {
        try ring?.submitAndWait(timeoutMicroseconds: timeoutMicroseconds)
        try epoll?.submitAndWait(timeoutMicroseconds: timeoutMicroseconds)
    }

    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        ring?.send(connection, bytes)
        epoll?.send(connection, bytes)
    }

    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {
        ring?.send(connection, vectors: vectors)
        epoll?.send(connection, vectors: vectors)
    }

    mutating func pauseReceive(_ connection: ConnectionID) {
        ring?.pauseReceive(connection)
        epoll?.pauseReceive(connection)
    }

    mutating func resumeReceive(_ connection: ConnectionID) {
        ring?.resumeReceive(connection)
        epoll?.resumeReceive(connection)
    }

    mutating func endSending(_ connection: ConnectionID) {
        ring?.endSending(connection)
        epoll?.endSending(connection)
    }

    mutating func releaseMemory() {
        ring?.releaseMemory()
        epoll?.releaseMemory()
    }

    mutating func close(_ connection: ConnectionID) {
        ring?.close(connection)
        epoll?.close(connection)
    }

    mutating func stopAccepting() {
        ring?.stopAccepting()
        epoll?.stopAccepting()
    }

    mutating func wake(_ other: TransportAddress, value: UInt64) {
        ring?.wake(other, value: value)
        epoll?.wake(other, value: value)
    }

    mutating func listen(address: String, port: UInt16) throws(TransportError) -> UInt16 {
        if let port = try ring?.listen(address: address, port: port) { return port }
        return try epoll!.listen(address: address, port: port)
    }
}
