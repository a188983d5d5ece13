// SPDX-License-Identifier: Apache-2.0
//
// A listening TCP socket, opened with ordinary system calls because opening is rare. Every loop opens its own
// socket on the same port (SO_REUSEPORT), and the kernel spreads connections over the sockets. Accepted sockets
// inherit the options set here, so no option costs a call per connection. Rests on TransportError.

internal import Glibc
import MartletBase

package struct ListeningSocket: ~Copyable {
    package let descriptor: Int32
    package let port: UInt16

    /// Connections that may wait for accept. The kernel clamps the number to net.core.somaxconn (4096).
    static let backlog: Int32 = 4096

    /// Milliseconds after which a connection is dead whose peer has not answered what was sent, or has had no room for
    /// more (RFC 5482). A peer without a network says nothing, and the kernel alone knows whether bytes arrived; left to
    /// itself it tries for a quarter of an hour. Less than a minute, so that nobody counts as connected for longer than
    /// that, and not much less: a tunnel takes a device off the network for some time, and a busy peer may rest from
    /// reading.
    static let unansweredMilliseconds: Int32 = 50_000

    /// Throws if the port is in use. The check is needed because SO_REUSEPORT, which the loops of one broker need,
    /// would share the port with another broker of the same user, and each broker would get half of the
    /// connections. The kernel closes a ring's sockets some time after the ring, so the check waits up to a second
    /// for a broker that just ended. A broker calls this once, before its first loop listens.
    package static func requireFree(address: String, port: UInt16) throws(TransportError) {
        var attemptsLeft = 50
        while true {
            attemptsLeft -= 1
            do {
                return try bindAlone(address: address, port: port)
            } catch TransportError.addressInUse where attemptsLeft > 0 {
                usleep(20_000)
            }
        }
    }

    private static func bindAlone(address: String, port: UInt16) throws(TransportError) {
        var storage = try SocketAddress(address: address, port: port)
        let descriptor = socket(
            storage.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else {
            throw TransportError.listening("socket", errno: errno, address: address, port: port)
        }
        defer { Glibc.close(descriptor) }
        var yes: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, size)
        if storage.family == AF_INET6 {
            setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &yes, size)
        }
        guard storage.withPointer({ bind(descriptor, $0, $1) }) == 0 else {
            throw TransportError.listening("bind", errno: errno, address: address, port: port)
        }
    }

    /// Keeps a port until sockets of this process listen on it. Connections are refused meanwhile, and no socket of
    /// another program can take the port.
    package init(reserving address: String, port: UInt16) throws(TransportError) {
        do throws(TransportError) {
            try self.init(
                address: address, port: port, sendBytes: nil, backlog: nil, isShared: false)
        } catch .addressInUse {
            // The last connections of a program without SO_REUSEPORT linger for a minute, and must not bar the start.
            try self.init(address: address, port: port, sendBytes: nil, backlog: nil)
        }
    }

    package init(address: String, port: UInt16, sendBytes: Int?) throws(TransportError) {
        try self.init(address: address, port: port, sendBytes: sendBytes, backlog: Self.backlog)
    }

    /// - Parameters:
    ///   - backlog: nil: the socket does not listen.
    ///   - isShared: whether sockets with SO_REUSEADDR alone may have the port too, until one listens.
    private init(
        address: String, port: UInt16, sendBytes: Int?, backlog: Int32?, isShared: Bool = true
    ) throws(TransportError) {
        func fail(_ operation: String) -> TransportError {
            TransportError.listening(operation, errno: errno, address: address, port: port)
        }
        var storage = try SocketAddress(address: address, port: port)
        let descriptor = socket(
            storage.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw fail("socket") }
        var isOpen = false
        defer { if !isOpen { Glibc.close(descriptor) } }

        func set(_ level: Int32, _ option: Int32, _ value: Int32) -> Bool {
            var value = value
            return setsockopt(
                descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
                == 0
        }
        guard set(SOL_SOCKET, SO_REUSEADDR, isShared ? 1 : 0), set(SOL_SOCKET, SO_REUSEPORT, 1),
            // The loop gathers frames before it sends them, so the kernel's waiting for more would only delay
            // frames.
            set(Int32(IPPROTO_TCP), TCP_NODELAY, 1),
            set(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, Self.unansweredMilliseconds)
        else { throw fail("setsockopt") }
        if let sendBytes {
            guard set(SOL_SOCKET, SO_SNDBUF, Int32(sendBytes)) else { throw fail("setsockopt") }
        }
        // With V6ONLY, :: and 0.0.0.0 can be listened on at the same time, each by its own socket.
        if storage.family == AF_INET6 {
            guard set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) else {
                throw fail("setsockopt")
            }
        }
        guard storage.withPointer({ bind(descriptor, $0, $1) }) == 0 else { throw fail("bind") }
        if let backlog {
            guard Glibc.listen(descriptor, backlog) == 0 else { throw fail("listen") }
        }
        guard storage.withPointer({ getsockname(descriptor, $0, &$1) }) == 0 else {
            throw fail("getsockname")
        }
        isOpen = true
        self.descriptor = descriptor
        self.port = storage.port
    }

    /// Hands over the descriptor; the caller must close it.
    package consuming func take() -> Int32 {
        let descriptor = descriptor
        discard self
        return descriptor
    }

    deinit { Glibc.close(descriptor) }

    /// Whether a failed accept concerns a single connection, already gone, or no connection at all. After any other
    /// failure accepting rests.
    package static func isTransient(acceptErrno: Int32) -> Bool {
        switch acceptErrno {
        case ECONNABORTED, EPROTO, EPERM, EINTR, EAGAIN, ECANCELED, ENETDOWN, ENOPROTOOPT,
            EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH:
            true
        default: false
        }
    }

    /// Closes a descriptor that was taken. An accept still in a ring keeps the socket alive, but `shutdown` ends
    /// listening and frees the port at once.
    package static func close(_ descriptor: Int32) {
        Glibc.shutdown(descriptor, Int32(SHUT_RDWR))
        Glibc.close(descriptor)
    }
}

