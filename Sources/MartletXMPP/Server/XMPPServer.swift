// SPDX-License-Identifier: Apache-2.0
//
// The XMPP connection server as a service: TLS listeners, a certificate that can be reloaded, and a shutdown that lets app
// servers finish what is unacknowledged (GW-10). Rests on ServerCore and NIO.

import Glibc
import Logging
public import Martlet
import MartletGateway
import MartletTransport
import NIOCore
import NIOPosix
import NIOSSL
public import ServiceLifecycle
import Synchronization

/// Serves app servers over XMPP until a graceful shutdown. List it after the broker's service.
public final class XMPPServer: Service {
    private let core: ServerCore
    private let certificate: ServerCertificate
    private let tls: NIOSSLContext
    private let group = MultiThreadedEventLoopGroup.singleton
    private let bound: EventLoopPromise<[UInt16]>

    /// Makes a server and reads its certificate. `run()` opens the listening sockets.
    /// - Throws: `INVALID_ARGUMENT` for a certificate or key that cannot be used.
    public convenience init(
        _ broker: Broker, _ configuration: XMPPConfiguration
    ) throws(MartletError) {
        try self.init(broker, configuration, fault: nil, isDrained: nil)
    }

    /// - Parameters:
    ///   - fault: a hook for tests: called before a send, which is then refused with the returned error.
    ///   - isDrained: a hook for tests: whether the node is drained; nil asks the broker.
    package init(
        _ broker: Broker, _ configuration: XMPPConfiguration,
        fault: (@Sendable (OutgoingMessage) -> MartletError?)?,
        isDrained: (@Sendable () -> Bool)?
    ) throws(MartletError) {
        certificate = try ServerCertificate(
            configuration.certificate, setting: configuration.certificateSetting)
        do { tls = try NIOSSLContext(configuration: certificate.configuration) } catch {
            throw MartletError(
                .invalidArgument, "\(error)",
                field: configuration.certificateSetting + "-certificate")
        }
        core = ServerCore(
            broker, configuration, fault, isDrained: isDrained ?? { broker.isDrained })
        bound = group.next().makePromise(of: [UInt16].self)
    }

    deinit { bound.fail(CancellationError()) }

    /// The settings that the server was made with.
    public var configuration: XMPPConfiguration { core.configuration }

    /// Open connections, signed in or not.
    package var connectionCount: Int { core.connectionCount }

    /// The ports, in the order of the addresses. Waits until the server listens.
    /// - Throws: the reason why it can't listen.
    public func ports() async throws -> [UInt16] { try await bound.futureResult.get() }

    /// Reads certificate and key again (OPS-11). New connections get the new certificate. If it has changed, open connections
    /// are sent CONNECTION_DRAINING; they close once everything is acknowledged, or after a minute.
    /// - Throws: `INVALID_ARGUMENT` if a file cannot be used, and why. The old certificate then stays in use.
    public func reloadCertificate() throws(MartletError) {
        guard try certificate.reload() else { return }
        core.forEach { $0.drain(for: .certificate) }
    }

    /// Serves until a graceful shutdown. Then every app server gets CONNECTION_DRAINING, and five seconds to finish what is
    /// unacknowledged.
    /// - Throws: the reason why it can't listen.
    public func run() async throws {
        let channels: [any Channel]
        do { channels = try await listen() } catch {
            bound.fail(error)
            throw error
        }
        bound.succeed(channels.map { UInt16($0.localAddress?.port ?? 0) })
        let core = core
        let eventLoop = group.next()
        let looking = eventLoop.scheduleRepeatedTask(
            initialDelay: .zero, delay: .milliseconds(XMPPLimits.receiptsMilliseconds)
        ) { _ in
            core.lookForReceipts()
            core.rest()
        }
        let watch = Task { [certificate] in
            await certificate.watch(by: core.broker, core.logger)
        }
        // Let app servers finish, after a cancellation as after a graceful shutdown.
        try? await gracefulShutdown()
        watch.cancel()
        looking.cancel()
        for channel in channels { try? await channel.close() }
        core.forEach { $0.drain(for: .shutdown) }
        let limit = eventLoop.scheduleTask(in: .seconds(XMPPLimits.shutdownSecondsMax + 1)) {
            core.forEach { $0.endAtOnce() }
        }
        try? await core.empty(on: eventLoop).get()
        limit.cancel()
    }

    private func listen() async throws -> [any Channel] {
        var channels: [any Channel] = []
        for address in core.configuration.addresses {
            do {
                channels.append(
                    try await bootstrap().bind(host: address.host, port: Int(address.port)).get())
            } catch {
                for channel in channels { try? await channel.close() }
                throw Self.explained(error, address)
            }
        }
        return channels
    }

    private func bootstrap() -> ServerBootstrap {
        let (core, tls) = (core, tls)
        return ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptPauseHandler("XMPP", core.logger))
                }
            }
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(
                    minimum: 64, initial: 1024, maximum: XMPPLimits.strangerReadBytesMax)
            )
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let address =
                        channel.remoteAddress?.ipAddress.flatMap { PeerAddress($0) } ?? .loopback
                    let pipeline = channel.pipeline.syncOperations
                    let handler = AppServerHandler(core, address: address)
                    if !handler.isProxy {
                        try pipeline.addHandler(HandshakeTurnHandler(core.turns, address))
                    }
                    try pipeline.addHandler(NIOSSLServerHandler(context: tls))
                    try pipeline.addHandler(handler)
                }
            }
    }

    /// Adds the address, because the system's error names only the reason.
    private static func explained(
        _ error: any Error, _ address: BrokerConfiguration.Address
    ) -> any Error {
        guard let error = error as? IOError else { return error }
        let reason = TransportError.listening(
            "listen", errno: error.errnoCode, address: address.host, port: address.port)
        return MartletError(.unavailable, reason.description, field: "xmpp")
    }
}
