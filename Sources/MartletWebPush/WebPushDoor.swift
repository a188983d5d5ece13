// SPDX-License-Identifier: Apache-2.0
//
// The Web Push door: application servers send over HTTP (GW-12), user agents receive over WebSockets (GW-13). A user agent's
// channel is an instance of one project and app, and a message to it is an opaque message (MSG-11). So the mailbox,
// reports, quotas and doze work as for any instance. Rests on Broker and MartletGateway.

package import CoreMetrics
package import Martlet
package import MartletGateway
import NIOCore

/// The Web Push interface of a broker.
package final class WebPushDoor: GatewayDoor {
    let broker: Broker
    let configuration: WebPushConfiguration
    let endpoints: Endpoints
    let tokens = VerifiedTokens()
    let agents: AgentBook
    let counts: PushCounts

    /// - Throws: `INVALID_ARGUMENT` without an origin, if the project doesn't exist, or if there is no port on which the door
    ///   can reach the broker.
    package init(
        _ broker: Broker, _ configuration: WebPushConfiguration, _ gateway: GatewayConfiguration
    ) throws(MartletError) {
        guard let origin = configuration.origins.first else {
            throw MartletError(
                .invalidArgument, "Web Push needs the origin at which senders reach it.",
                field: "web-push-origin")
        }
        do throws(MartletError) {
            _ = try broker.project(configuration.project)
        } catch {
            guard error.word == .notFound else { throw error }
            throw MartletError(
                .invalidArgument,
                "Web Push has no project '\(configuration.project)'; "
                    + "'martlet project create \(configuration.project)' makes it.",
                field: "web-push-project")
        }
        guard let port = broker.plainPort else {
            throw MartletError(
                .invalidArgument,
                "Web Push needs a plain listener on this machine, such as --listen 127.0.0.1:0,plain.",
                field: "listen")
        }
        let secret: [UInt8]
        do { secret = try broker.webPushSecret() } catch {
            throw MartletError(.invalidArgument, "\(error)", field: "web-push-origin")
        }
        self.broker = broker
        self.configuration = configuration
        endpoints = Endpoints(secret: secret, origin: origin)
        counts = PushCounts()
        agents = AgentBook(
            broker: broker, port: port, configuration: configuration, endpoints: endpoints,
            counts: counts, logger: gateway.logger)
    }

    package func begin(with metrics: any MetricsFactory) { counts.begin(with: metrics) }

    package func recognises(path: String) -> Bool {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[1] == "wpush" else { return false }
        switch parts[2] {
        case "f": return endpoints.endpoint(String(parts[3]), isBound: false) != nil
        case "m": return endpoints.message(String(parts[3])) != nil
        default: return false
        }
    }

    package func webSocket(for call: GatewayCall) -> WebSocketOffer? {
        guard (2...3).contains(call.path.count), call.path[0] == "wpush",
            call.path[1] == "connect"
        else { return nil }
        let key = call.path.count == 3 && !call.path[2].isEmpty ? call.path[2] : nil
        var offered: [String] = []
        for header in call.headers where header.name == "sec-websocket-protocol" {
            offered += header.value.split(separator: ",").map { $0.filter { $0 != " " } }
        }
        let agents = agents
        return WebSocketOffer(
            subprotocol: offered.contains("push-notification") ? "push-notification" : nil,
            messageBytesMax: AgentHandler.messageBytesMax
        ) { peer in
            AgentHandler(agents, registrationKey: key, peer: peer)
        }
    }
}
