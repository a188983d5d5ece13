// SPDX-License-Identifier: Apache-2.0
//
// The sockets of links between nodes (OPS-7). A cluster has few nodes, so each link has its own thread. Rests on
// KeyedConnection, MartletWire and Glibc.

import Glibc
import MartletBase
import MartletCluster
import MartletCrypto
import MartletThreads
import MartletWire
import Synchronization

extension NodeFrame {
    /// Says why we take no link, or no commands.
    static func error(_ error: MartletError) -> NodeFrame {
        .error(ErrorFrame(correlation: 0, error: error))
    }

    /// The whole frame.
    var bytes: [UInt8] {
        var writer = WireWriter()
        encode(into: &writer)
        return writer.bytes
    }
}

/// Bytes that wait for a link's thread, and a way to wake it.
package final class LinkOutbox: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let limit: Int
    /// Both ends of a pipe. A byte in it wakes the thread.
    private let pipe: (read: Int32, write: Int32)
    /// Whether the thread can be woken. It can't if the process was out of descriptors.
    var isWhole: Bool { waker != nil || pipe.read >= 0 }
    /// Wakes the thread if there is no socket; nil if the pipe does.
    private let waker: (@Sendable () -> Void)?
    /// Readable when bytes wait.
    var event: Int32 { pipe.read }

    /// The outbox of a link without a socket.
    package init(limit: Int, waker: @escaping @Sendable () -> Void) {
        self.limit = limit
        self.waker = waker
        pipe = (-1, -1)
    }

    init(limit: Int) {
        self.limit = limit
        waker = nil
        var ends: [Int32] = [-1, -1]
        _ = Glibc.pipe(&ends)
        for end in ends where end >= 0 {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        pipe = (ends[0], ends[1])
    }

    deinit {
        guard waker == nil, pipe.read >= 0 else { return }
        close(pipe.read)
        close(pipe.write)
    }

    /// - Returns: false if the link is closed, or is being closed because too many bytes wait.
    @discardableResult
    func push(_ bytes: [UInt8]) -> Bool {
        let isTaken = state.withLock { state in
            guard !state.isClosed else { return false }
            guard state.bytes.count + bytes.count <= limit else {
                state.isClosed = true
                return false
            }
            state.bytes += bytes
            return true
        }
        wake()
        return isTaken
    }

    func wake() {
        if let waker { return waker() }
        var one: UInt8 = 1
        _ = write(pipe.write, &one, 1)
    }

    package func end() {
        state.withLock { $0.isClosed = true }
        wake()
    }

    package var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether the link is open and few bytes wait.
    func hasRoom(below byteCount: Int) -> Bool {
        state.withLock { !$0.isClosed && $0.bytes.count < byteCount }
    }

    /// Takes the wake-ups that have come.
    func drainWakes() {
        guard waker == nil else { return }
        var wakes = [UInt8](repeating: 0, count: 64)
        while read(pipe.read, &wakes, wakes.count) == wakes.count {}
    }

    package func take() -> [UInt8] {
        drainWakes()
        return state.withLock { state in
            defer { state.bytes = [] }
            return state.bytes
        }
    }
}

/// The socket of a link.
struct NodeSocket: ~Copyable {
    /// Milliseconds to connect and shake hands in (OPS-7).
    static let openMilliseconds: Int32 = 2000
    /// Milliseconds after which we give up on a peer that takes no bytes (OPS-7).
    private static let unacknowledgedMilliseconds: UInt32 = 5000
    /// So many reads, then see whether there is something to write.
    private static let readsMax = 16

    let descriptor: Int32

    deinit { close(descriptor) }

