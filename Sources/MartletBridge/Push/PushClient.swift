// SPDX-License-Identifier: Apache-2.0
//
// Sends messages to push services over HTTPS, with HTTP/2 if the service offers it. The client looks the address up and
// checks it before it connects to exactly that address, so a name can't switch to a private one in between. It follows no
// redirects. A slow push service uses up only its own share of requests.
// Rests on AsyncHTTPClient and MartletTransport.

import AsyncHTTPClient
import Martlet
import MartletClient
import MartletFiles
import MartletTransport
import NIOCore
import NIOHTTP1
import NIOPosix
package import NIOSSL
import Synchronization

/// Sends messages to push services. Call `close()` before dropping the last reference.
package final class PushClient: Sendable {
    /// The settings of a client.
    package struct Configuration: Sendable {
        /// Whether we may call this address. Anyone may register an endpoint URL, so unless private addresses are rejected
        /// a stranger could make the broker call hosts inside the operator's network (SSRF).
        package var isAllowed: @Sendable (PeerAddress) -> Bool
        /// The authorities that vouch for push services.
        package var trustRoots: NIOSSLTrustRoots
        /// Seconds from the start of a request to the head of its answer.
        package var requestSeconds: Int64 = 30

        package init(
            isAllowed: @escaping @Sendable (PeerAddress) -> Bool = { _ in false },
            trustRoots: NIOSSLTrustRoots = .default
        ) {
            self.isAllowed = isAllowed
            self.trustRoots = trustRoots
        }

        /// Trusts only the authorities in a PEM file.
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

    /// Seconds to connect in.
    private static let connectSeconds: Int64 = 10
    /// Connections to a push service without HTTP/2.
    private static let plainConnectionsMax = 8
    /// Idle seconds before a connection closes.
    private static let idleSeconds: Int64 = 60
    /// Requests in flight to one push service: as many as HTTP/2 allows streams by default. Past this a message has to wait.
    package static let requestsPerOriginMax = 100
    /// Push services that we keep connections to. Past this the least recently used one goes.
    package static let originsMax = 256
    /// Seconds for which we rely on a name's address.
    private static let addressSeconds: Int64 = 300
    /// Bytes of an answer that we read, for the log.
    private static let answerBytesMax = 4096
    private static let reasonCharactersMax = 200

    private struct State {
        var isOpen = true
        var lanes: [String: PushLane] = [:]
    }

    private let configuration: Configuration
    private let state = Mutex(State())

    package init(_ configuration: Configuration) { self.configuration = configuration }

    /// Sends a message and waits for the answer.
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
            // Read the answer so that the connection can be reused, unless it is too long to bother.
            let body = try? await answer.body.collect(upTo: Self.answerBytesMax)
            return PushAnswer(
                status: status, retryAfter: retryAfter, reason: Self.shown(body, status), now: now)
        } catch let error as HTTPClientError where error.isOfRequest {
            return .refused(
                status: nil, reason: "no valid request: \(error.shortDescription)")
        } catch {
            lane.fail()
            return .later(status: nil, reason: "no answer: \(Self.words(error))", seconds: nil)
        }
    }

    /// Why a request has no answer.
    package static func words(_ error: any Error) -> String {
        (error as? HTTPClientError)?.shortDescription ?? NetworkFailure.words(error)
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

    /// The reason for the log: the start of the answer, without unprintable characters.
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
                status: nil, reason: "too many requests are under way", seconds: nil))
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

    /// Takes a place in the lane to the host's address.
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
                // The known address didn't answer, so try the next one.
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

    /// When the name has to be looked up again, in seconds.
    var end: Int64 { state.withLock { $0.end } }

    /// The address didn't answer: the next request looks the name up.
    func fail() {
        state.withLock { state in
            state.end = 0
            state.hasFailed = true
        }
    }

    /// The name still has this address.
    func extend(to end: Int64) {
        state.withLock { state in
            state.end = max(state.end, end)
            state.hasFailed = false
        }
    }

    /// Whether we can go on using the lane, now that the name has these addresses: its own is among them, and either it has
    /// answered or there is no other.
    func serves(_ addresses: [PeerAddress]) -> Bool {
        let hasFailed = state.withLock { $0.hasFailed }
        return addresses.contains(address) && (!hasFailed || addresses.count == 1)
    }

    /// When the last request came, in seconds.
    var used: Int64 { state.withLock { $0.used } }

    var isIdle: Bool { state.withLock { $0.requests == 0 } }

    /// - Returns: false if the lane is full.
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

    /// - Returns: whether to close the client: the lane has retired and this was its last request.
    func leave() -> Bool {
        state.withLock { state in
            state.requests -= 1
            return state.isRetired && state.requests == 0
        }
    }

    /// Lets no more requests in.
    /// - Returns: whether to close the client: no request is in flight.
    func retire() -> Bool {
        state.withLock { state in
            guard !state.isRetired else { return false }
            state.isRetired = true
            return state.requests == 0
        }
    }
}
