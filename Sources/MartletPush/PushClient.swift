// SPDX-License-Identifier: Apache-2.0
//
// Sends messages to push services by HTTPS, with HTTP/2 where the service offers it. The broker connects to an address
// that it has looked up and judged itself, so a name cannot lead to another address than the judged one. Redirects are
// not followed either. A slow push service takes its own share of the requests under way, and no more.
// Rests on AsyncHTTPClient and MartletTransport.

import AsyncHTTPClient
package import MartletBase
import MartletFiles
package import MartletTransport
import NIOCore
import NIOHTTP1
import NIOPosix
package import NIOSSL
import Synchronization

/// Sends messages to push services. `close()` must be called before the last reference goes.
package final class PushClient: Sendable {
    /// The settings of a client.
    package struct Configuration: Sendable {
        /// Whether messages may go to an address outside the public Internet.
        package var isAllowed: @Sendable (PeerAddress) -> Bool
        /// Authorities that certify push services.
        package var trustRoots: NIOSSLTrustRoots
        /// Time of a request from its begin to the head of the answer, in seconds.
        package var requestSeconds: Int64 = 30

        package init(
            isAllowed: @escaping @Sendable (PeerAddress) -> Bool = { _ in false },
            trustRoots: NIOSSLTrustRoots = .default
        ) {
            self.isAllowed = isAllowed
            self.trustRoots = trustRoots
        }

        /// Trusts the authorities in a PEM file, and no others.
        /// - Throws: `INVALID_ARGUMENT` for an unusable file.
        package mutating func trust(authoritiesIn file: String) throws(MartletError) {
            do {
                trustRoots = .certificates(
                    try NIOSSLCertificate.fromPEMBytes(EditedText(contentsOf: file).bytes))
            } catch {
                throw MartletError(
                    .invalidArgument, "The authorities in \(file) cannot be read: \(error)",
                    field: "bridge-ca")
            }
        }
    }

    /// Time in which a connection must stand, in seconds.
    private static let connectSeconds: Int64 = 10
    /// Connections to a push service that has no HTTP/2.
    private static let plainConnectionsMax = 8
    /// Seconds after which an unused connection closes.
    private static let idleSeconds: Int64 = 60
    /// Requests under way to a push service: as many as streams that HTTP/2 allows by default. A further request is
    /// for later.
    package static let requestsPerOriginMax = 100
    /// Push services with connections at a time. Beyond, the least recently used service goes.
    package static let originsMax = 256
    /// Seconds for which an address of a name is believed.
    private static let addressSeconds: Int64 = 300
    /// Bytes read of an answer, for the log.
    private static let answerBytesMax = 4096
    private static let reasonCharactersMax = 200

    private struct State {
        var isOpen = true
        var lanes: [String: PushLane] = [:]
    }

    private let configuration: Configuration
    private let state = Mutex(State())

    package init(_ configuration: Configuration) { self.configuration = configuration }

    /// Sends a message, and waits for the answer.
    package func send(_ request: PushRequest) async -> PushAnswer {
        guard !request.endpoint.isPlain else {
            return .refused(status: nil, reason: "the endpoint is not https")
        }
        let lane: PushLane
        switch await self.lane(to: request.endpoint) {
        case .success(let found): lane = found
        case .failure(let refusal): return refusal.answer
        }
        defer { leave(lane) }
        do {
            let answer = try await lane.client.execute(
                Self.message(request), timeout: .seconds(configuration.requestSeconds))
            let now = Self.secondsSince1970
            let retryAfter = answer.headers.first(name: "retry-after")
            let status = Int(answer.status.code)
            // An answer is read so that its connection can be used again. A long answer is given up.
            let body = try? await answer.body.collect(upTo: Self.answerBytesMax)
            return PushAnswer(
                status: status, retryAfter: retryAfter, reason: Self.shown(body, status), now: now)
        } catch let error as HTTPClientError where error.isOfRequest {
            return .refused(
                status: nil, reason: "no valid request: \(error.shortDescription)")
        } catch {
            lane.fail()
            return .later(status: nil, reason: "no answer: \(error)", seconds: nil)
        }
    }

    /// Ends all connections. Requests under way fail.
    package func close() async {
        let lanes = state.withLock { state in
            state.isOpen = false
            defer { state.lanes = [:] }
            return Array(state.lanes.values)
        }
        for lane in lanes {
            _ = lane.retire()
            try? await lane.client.shutdown()
        }
    }

    // MARK: Requests

    private static func message(_ request: PushRequest) -> HTTPClientRequest {
        var message = HTTPClientRequest(url: request.endpoint.url)
        message.method = .POST
        message.headers.add(name: "ttl", value: String(request.timeToLiveSeconds))
        message.headers.add(name: "urgency", value: request.urgency.rawValue)
        message.headers.add(name: "authorization", value: request.authorization)
        if let topic = request.topic { message.headers.add(name: "topic", value: topic) }
        if !request.body.isEmpty {
            message.headers.add(name: "content-encoding", value: "aes128gcm")
            message.headers.add(name: "content-type", value: "application/octet-stream")
        }
        message.body = .bytes(ByteBuffer(bytes: request.body))
        return message
    }

    /// The reason for the log: the beginning of the answer, printable characters alone.
    private static func shown(_ body: ByteBuffer?, _ status: Int) -> String {
        let text = body.map { String(buffer: $0) } ?? ""
        let printable = text.unicodeScalars.map { $0.value >= 0x20 && $0.value != 0x7F ? $0 : " " }
        return "HTTP \(status) "
            + String(String.UnicodeScalarView(printable).prefix(reasonCharactersMax))
    }

    private static var secondsSince1970: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec)
    }

    // MARK: Push services

    private struct Refusal: Error {
        let answer: PushAnswer
        static let isBusy = Refusal(
            answer: .later(
                status: nil, reason: "as many requests as allowed are under way", seconds: nil))
        static let isClosed = Refusal(
            answer: .later(status: nil, reason: "the broker stops", seconds: nil))
    }

    private func lane(to endpoint: PushEndpoint) async -> Result<PushLane, Refusal> {
        let now = Self.secondsSince1970
        let (known, isOpen) = state.withLock { ($0.lanes[endpoint.origin], $0.isOpen) }
        guard isOpen else { return .failure(.isClosed) }
        if let known, known.end > now {
            return known.enter(now) ? .success(known) : .failure(.isBusy)
        }
        let addresses: [PeerAddress]
        do {
            addresses = try await NIOThreadPool.singleton.runIfActive {
                try HostAddresses.find(endpoint.host)
            }
        } catch {
            return .failure(
                Refusal(answer: .later(status: nil, reason: "\(error)", seconds: nil)))
        }
        let allowed = addresses.filter { $0.isPublic || configuration.isAllowed($0) }
        guard !allowed.isEmpty else {
            let reason =
                "the host's address is not public: \(addresses.first?.description ?? "none")"
            return .failure(Refusal(answer: .refused(status: nil, reason: reason)))
        }
        return enter(endpoint, allowed, now)
    }

    /// Enters the lane to an address of the host.
    private func enter(
        _ endpoint: PushEndpoint, _ addresses: [PeerAddress], _ now: Int64
    ) -> Result<PushLane, Refusal> {
        var retired: [PushLane] = []
        defer { for lane in retired { end(lane) } }
        return state.withLock { state in
            guard state.isOpen else { return .failure(.isClosed) }
            var address = addresses[0]
            if let known = state.lanes[endpoint.origin] {
                // Another request may have looked the name up meanwhile.
                if known.end > now || known.serves(addresses) {
                    known.extend(to: now + Self.addressSeconds)
                    return known.enter(now) ? .success(known) : .failure(.isBusy)
                }
                // A name whose address did not answer gets its next address.
                address = addresses.first { $0 != known.address } ?? address
                retired.append(known)
            } else if state.lanes.count >= Self.originsMax {
                let least = state.lanes.values.min { $0.used < $1.used }
                guard let least, least.isIdle else { return .failure(.isBusy) }
                state.lanes[least.origin] = nil
                retired.append(least)
            }
            let lane = PushLane(
                origin: endpoint.origin, address: address, client: client(endpoint, address),
                end: now + Self.addressSeconds)
            state.lanes[endpoint.origin] = lane
            return lane.enter(now) ? .success(lane) : .failure(.isBusy)
        }
    }

    private func client(_ endpoint: PushEndpoint, _ address: PeerAddress) -> HTTPClient {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.shutdownTimeout = .milliseconds(Limits.tlsCloseMilliseconds)
        tls.trustRoots = configuration.trustRoots
        var settings = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow,
            timeout: .init(
                connect: .seconds(Self.connectSeconds),
                read: .seconds(configuration.requestSeconds)),
            connectionPool: .init(
                idleTimeout: .seconds(Self.idleSeconds),
                concurrentHTTP1ConnectionsPerHostSoftLimit: Self.plainConnectionsMax))
        settings.connectionPool.retryConnectionEstablishment = false
        settings.dnsOverride = [endpoint.host: address.description]
        return HTTPClient(
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup.singleton),
            configuration: settings)
    }

    private func leave(_ lane: PushLane) { if lane.leave() { shutDown(lane) } }

    private func end(_ lane: PushLane) { if lane.retire() { shutDown(lane) } }

    private func shutDown(_ lane: PushLane) {
        let client = lane.client
        Task { try? await client.shutdown() }
    }
}