    init(descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var one: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        var limit = Self.unacknowledgedMilliseconds
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit,
            socklen_t(MemoryLayout<UInt32>.size))
    }

    typealias Failure = NodeLinkFailure

    private static func addresses(
        of address: NodeAddress, forListening: Bool
    ) throws(Failure) -> UnsafeMutablePointer<addrinfo> {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = forListening ? AI_PASSIVE : 0
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, "\(address.port)", &hints, &found)
        guard code == 0, let found else {
            throw .failed("\(address.text): \(String(cString: gai_strerror(code)))")
        }
        return found
    }

    /// Connects to a node.
    /// - Returns: the descriptor of the socket.
    static func connect(to address: NodeAddress) throws(Failure) -> Int32 {
        let found = try addresses(of: address, forListening: false)
        defer { freeaddrinfo(found) }
        let made = socket(found.pointee.ai_family, found.pointee.ai_socktype, 0)
        guard made >= 0 else { throw .failed(String(cString: strerror(errno))) }
        _ = fcntl(made, F_SETFL, O_NONBLOCK)
        var code: Int32 = 0
        if Glibc.connect(made, found.pointee.ai_addr, found.pointee.ai_addrlen) != 0 {
            code = errno
            if code == EINPROGRESS {
                var poll = pollfd(fd: made, events: Int16(POLLOUT), revents: 0)
                code = ETIMEDOUT
                if Glibc.poll(&poll, 1, openMilliseconds) > 0 {
                    var length = socklen_t(MemoryLayout<Int32>.size)
                    getsockopt(made, SOL_SOCKET, SO_ERROR, &code, &length)
                }
            }
        }
        guard code == 0 else {
            close(made)
            if code == ECONNREFUSED { throw .refused }
            throw .failed("\(address.text): \(String(cString: strerror(code)))")
        }
        return made
    }

    /// Listens at an address.
    /// - Returns: the descriptor of the socket.
    static func listen(at address: NodeAddress) throws(Failure) -> Int32 {
        let found = try addresses(of: address, forListening: true)
        defer { freeaddrinfo(found) }
        let made = socket(found.pointee.ai_family, found.pointee.ai_socktype, 0)
        guard made >= 0 else { throw .failed(String(cString: strerror(errno))) }
        var one: Int32 = 1
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        guard bind(made, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0,
            Glibc.listen(made, 64) == 0
        else {
            defer { close(made) }
            throw .failed("\(address.text): \(String(cString: strerror(errno)))")
        }
        return made
    }

    /// Accepts a connection of a listening socket.
    /// - Returns: the descriptor and the peer's IP address; nil if there is no connection, or no descriptor left.
    func accept() -> (peer: Int32, origin: String)? {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let peer = Glibc.accept(descriptor, address, &length)
                guard peer >= 0 else { return nil }
                let code = getnameinfo(
                    address, length, &host, socklen_t(host.count), nil, 0, NI_NUMERICHOST)
                let text = host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
                return (peer, code == 0 ? String(decoding: text, as: UTF8.self) : "?")
            }
        }
    }

    /// Writes what is left before a link ends, such as why it ends: as much as the socket takes at once.
    private static func tellLast(_ outbox: LinkOutbox, over link: KeyedConnection) {
        let bytes = outbox.take()
        guard !bytes.isEmpty else { return }
        _ = bytes.withUnsafeBytes { link.write($0) }
    }

    /// Serves a link until it ends.
    /// - Parameters:
    ///   - tick: called after each wait, at least every 100 ms. Ends the link by returning false.
    ///   - received: called with each frame. Ends the link by returning false.
    /// - Returns: why it ended.
    func serve(
        secret: [UInt8], isServer: Bool, _ outbox: LinkOutbox, opened: () -> Void,
        tick: () -> Bool, received: (NodeFrame) -> Bool
    ) -> String {
        guard let link = KeyedConnection(descriptor, secret: secret, isServer: isServer) else {
            return "out of memory for TLS"
        }
        let end = SystemClock.monotonicMilliseconds() + Int64(Self.openMilliseconds)
        var isOpen = false
        // Bytes from the outbox, and how many of them are written. We take more only when all are, so what a slow peer doesn't
        // take waits in the outbox and counts there.
        var waiting: [UInt8] = []
        var written = 0
        var splitter = FrameSplitter(frameBytesMax: NodeLimits.helloBytesMax)
        var readsLeft = Self.readsMax
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
        defer { buffer.deallocate() }
        while true {
            var events = Int16(POLLIN)
            if !isOpen {
                switch link.shakeHands() {
                case .done:
                    isOpen = true
                    opened()
                case .wantsToRead: break
                case .wantsToWrite: events |= Int16(POLLOUT)
                case .ended(let reason): return reason
                }
                if !isOpen, SystemClock.monotonicMilliseconds() > end {
                    return "the handshake takes too long"
                }
            }
            if isOpen {
                while true {
                    if written == waiting.count {
                        waiting = outbox.take()
                        written = 0
                        if waiting.isEmpty { break }
                    }
                    let step = waiting.withUnsafeBytes {
                        link.write(UnsafeRawBufferPointer(rebasing: $0[written...]))
                    }
                    if case .done(let count) = step {
                        written += count
                        continue
                    }
                    if case .ended(let reason) = step { return reason }
                    if step == .wantsToWrite { events |= Int16(POLLOUT) }
                    break
                }
                var isReading = true
                readsLeft = Self.readsMax
                while isReading, readsLeft > 0 {
                    readsLeft -= 1
                    switch link.read(into: buffer) {
                    case .done(let count):
                        var chunk = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                        do {
                            while let frame = try splitter.next(from: &chunk) {
                                let said = try NodeFrame.decode(type: frame.type, body: frame.body)
                                if case .hello = said {
                                    splitter.frameBytesMax = NodeLimits.frameBytesMax
                                }
                                guard received(said) else {
                                    if written == waiting.count {
                                        Self.tellLast(outbox, over: link)
                                    }
                                    return "the link was given up"
                                }
                            }
                        } catch {
                            let reason = "a frame is not understood: \(error)"
                            outbox.push(
                                NodeFrame.error(MartletError(.protocolViolation, reason)).bytes)
                            if written == waiting.count { Self.tellLast(outbox, over: link) }
                            return reason
                        }
                    case .wantsToRead: isReading = false
                    case .wantsToWrite:
                        events |= Int16(POLLOUT)
                        isReading = false
                    case .ended(let reason): return reason
                    }
                }
            }
            var polls = [
                pollfd(fd: descriptor, events: events, revents: 0),
                // `poll` ignores negative descriptors.
                pollfd(
                    fd: written == waiting.count ? outbox.event : -1, events: Int16(POLLIN),
                    revents: 0),
            ]
            // TLS may have bytes that the socket no longer has.
            _ = poll(&polls, 2, readsLeft == 0 ? 0 : 100)
            guard !outbox.isClosed, tick() else { return "the link was given up" }
            // Before the handshake we take nothing from the outbox. A wake-up that we left would end every wait at once.
            if !isOpen { outbox.drainWakes() }
        }
    }
}
