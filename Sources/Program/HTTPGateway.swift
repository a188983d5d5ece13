// SPDX-License-Identifier: Apache-2.0
//
// The gateway of the program: from the options of a command line to a served gateway. Rests on MartletCommand,
// MartletGateway, MartletConsole, MartletWebPush and swift-service-lifecycle.

import Logging
import Martlet
import MartletCommand
import MartletConsole
import MartletGateway
import MartletWebPush
import ServiceLifecycle

struct HTTPGateway: GatewayPart {
    func prepare(
        _ broker: Broker, _ options: GatewayOptions, logger: Logger
    ) throws(MartletError) -> any PreparedGateway {
        let configuration = options.configuration(logger: logger)
        let console =
            options.servesConsole
            ? Console(broker, ConsoleConfiguration(isSecure: options.isSecure, logger: logger))
            : nil
        var doors: [any GatewayDoor] = console.map { [$0.door] } ?? []
        if !options.webPushOrigin.isEmpty {
            var origins: [PushOrigin] = []
            for text in options.webPushOrigin { origins.append(try PushOrigin(text)) }
            doors.append(
                try WebPushDoor(
                    broker,
                    WebPushConfiguration(origins: origins, project: options.webPushProject),
                    configuration))
        }
        return PreparedHTTPGateway(
            server: try GatewayServer(Gateway(broker, configuration, doors: doors)),
            console: console)
    }
}

private struct PreparedHTTPGateway: PreparedGateway {
    let server: GatewayServer
    let console: Console?

    private var services: [any Service] { console.map { [ConsoleService(console: $0)] } ?? [] }

    func reloadCertificate() throws(MartletError) { try server.reloadCertificate() }

    func serve(
        ready: @escaping @Sendable (_ url: String) async throws -> Void,
        until end: @escaping @Sendable () async -> Void
    ) async throws {
        let configuration = server.gateway.configuration
        let group = ServiceGroup(
            configuration: .init(
                services: [BrokerService(server.gateway.broker), server] + services,
                logger: configuration.logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            tasks.addTask {
                let port = try await server.port()
                let scheme = configuration.certificate == nil ? "http" : "https"
                let host = configuration.address.host
                do {
                    try await ready(
                        "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(port)")
                } catch {
                    await group.triggerGracefulShutdown()
                    throw error
                }
                await end()
                await group.triggerGracefulShutdown()
            }
            try await tasks.waitForAll()
        }
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
        configuration.idleSeconds = httpIdleSeconds
        configuration.requestSeconds = httpRequestSeconds
        configuration.retrySeconds = httpRetrySeconds
        configuration.logger = logger
        return configuration
    }
}