/// The connections to one push service at one address.
private final class PushLane: Sendable {
    private struct State {
        var requests = 0
        var isRetired = false
        var hasFailed = false
        var used: Int64 = 0
        var end: Int64
    }

    let origin: String
    let address: PeerAddress
    let client: HTTPClient
    private let state: Mutex<State>

    init(origin: String, address: PeerAddress, client: HTTPClient, end: Int64) {
        self.origin = origin
        self.address = address
        self.client = client
        state = Mutex(State(end: end))
    }

    /// Second from which on the name is looked up again.
    var end: Int64 { state.withLock { $0.end } }

    /// Notes that the address did not answer, so that the next request looks the name up.
    func fail() {
        state.withLock { state in
            state.end = 0
            state.hasFailed = true
        }
    }

    /// Notes that the name still has the address.
    func extend(to end: Int64) {
        state.withLock { state in
            state.end = max(state.end, end)
            state.hasFailed = false
        }
    }

    /// Whether the lane goes on for a name with these addresses: the lane's is among them, and has answered, or there
    /// is no other.
    func serves(_ addresses: [PeerAddress]) -> Bool {
        let hasFailed = state.withLock { $0.hasFailed }
        return addresses.contains(address) && (!hasFailed || addresses.count == 1)
    }

    /// Second of the last request.
    var used: Int64 { state.withLock { $0.used } }

    var isIdle: Bool { state.withLock { $0.requests == 0 } }

    /// - Returns: false if no further request may be under way.
    func enter(_ now: Int64) -> Bool {
        state.withLock { state in
            guard state.requests < PushClient.requestsPerOriginMax, !state.isRetired else {
                return false
            }
            state.requests += 1
            state.used = now
            return true
        }
    }

    /// - Returns: whether the client ends, because the lane has retired and this was its last request.
    func leave() -> Bool {
        state.withLock { state in
            state.requests -= 1
            return state.isRetired && state.requests == 0
        }
    }

    /// Lets no further request in.
    /// - Returns: whether the client ends, because no request is under way.
    func retire() -> Bool {
        state.withLock { state in
            guard !state.isRetired else { return false }
            state.isRetired = true
            return state.requests == 0
        }
    }
}