/// An IPv4 or IPv6 address with a port, in the kernel's form.
struct SocketAddress {
    private var storage = sockaddr_storage()
    private var bytes: socklen_t

    var family: Int32 { Int32(storage.ss_family) }

    /// - Parameter address: an address in numbers, or a name, which stands for its best address.
    init(address: String, port: UInt16) throws(TransportError) {
        guard let numeric = (try? HostAddresses.find(address))?.first?.description else {
            throw .badAddress(address)
        }
        var v4 = in_addr()
        var v6 = in6_addr()
        if inet_pton(AF_INET, numeric, &v4) == 1 {
            bytes = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &storage) { raw in
                raw.storeBytes(
                    of: sockaddr_in(
                        sin_family: sa_family_t(AF_INET), sin_port: port.bigEndian, sin_addr: v4,
                        sin_zero: (0, 0, 0, 0, 0, 0, 0, 0)), as: sockaddr_in.self)
            }
        } else if inet_pton(AF_INET6, numeric, &v6) == 1 {
            bytes = socklen_t(MemoryLayout<sockaddr_in6>.size)
            withUnsafeMutableBytes(of: &storage) { raw in
                raw.storeBytes(
                    of: sockaddr_in6(
                        sin6_family: sa_family_t(AF_INET6), sin6_port: port.bigEndian,
                        sin6_flowinfo: 0, sin6_addr: v6, sin6_scope_id: 0),
                    as: sockaddr_in6.self)
            }
        } else {
            throw .badAddress(address)
        }
    }

    /// The port; IPv4 and IPv6 addresses store the port at the same offset.
    var port: UInt16 {
        withUnsafeBytes(of: storage) {
            UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self))
        }
    }

    mutating func withPointer<R>(
        _ body: (UnsafeMutablePointer<sockaddr>, inout socklen_t) -> R
    ) -> R {
        var bytes = bytes
        return withUnsafeMutableBytes(of: &storage) { raw in
            body(raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), &bytes)
        }
    }
}
