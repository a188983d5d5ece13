// SPDX-License-Identifier: Apache-2.0
//
// Serves the metrics and the health of a broker on an address of their own (OPS-10, OPS-12), with a gateway or without:
// GET /metrics and GET /healthz over HTTP/1.1, one connection at a time and one request on each. A collector asks every few seconds, so a thread that
// blocks is enough, and a peer that is silent or slow is dropped after two seconds. Rests on POSIX sockets.

import Dispatch
import Glibc
import Martlet
import MartletTransport
import Synchronization

final class MetricsListener: Sendable {
    private static let requestBytesMax = 8192
    private static let waitSeconds = 2

    private let descriptor: Int32
    let port: UInt16
    private let isEnding = Atomic(false)
    private let thread = Mutex<pthread_t?>(nil)
    private let text: @Sendable () -> String
    private let health: @Sendable () -> String?

    /// Listens, and answers from now on.
    /// - Parameters:
    ///   - text: makes the metrics for an answer.
    ///   - health: the reason why the broker takes no changes; nil: the broker takes changes.
    /// - Throws: `UNAVAILABLE` for an address that cannot be listened on.
    init(
        _ address: BrokerConfiguration.Address, text: @escaping @Sendable () -> String,
        health: @escaping @Sendable () -> String?
    ) throws(MartletError) {
        (self.text, self.health) = (text, health)
        (descriptor, port) = try Self.listen(address)
        var started: pthread_t = 0
        let itself = Unmanaged.passRetained(self)
        let code = pthread_create(
            &started, nil,
            { argument in
                Unmanaged<MetricsListener>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, itself.toOpaque())
        guard code == 0 else {
            itself.release()
            throw Self.failure(address, code)
        }
        thread.withLock { [started] in $0 = started }
    }

    deinit { close(descriptor) }

    /// Ends the thread. Returns when the last answer has gone.
    func end() {
        isEnding.store(true, ordering: .releasing)
        shutdown(descriptor, Int32(SHUT_RDWR))
        if let running = thread.withLock({ $0.take() }) { pthread_join(running, nil) }
    }

    private static func failure(_ address: BrokerConfiguration.Address, _ code: Int32)
        -> MartletError
    {
        MartletError(
            .unavailable,
            "Metrics cannot be served on \(address.host):\(address.port): "
                + "\(String(cString: strerror(code))). Give --metrics another port, or end the program "
                + "that listens there.", field: "metrics")
    }

    private static func listen(
        _ address: BrokerConfiguration.Address
    ) throws(MartletError) -> (Int32, UInt16) {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(address.host, "\(address.port)", &hints, &found) == 0, let found else {
            throw failure(address, EADDRNOTAVAIL)
        }
        defer { freeaddrinfo(found) }
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(found.pointee.ai_family, kind, 0)
        guard descriptor >= 0 else { throw failure(address, errno) }
        var yes: Int32 = 1
        setsockopt(
            descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var place = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let isListening =
            bind(descriptor, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0
            && Glibc.listen(descriptor, 16) == 0
            && withUnsafeMutablePointer(to: &place) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    getsockname(descriptor, $0, &length) == 0
                }
            }
        guard isListening else {
            let code = errno
            close(descriptor)
            throw failure(address, code)
        }
        // The port has the same place in the addresses of IPv4 and IPv6.
        let port = withUnsafeBytes(of: &place) {
            $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self)
        }
        return (descriptor, UInt16(bigEndian: port))
    }

    // MARK: The thread

    private func run() {
        while !isEnding.load(ordering: .acquiring) {
            let peer = accept(descriptor, nil, nil)
            guard peer >= 0 else {
                // Out of descriptors: wait for one.
                if !isEnding.load(ordering: .acquiring), errno != EINTR { usleep(100_000) }
                continue
            }
            answer(peer)
            close(peer)
        }
    }

    private func answer(_ peer: Int32) {
        var wait = timeval(tv_sec: Self.waitSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(
                peer, SOL_SOCKET, option, &wait, socklen_t(MemoryLayout<timeval>.size))
        }
        let end = ContinuousClock.now + .seconds(Self.waitSeconds)
        var request: [UInt8] = []
        while !Self.isWhole(request) {
            var bytes = [UInt8](repeating: 0, count: 1024)
            let count = recv(peer, &bytes, bytes.count, 0)
            guard count > 0, request.count + count <= Self.requestBytesMax, .now < end else {
                return
            }
            request += bytes[..<count]
        }
        let line = String(decoding: request.prefix { $0 != 13 && $0 != 10 }, as: UTF8.self)
        let words = line.split(separator: " ")
        let body: String
        let status: String
        switch (words.first, words.count == 3 ? words[1] : "") {
        case ("GET", "/metrics"): (status, body) = ("200 OK", text())
        case ("GET", "/healthz"):
            let fault = health()
            (status, body) = (
                fault == nil ? "200 OK" : "503 Service Unavailable", (fault ?? "ok") + "\n"
            )
        default:
            (status, body) = ("404 Not Found", "GET /metrics and GET /healthz are served here.\n")
        }
        send(
            Array(
                """
                HTTP/1.1 \(status)\r
                content-type: text/plain; version=0.0.4; charset=utf-8\r
                content-length: \(body.utf8.count)\r
                connection: close\r
                \r
                \(body)
                """.utf8), to: peer)
    }

    private static func isWhole(_ request: [UInt8]) -> Bool {
        let end: [UInt8] = [13, 10, 13, 10]
        return request.suffix(4).elementsEqual(end)
    }

    private func send(_ bytes: [UInt8], to peer: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(peer, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
        shutdown(peer, Int32(SHUT_WR))
    }
}

/// The health of a broker for a thread that may block.
enum Health {
    /// OPS-12: the reason why the broker takes no changes; nil: the broker takes changes. Not to be called by a task.
    static func fault(of broker: Broker) -> String? {
        let isKnown = DispatchSemaphore(value: 0)
        let fault = Mutex<String?>(nil)
        Task {
            do throws(MartletError) {
                try await broker.checkWrites()
            } catch {
                fault.withLock { $0 = error.message }
            }
            isKnown.signal()
        }
        isKnown.wait()
        return fault.withLock { $0 }
    }
}
