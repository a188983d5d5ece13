// SPDX-License-Identifier: Apache-2.0
//
// Talks to Apple's push service over HTTP/2. Each project has its own client per environment, because Apple wants only one
// team on a connection. A client keeps its connections, opens as many streams as the server allows, and a new connection
// after a GOAWAY. We look the host's address up before we make a client, so a private address is refused before any byte is
// sent. Rests on async-http-client.
// Source: Apple, "Sending notification requests to APNs".

import AsyncHTTPClient
import Martlet
import MartletFiles
import MartletRows
import MartletTransport
import MartletWire
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Hands messages to Apple.
package actor APNsService: PushService {
    package nonisolated var kind: BridgeKind { .apns }

    /// One of Apple's servers, as one client sees it.
    private struct Server: Sendable {
        let url: String
        let host: String
    }

    private struct Place: Hashable {
        var project: ProjectNumber
        var isSandbox: Bool
        /// Whether it is for messages that keep failing: they get connections of their own (GW-17).
        var isSuspect: Bool
    }

    private enum Connecting: Error { case privateAddress(String), unknownHost(String) }

    private let production: Server
    private let sandbox: Server
    private let authorities: NIOSSLTrustRoots
    private let allowsPrivateAddresses: Bool
    private let tokens = ProviderTokens()
    private let now: @Sendable () -> Instant
    private var clients: [Place: HTTPClient] = [:]
    private var isClosed = false

    /// - Throws: `INVALID_ARGUMENT` if a URL or a file can't be used.
    package init(
        _ configuration: BridgeConfiguration, now: @escaping @Sendable () -> Instant
    ) throws(MartletError) {
        production = try Self.server(configuration.apnsURL, field: "apns-url")
        sandbox = try Self.server(configuration.apnsSandboxURL, field: "apns-sandbox-url")
        allowsPrivateAddresses = configuration.allowsPrivateAddresses
        self.now = now
        guard let file = configuration.authorities else {
            authorities = .default
            return
        }
        do {
            authorities = .certificates(
                try NIOSSLCertificate.fromPEMBytes(EditedText(contentsOf: file).bytes))
        } catch {
            throw MartletError(
                .invalidArgument, "The authorities in \(file) cannot be read: \(error)",
                field: "bridge-ca")
        }
    }

    private static func server(_ url: String, field: String) throws(MartletError) -> Server {
        let prefix = "https://"
        let rest = url.hasPrefix(prefix) ? url.dropFirst(prefix.count) : ""
        let host =
            rest.hasPrefix("[")
            ? rest.dropFirst().prefix { $0 != "]" } : rest.prefix { $0 != ":" && $0 != "/" }
        guard !host.isEmpty, !rest.contains("/") else {
            throw MartletError(
                .invalidArgument,
                "The URL of Apple's push service must look like https://api.push.apple.com.",
                field: field)
        }
        return Server(url: url, host: String(host))
    }

    // MARK: Messages

    package nonisolated func handOver(
        _ message: HandOver, with keys: [OpenBridgeKey]
    ) async -> HandOverAnswer {
        guard case .apns(let address) = message.instance.bridging.address else {
            return .refused(reason: "no address of Apple")
        }
        let request: APNsRequest
        do throws(MartletError) {
            request = try APNsRequest(
                message.message, to: address, holder: message.instance.holder,
                projectID: message.projectID)
        } catch {
            return .refused(reason: "unreadable")
        }
        guard request.payload.count <= BridgeLimits.apnsPayloadBytesMax else {
            return .refused(reason: "PayloadTooLarge")
        }
        var refusal = HandOverAnswer.keyRefused(reason: "no key")
        for key in keys {
            let answer: APNsAnswer
            do {
                let place = Place(
                    project: message.instance.project, isSandbox: address.isSandbox,
                    isSuspect: message.isSuspect)
                answer = try await ask(request, place, with: key)
            } catch {
                return Self.verdict(of: error)
            }
            refusal = answer.verdict
            if case .gone(let reason) = refusal, !request.isForInstance {
                return .refused(reason: reason)
            }
            // Another of the project's keys may be good.
            guard case .keyRefused = refusal else { return refusal }
        }
        return refusal
    }

    private nonisolated func ask(
        _ request: APNsRequest, _ place: Place, with key: OpenBridgeKey
    ) async throws -> APNsAnswer {
        let server = place.isSandbox ? sandbox : production
        let client = try await client(place, server)
        let token = tokens.token(of: key, at: now())
        let answer = try await ask(request, server, client, token)
        guard answer.isTokenExpired else { return answer }
        let renewed = tokens.token(of: key, at: now(), expired: token)
        guard renewed != token else { return answer }
        return try await ask(request, server, client, renewed)
    }

    private nonisolated func ask(
        _ request: APNsRequest, _ server: Server, _ client: HTTPClient, _ token: String
    ) async throws -> APNsAnswer {
        var http = HTTPClientRequest(url: server.url + request.path)
        http.method = .POST
        http.headers.add(name: "authorization", value: "bearer " + token)
        for header in request.headers { http.headers.add(name: header.name, value: header.value) }
        http.body = .bytes(ByteBuffer(bytes: request.payload))
        let response = try await client.execute(
            http, timeout: .seconds(BridgeLimits.answerSeconds))
        let body = try await response.body.collect(upTo: BridgeLimits.answerBytesMax)
        return APNsAnswer(
            status: Int(response.status.code), body: Array(body.readableBytesView),
            retryAfter: response.headers.first(name: "retry-after"))
    }

    /// What to do about a request that got no answer. If our own client won't build it, trying again won't help.
    private static func verdict(of error: any Error) -> HandOverAnswer {
        switch error {
        case let error as HTTPClientError where error.isOfRequest:
            .refused(reason: "no valid request: \(error.shortDescription)")
        case Connecting.privateAddress(let host):
            .later(reason: "\(host) has a private address", afterSeconds: nil)
        case Connecting.unknownHost(let host):
            .later(reason: "\(host) has no address", afterSeconds: nil)
        default: .later(reason: PushClient.words(error), afterSeconds: nil)
        }
    }

    // MARK: Clients

    private func client(_ place: Place, _ server: Server) async throws -> HTTPClient {
        if let known = clients[place] { return known }
        let address = try await address(of: server.host)
        // Another message may have made one meanwhile.
        if let known = clients[place] { return known }
        guard !isClosed else { throw CancellationError() }
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.shutdownTimeout = .milliseconds(Limits.tlsCloseMilliseconds)
        tls.trustRoots = authorities
        tls.minimumTLSVersion = .tlsv12
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls, redirectConfiguration: .disallow,
            timeout: .init(
                connect: .seconds(BridgeLimits.connectSeconds),
                read: .seconds(BridgeLimits.answerSeconds)))
        configuration.httpVersion = .automatic
        configuration.connectionPool.idleTimeout = .minutes(30)
        configuration.connectionPool.retryConnectionEstablishment = false
        if address != server.host { configuration.dnsOverride = [server.host: address] }
        let client = HTTPClient(
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup.singleton),
            configuration: configuration)
        clients[place] = client
        return client
    }

    /// An address of the host: a public one, unless private ones are allowed.
    private func address(of host: String) async throws -> String {
        guard !allowsPrivateAddresses else { return host }
        let found: [PeerAddress]
        do {
            found = try await NIOThreadPool.singleton.runIfActive { try HostAddresses.find(host) }
        } catch is HostAddresses.Failure {
            throw Connecting.unknownHost(host)
        }
        guard let address = found.first(where: \.isPublic) else {
            throw Connecting.privateAddress(host)
        }
        return address.description
    }

    package func keysChanged(of project: ProjectNumber) async {
        for place in clients.keys where place.project == project {
            let client = clients.removeValue(forKey: place)
            try? await client?.shutdown()
        }
    }

    package func close() async {
        isClosed = true
        let all = clients
        clients = [:]
        for client in all.values { try? await client.shutdown() }
    }
}
