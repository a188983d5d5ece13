// SPDX-License-Identifier: Apache-2.0
//
// HTTP for a gateway: connections, TLS, bounds on the cost of a peer, and the way from requests to calls. The service
// finishes requests in progress before a graceful shutdown ends. Rests on Hummingbird and NIO.
//
// What a connection meets, in this order; an answer takes the way back. `GuardedChannel` adds the upper half, and `builder`
// below names the lower one.
//
//     accepting    AcceptPauseHandler       on the listening socket: waits while no descriptor is free
//                  ConnectionTable          a place for the connection, or another one ends, or it closes at once
//     bytes        HandshakeTurnHandler     TLS, not from a proxy: unread until HandshakeTurns gives it a turn
//                  NIOSSLServerHandler      TLS, with the certificate of ServerCertificate
//                  PeerBytesHandler         how far a peer is read ahead of its answers: FrameScanner judges frames of
//                                           HTTP/2, RequestTurns lets requests of HTTP/1.1 pass one by one
//     HTTP/1.1     NIO's parser, then       refuses heads by RequestHeadRule, and says which answer of a connection
//                  LastAnswerHandler        is its last
//     HTTP/2       NIO's parser, streams    what follows stands once in each stream
//     requests     RequestTurnHandler       tells PeerBytesHandler where requests begin and answers end
//                  WebSocketUpgradeHandler  hands the connection to a GatewayDoor, for a door's path
//                  StrangerHandler          memory of requests without a right credential: StrangerMemory
//                  SlowPeerHandler          time of a request and of an answer on the network
//                  AnswerWatchHandler       whether an answer was written whole
//     task         GuardedChannel.handle    the connection gets a task with its first request
//                  Responder                makes the request a GatewayCall: admits its head, reads its body within
//                                           BodyMemory, and writes the answer

import Glibc
import HTTPTypes
import HummingbirdCore
import HummingbirdHTTP2
import Logging
public import Martlet
import MartletTransport
import NIOCore
import NIOPosix
public import ServiceLifecycle
import Synchronization

/// Serves a gateway over HTTP until a graceful shutdown.
public final class GatewayServer: Service {
    /// Gateway that answers the requests. Address, certificate and bounds are in its configuration.
    public let gateway: Gateway
    private let server: any Service
    private let connections: ConnectionTable
    /// nil: plain HTTP.
    private let certificate: ServerCertificate?
    private let bound: EventLoopPromise<UInt16>

    /// Makes a server and reads the files of the certificate. `run()` opens the listening socket.
    /// - Throws: `INVALID_ARGUMENT` for a certificate or key that cannot be used, and for plain HTTP on
    ///   an address that other machines reach, unless the configuration allows it.
    public init(_ gateway: Gateway) throws(MartletError) {
        self.gateway = gateway
        let configuration = gateway.configuration
        let group = MultiThreadedEventLoopGroup.singleton
        let bound = group.next().makePromise(of: UInt16.self)
        self.bound = bound
        do {
            let certificate = try configuration.certificate.map {
                (files) throws(MartletError) in try ServerCertificate(files, setting: "http")
            }
            self.certificate = certificate
            let (most, perAddress) = Self.connectionsMax(configuration)
            let connections = ConnectionTable(
                most: most, perAddress: perAddress, configuration.logger)
            self.connections = connections
            let builder = try Self.builder(gateway, certificate, connections)
            let responder = Responder(gateway)
            server = try builder.buildServer(
                configuration: ServerConfiguration(
                    address: .hostname(
                        configuration.address.host, port: Int(configuration.address.port)),
                    backlog: 1024,
                    availableConnectionsDelegate: MaximumAvailableConnections(most)),
                eventLoopGroup: group, logger: configuration.logger,
                responder: { (request, writer, channel) in
                    try await responder.respond(to: request, writer, on: channel)
                },
                onServerRunning: { channel in
                    let port = channel.localAddress?.port ?? 0
                    gateway.port.store(port, ordering: .relaxed)
                    await Self.pauseAccepting(channel, configuration.logger)
                    gateway.broker.tellGateway(gateway.tokenURL)
                    bound.succeed(UInt16(port))
                })
        } catch {
            bound.fail(error)
            throw error as? MartletError
                ?? MartletError(.invalidArgument, "\(error)", field: "http")
        }
    }

    deinit { bound.fail(CancellationError()) }

    /// Serves until a graceful shutdown, and returns when every request is answered.
    /// - Throws: the error that ended the server.
    public func run() async throws {
        defer { gateway.broker.tellGateway(nil) }
        let watch = certificate.map { certificate in
            Task { await certificate.watch(by: gateway.broker, gateway.configuration.logger) }
        }
        defer { watch?.cancel() }
        do {
            // Connections begin on an event loop too.
            let loop = MultiThreadedEventLoopGroup.singleton.next()
            try await withTaskExecutorPreference(LoopExecutor(loop)) { try await server.run() }
            await connections.waitForWebSockets()
            bound.fail(CancellationError())
        } catch {
            let error = explained(error)
            bound.fail(error)
            throw error
        }
    }

