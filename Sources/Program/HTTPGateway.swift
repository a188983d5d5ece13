// SPDX-License-Identifier: Apache-2.0
//
// The gateway of the program: from the options of a command line to a served gateway. Rests on MartletCommand,
// MartletGateway, MartletWebPush and swift-service-lifecycle.

import Logging
import Martlet
import MartletCommand
import MartletGateway
import MartletWebPush
import ServiceLifecycle

struct HTTPGateway: GatewayPart {
    func prepare(
        _ broker: Broker, _ options: GatewayOptions, logger: Logger
    ) throws(MartletError) -> any PreparedGateway {
        let configuration = options.configuration(logger: logger)
        guard !options.webPushOrigin.isEmpty else {
            return PreparedHTTPGateway(
                server: try GatewayServer(Gateway(broker, configuration)))
        }
        var origins: [PushOrigin] = []
        for text in options.webPushOrigin { origins.append(try PushOrigin(text)) }
        let gateway = try Gateway(
            broker, configuration,
            webPush: WebPushConfiguration(origins: origins, project: options.webPushProject))
        return PreparedHTTPGateway(server: try GatewayServer(gateway))
    }
}

private struct PreparedHTTPGateway: PreparedGateway {
    let server: GatewayServer

    func reloadCertificate() throws(MartletError) { try server.reloadCertificate() }

    func serve(
        ready: @escaping @Sendable (_ url: String) async throws -> Void,
        until end: @escaping @Sendable () async -> Void
    ) async throws {
        let configuration = server.gateway.configuration
        let group = ServiceGroup(
            configuration: .init(
                services: [BrokerService(server.gateway.broker), server],
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
