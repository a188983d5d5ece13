// SPDX-License-Identifier: Apache-2.0
//
// Serves the metrics and the health of a broker on an address of their own (OPS-10, OPS-12), with a gateway or without:
// GET and HEAD of /metrics and /healthz over HTTP/1.1, one request on each connection. One thread polls all connections,
// so a peer that is silent, slow or does not read keeps nobody waiting. Each connection ends after some seconds, and the
// oldest one makes room for the next when there are too many. Rests on POSIX sockets.

import Glibc
import Martlet
import MartletThreads
import MartletTransport
import Synchronization

final class MetricsListener: Sendable {
    private static let requestBytesMax = 8192
    /// Longest time of a connection, in milliseconds.
    private static let connectionMilliseconds: Int64 = 5000
    /// Rest after a failed accept: a descriptor may be free again.
    private static let acceptRestMilliseconds: Int64 = 100

    private let descriptor: Int32
    let port: UInt16
    private let isEnding = Atomic(false)
    private let thread = Mutex<pthread_t?>(nil)
    private let text: @Sendable () -> String
    private let health: @Sendable () -> String?
    private let now: @Sendable () -> Instant
    /// Used by the thread alone, without a wait.
    private let rendered = Mutex(RenderedMetrics())

    /// Listens, and answers from now on.
    /// - Parameters:
    ///   - text: makes the metrics for an answer. The call must not wait for a disk.
    ///   - health: the reason why the broker takes no changes; nil: the broker takes changes.
    ///   - now: the time, for the date of an answer.
    /// - Throws: `UNAVAILABLE` for an address that cannot be listened on.
    init(
        _ address: BrokerConfiguration.Address, text: @escaping @Sendable () -> String,
        health: @escaping @Sendable () -> String?, now: @escaping @Sendable () -> Instant
    ) throws(MartletError) {
        (self.text, self.health, self.now) = (text, health, now)
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
            throw Self.failure("\(String(cString: strerror(code))).")
        }
        thread.withLock { [started] in $0 = started }
    }

    deinit { close(descriptor) }

    /// Ends the thread and its connections.
    func end() {
        isEnding.store(true, ordering: .releasing)
        // Wakes the thread.
        shutdown(descriptor, Int32(SHUT_RDWR))
        if let running = thread.withLock({ $0.take() }) { pthread_join(running, nil) }
    }

    private static func failure(_ reason: String) -> MartletError {
        MartletError(
            .unavailable, "Metrics cannot be served: \(reason)", field: "metrics")
    }

    private static func listen(
        _ address: BrokerConfiguration.Address
    ) throws(MartletError) -> (Int32, UInt16) {
        do throws(TransportError) {
            try ListeningSocket.requireFree(address: address.host, port: address.port)
            let socket = try ListeningSocket(
                address: address.host, port: address.port, sendBytes: nil)
            let port = socket.port
            let descriptor = socket.take()
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
            return (descriptor, port)
        } catch {
            throw failure(error.description)
        }
    }

    // MARK: The thread

    private static func milliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    private func run() {
        // The oldest first.
        var peers: [MetricsPeer] = []
        var acceptsAgain: Int64 = 0
        defer { for peer in peers { close(peer.descriptor) } }
        while !isEnding.load(ordering: .acquiring) {
            let now = Self.milliseconds()
            // The kernel passes over negative descriptors.
            var polled = [
                pollfd(fd: now < acceptsAgain ? -1 : descriptor, events: Int16(POLLIN), revents: 0)
            ]
            for peer in peers {
                let events = peer.isAnswered ? POLLOUT : POLLIN
                polled.append(pollfd(fd: peer.descriptor, events: Int16(events), revents: 0))
            }
            let next = min(peers.first?.endsAt ?? .max, now < acceptsAgain ? acceptsAgain : .max)
            let wait = next == .max ? -1 : Int32(clamping: max(next - now, 0))
            guard poll(&polled, nfds_t(polled.count), wait) >= 0 else {
                if errno != EINTR { usleep(100_000) }
                continue
            }
            let later = Self.milliseconds()
            for index in peers.indices where polled[index + 1].revents != 0 {
                serve(&peers[index])
            }
            for index in peers.indices where peers[index].endsAt <= later {
                peers[index].hasEnded = true
            }
            for peer in peers where peer.hasEnded { close(peer.descriptor) }
            peers.removeAll(where: \.hasEnded)
            guard polled[0].revents != 0 else { continue }
            let accepted = accept(descriptor, nil, nil)
            if accepted >= 0 {
                _ = fcntl(accepted, F_SETFL, O_NONBLOCK)
                _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
                if peers.count == Limits.metricsConnectionsMax {
                    close(peers.removeFirst().descriptor)
                }
                peers.append(
                    MetricsPeer(descriptor: accepted, endsAt: later + Self.connectionMilliseconds))
            } else if !ListeningSocket.isTransient(acceptErrno: errno) {
                acceptsAgain = later + Self.acceptRestMilliseconds
            }
        }
    }

    /// Does what a peer's socket is ready for.
    private func serve(_ peer: inout MetricsPeer) {
        guard peer.isAnswered else {
            var bytes = [UInt8](repeating: 0, count: 1024)
            let count = recv(peer.descriptor, &bytes, bytes.count, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { return }
            guard count > 0, peer.bytes.count + count <= Self.requestBytesMax else {
                peer.hasEnded = true
                return
            }
            peer.bytes += bytes[..<count]
            guard Self.isWhole(peer.bytes) else { return }
            peer.bytes = answer(to: peer.bytes)
            peer.isAnswered = true
            return send(&peer)
        }
        send(&peer)
    }

    private func send(_ peer: inout MetricsPeer) {
        let count = peer.bytes[peer.sentCount...].withUnsafeBytes {
            Glibc.send(peer.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else {
            peer.hasEnded = true
            return
        }
        peer.sentCount += count
        peer.hasEnded = peer.sentCount == peer.bytes.count
    }

    private func answer(to request: [UInt8]) -> [UInt8] {
        guard let request = MetricsRequest(request) else {
            return answer("400 Bad Request", "This is no request of HTTP/1.1.\n")
        }
        guard request.isKnownPath else {
            return answer(
                "404 Not Found", "GET /metrics and GET /healthz are served here.\n",
                hasBody: request.method != "HEAD")
        }
        switch request.method {
        case "GET", "HEAD":
            let isHead = request.method == "HEAD"
            if request.path == "/metrics" {
                return answer(
                    "200 OK", rendered.withLock { $0.bytes(making: text) }, hasBody: !isHead)
            }
            let fault = health()
            return answer(
                fault == nil ? "200 OK" : "503 Service Unavailable", (fault ?? "ok") + "\n",
                hasBody: !isHead)
        case "OPTIONS": return answer("204 No Content", [], allowsMethods: true)
        default:
            return answer(
                "405 Method Not Allowed", Array("This path takes GET and HEAD.\n".utf8),
                allowsMethods: true)
        }
    }

    private func answer(_ status: String, _ body: String, hasBody: Bool = true) -> [UInt8] {
        answer(status, Array(body.utf8), hasBody: hasBody)
    }

    /// - Parameters:
    ///   - hasBody: false for HEAD, whose answer has the length of the body alone.
    ///   - allowsMethods: whether the answer names the methods of the path.
    private func answer(
        _ status: String, _ body: [UInt8], hasBody: Bool = true, allowsMethods: Bool = false
    ) -> [UInt8] {
        var head = "HTTP/1.1 \(status)\r\ndate: \(HTTPDate.text(of: now()))\r\n"
        if allowsMethods { head += "allow: GET, HEAD, OPTIONS\r\n" }
        // RFC 9110, section 8.6: an answer of status 204 has no length.
        if !body.isEmpty {
            head += "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
            head += "content-length: \(body.count)\r\n"
        }
        return Array((head + "connection: close\r\n\r\n").utf8) + (hasBody ? body : [])
    }

    /// Whether the head of a request has come. A body is not read.
    private static func isWhole(_ request: [UInt8]) -> Bool {
        var rest = MetricsRequest.withoutEmptyLines(request)
        while let index = rest.firstIndex(of: 13) {
            rest = rest[index...]
            if rest.starts(with: [13, 10, 13, 10]) { return true }
            rest = rest.dropFirst()
        }
        return false
    }
}

/// The first line of a request, as far as the port of the metrics needs it.
private struct MetricsRequest {
    let method: String
    /// The target without its query. Escapes stay as they are: no path here needs one.
    let path: String

    /// - Returns: nil if the line is none of HTTP/1.0 or HTTP/1.1.
    init?(_ request: [UInt8]) {
        let line = Self.withoutEmptyLines(request).prefix { $0 != 13 && $0 != 10 }
        let words = String(decoding: line, as: UTF8.self).split(
            separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, ["HTTP/1.1", "HTTP/1.0"].contains(words[2]) else { return nil }
        method = String(words[0])
        var target = words[1]
        // Whoever takes the port for a proxy writes the whole URL. Source: RFC 9112, section 3.2.2.
        for scheme in ["http://", "https://"] where target.lowercased().hasPrefix(scheme) {
            target = target.dropFirst(scheme.count).drop { $0 != "/" && $0 != "?" }
        }
        path = String(target.prefix { $0 != "?" })
    }

    var isKnownPath: Bool {
        path == "/metrics" || path == "/healthz" || path == "*" && method == "OPTIONS"
    }

    /// A server passes over empty lines before a request. Source: RFC 9112, section 2.2.
    static func withoutEmptyLines(_ request: [UInt8]) -> ArraySlice<UInt8> {
        request.drop { $0 == 13 || $0 == 10 }
    }
}

/// A connection to the port of the metrics.
private struct MetricsPeer {
    let descriptor: Int32
    /// When the connection ends, in milliseconds of the monotonic clock.
    let endsAt: Int64
    /// The request so far; then the answer.
    var bytes: [UInt8] = []
    var isAnswered = false
    var sentCount = 0
    var hasEnded = false

    init(descriptor: Int32, endsAt: Int64) {
        self.descriptor = descriptor
        self.endsAt = endsAt
    }
}
