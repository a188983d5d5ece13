// SPDX-License-Identifier: Apache-2.0
//
// The gateway of the program: from the options of a command line to a served gateway. Rests on MartletCommand,
// MartletBridge, MartletGateway, MartletConsole, MartletWebPush, MartletXMPP and swift-service-lifecycle.

import Logging
import Martlet
import MartletBridge
import MartletCommand
import MartletConsole
import MartletGateway
import MartletTransport
import MartletWebPush
import MartletXMPP
import ServiceLifecycle

struct HTTPGateway: GatewayPart {
    func prepare(
        _ broker: Broker, _ options: GatewayOptions, logger: Logger
    ) throws(MartletError) -> any PreparedGateway {
        // Before anything listens: a start that fails because of one port must not welcome clients on another.
        if let address = options.address { try Self.requireFree(address, field: "http") }
        for address in options.xmppAddresses { try Self.requireFree(address, field: "xmpp") }
        let webPush = try Self.webPush(broker, options, logger)
        return PreparedHTTPGateway(
            broker: broker, logger: logger,
            http: options.address == nil
                ? nil : try Self.http(broker, options, webPush, logger),
            xmpp: options.xmpp.isEmpty ? nil : try Self.xmpp(broker, options, logger),
            bridge: options.apns || options.webClients
                ? try Self.bridge(broker, options, webPush, logger) : nil)
    }

    private static func requireFree(
        _ address: BrokerConfiguration.Address, field: String
    ) throws(MartletError) {
        do throws(TransportError) {
            try ListeningSocket.requireFree(address: address.host, port: address.port)
        } catch {
            throw MartletError(.unavailable, "\(error)", field: field)
        }
    }

    private static func webPush(
        _ broker: Broker, _ options: GatewayOptions, _ logger: Logger
    ) throws(MartletError) -> WebPushDoor? {
        guard options.address != nil, !options.webPushOrigin.isEmpty else { return nil }
        var origins: [PushOrigin] = []
        for text in options.webPushOrigin { origins.append(try PushOrigin(text)) }
        return try WebPushDoor(
            broker, WebPushConfiguration(origins: origins, project: options.webPushProject),
            options.configuration(logger: logger))
    }

    private static func bridge(
        _ broker: Broker, _ options: GatewayOptions, _ webPush: WebPushDoor?, _ logger: Logger
    ) throws(MartletError) -> BridgeDoor {
        var configuration = BridgeConfiguration()
        configuration.apnsURL = options.apnsURL
        configuration.apnsSandboxURL = options.apnsSandboxURL
        configuration.authorities = options.bridgeCA
        configuration.allowsPrivateAddresses = options.bridgePrivateAddresses
        configuration.logger = logger
        var services: [any PushService] = []
        if options.apns { services.append(try APNsService(configuration, now: { broker.now })) }
        if options.webClients {
            services.append(try WebClientService(broker, configuration, own: webPush))
        }
        return try BridgeDoor(broker, configuration, services: services)
    }

    private static func http(
        _ broker: Broker, _ options: GatewayOptions, _ webPush: WebPushDoor?, _ logger: Logger
    ) throws(MartletError) -> (server: GatewayServer, console: Console?) {
        let configuration = options.configuration(logger: logger)
        let console =
            options.servesConsole
            ? Console(broker, ConsoleConfiguration(isSecure: options.isSecure, logger: logger))
            : nil
        var doors: [any GatewayDoor] = console.map { [$0.door] } ?? []
        if let webPush { doors.append(webPush) }
        if options.webClients { doors.append(WebClientDoor(broker, own: webPush)) }
        return (try GatewayServer(Gateway(broker, configuration, doors: doors)), console)
    }

    private static func xmpp(
        _ broker: Broker, _ options: GatewayOptions, _ logger: Logger
    ) throws(MartletError) -> XMPPServer {
        let isOwn = options.xmppCertificate != nil
        guard let chain = isOwn ? options.xmppCertificate : options.httpCertificate,
            let key = isOwn ? options.xmppKey : options.httpKey
        else {
            throw MartletError(
                .invalidArgument,
                "XMPP is served over TLS alone. Give --xmpp-certificate and --xmpp-key, or those of HTTP.",
                field: "xmpp-certificate")
        }
        var configuration = XMPPConfiguration(certificate: .init(chain: chain, key: key))
        configuration.certificateSetting = isOwn ? "xmpp" : "http"
        configuration.addresses = options.xmppAddresses
        configuration.logger = logger
        return try XMPPServer(broker, configuration)
    }
}

private struct PreparedHTTPGateway: PreparedGateway {
    let broker: Broker
    let logger: Logger
    let http: (server: GatewayServer, console: Console?)?
    let xmpp: XMPPServer?
    let bridge: BridgeDoor?

    /// In the order of their beginnings. The last ends first, and the broker at the end.
    private var services: [any Service] {
        var services: [any Service] = [BrokerService(broker)]
        if let http {
            services.append(http.server)
            if let console = http.console { services.append(ConsoleService(console: console)) }
        }
        if let xmpp { services.append(xmpp) }
        if let bridge { services.append(bridge) }
        return services
    }

    func reloadCertificate() throws(MartletError) { try http?.server.reloadCertificate() }

    func reloadXMPPCertificate() throws(MartletError) { try xmpp?.reloadCertificate() }

    func serve(
        ready: @escaping @Sendable (_ places: GatewayPlaces) async throws -> Void,
        until end: @escaping @Sendable () async -> Void
    ) async throws {
        let group = ServiceGroup(configuration: .init(services: services, logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            tasks.addTask {
                let places = try await places()
                do { try await ready(places) } catch {
                    await group.triggerGracefulShutdown()
                    throw error
                }
                await end()
                await group.triggerGracefulShutdown()
            }
            try await tasks.waitForAll()
        }
    }

    /// Waits until all servers listen.
    private func places() async throws -> GatewayPlaces {
        var places = GatewayPlaces()
        if let server = http?.server {
            let configuration = server.gateway.configuration
            let scheme = configuration.certificate == nil ? "http" : "https"
            let place = HostPort(
                host: configuration.address.host, port: try await server.port())
            places.http = "\(scheme)://\(place)"
        }
        if let xmpp {
            places.xmpp = zip(xmpp.configuration.addresses, try await xmpp.ports())
                .map { "\(HostPort(host: $0.host, port: $1))" }
        }
        return places
    }
}

/// Runs a console until a graceful shutdown, or until its task is cancelled.
private struct ConsoleService: Service {
    let console: Console

    func run() async throws { await cancelWhenGracefulShutdown { await console.run() } }
}

extension GatewayOptions {
    fileprivate func configuration(logger: Logger) -> GatewayConfiguration {
        var configuration = GatewayConfiguration()
        if let address { configuration.address = address }
        if let httpCertificate, let httpKey {
            configuration.certificate = .init(chain: httpCertificate, key: httpKey)
        }
        configuration.allowsPlainElsewhere = httpPlainElsewhere
        configuration.tokenURLs = httpTokenURL
        configuration.accessTokenSeconds = accessTokenSeconds
        configuration.bodyBytesMax = httpBodyBytes
        configuration.requestsMax = httpRequests
        configuration.connectionsMax = httpConnections
        configuration.connectionsPerAddressMax = httpConnectionsPerAddress
        configuration.proxyHeader = httpProxyHeader
        configuration.idleSeconds = httpIdleSeconds
        configuration.requestSeconds = httpRequestSeconds
        configuration.retrySeconds = httpRetrySeconds
        configuration.logger = logger
        return configuration
    }
}