    /// OPS-11: reads certificate and key again. New connections get the new certificate; open connections stay.
    /// Without TLS the call has no effect.
    /// - Throws: `INVALID_ARGUMENT` with the reason why a file cannot be used. The certificate then stays as it was.
    public func reloadCertificate() throws(MartletError) { _ = try certificate?.reload() }

    /// The address in words, where the system names only the reason.
    private func explained(_ error: any Error) -> any Error {
        guard let error = error as? IOError else { return error }
        let address = gateway.configuration.address
        let reason = TransportError.listening(
            "listen", errno: error.errnoCode, address: address.host, port: address.port)
        return MartletError(.unavailable, reason.description, field: "http")
    }

    /// The bound port; waits until the server listens.
    /// - Throws: the reason for which the server cannot listen.
    public func port() async throws -> UInt16 { try await bound.futureResult.get() }

    /// Adds an `AcceptPauseHandler`. A failure is ignored, because a closed channel accepts no connection.
    private static func pauseAccepting(_ channel: any Channel, _ logger: Logger) async {
        try? await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.addHandler(
                AcceptPauseHandler("HTTP", logger), position: .first)
        }.get()
    }

    /// OPS-5: the bounds on connections, as far as the process has descriptors. Half of the descriptors are for the
    /// device port and files. An address then has a quarter of the connections.
    private static func connectionsMax(
        _ configuration: GatewayConfiguration
    ) -> (all: Int, perAddress: Int) {
        let (most, perAddress) = (
            configuration.connectionsMax, configuration.connectionsPerAddressMax
        )
        let possible = max(OpenDescriptors.raiseLimit(to: 2 * most) / 2, 1)
        guard possible < most else { return (most, perAddress) }
        configuration.logger.warning(
            "fewer HTTP connections are possible than configured; raise the limit of descriptors",
            metadata: ["configured": "\(most)", "possible": "\(possible)"])
        return (possible, min(perAddress, max(1, possible / 4)))
    }

    private static func builder(
        _ gateway: Gateway, _ certificate: ServerCertificate?, _ connections: ConnectionTable
    ) throws -> HTTPServerBuilder {
        let configuration = gateway.configuration
        let requestTime = TimeAmount.seconds(Int64(configuration.requestSeconds))
        let idleTime = TimeAmount.seconds(Int64(configuration.idleSeconds))
        let stream = HTTP1Channel.Configuration(
            additionalChannelHandlers: [
                RequestTurnHandler(gateway), WebSocketUpgradeHandler(gateway),
                StrangerHandler(gateway),
                SlowPeerHandler(requestTime), AnswerWatchHandler(),
            ],
            idleTimeout: idleTime,
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: Limits.httpHeadBytesMax,
                maxHeaderListSize: Limits.httpHeadBytesMax,
                maxHeaderFieldCount: Limits.httpHeaderFieldsMax))
        guard let certificate else {
            try requireLoopback(configuration)
            return HTTPServerBuilder { responder in
                GuardedChannel(
                    HTTP1Channel(responder: responder, configuration: stream),
                    gateway, handshakeLimit: nil, requestLimit: requestTime,
                    connections: connections)
            }
        }
        let tls = certificate.configuration
        let connection = HTTP2ChannelConfiguration(
            idleTimeout: .seconds(configuration.idleSeconds),
            gracefulCloseTimeout: .seconds(configuration.requestSeconds),
            streamConfiguration: stream)
        return HTTPServerBuilder { responder in
            GuardedChannel(
                try HTTP2UpgradeChannel(
                    tlsConfiguration: tls, configuration: connection, responder: responder),
                gateway, handshakeLimit: .seconds(Int64(Limits.httpHandshakeSeconds)),
                requestLimit: requestTime, connections: connections)
        }
    }

    /// Requires a loopback address, because credentials over plain HTTP must not leave this machine.
    /// - Throws: `INVALID_ARGUMENT` for another address, unless the configuration allows plain HTTP there.
    private static func requireLoopback(
        _ configuration: GatewayConfiguration
    ) throws(MartletError) {
        let host = configuration.address.host
        guard configuration.allowsPlainElsewhere || configuration.address.isLoopback else {
            throw MartletError(
                .invalidArgument,
                "\(host) is reached from other machines, and without a certificate credentials go "
                    + "there in plain text. Give --http-certificate and --http-key, or allow it with "
                    + "--http-plain-elsewhere, behind a proxy that does TLS.", field: "http")
        }
    }
}
