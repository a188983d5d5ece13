// SPDX-License-Identifier: Apache-2.0
//
// A broker with a project, a server key and a gateway, called without HTTP, and devices that are
// connected to it. Rests on MartletGateway and MartletClient.

import Foundation
import Logging
import Martlet
import MartletClient
import MartletGateway
import Testing

/// A running broker, and a gateway in front of it.
final class GatewayWorld: Sendable {
    static let project = "tides"

    let folder: URL
    let broker: Broker
    let gateway: Gateway
    let serverKey: String
    let senderID: UInt64

    private init(
        _ folder: URL, _ broker: Broker, _ serverKey: String, _ senderID: UInt64, _ faults: Faults?
    ) {
        self.folder = folder
        self.broker = broker
        self.serverKey = serverKey
        self.senderID = senderID
        var configuration = GatewayConfiguration()
        configuration.address.port = 0
        configuration.logger.logLevel = .critical
        gateway = Gateway(broker, configuration) { faults?.take($0) }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// - Parameter change: settings that differ from the defaults.
    static func open(
        faults: Faults? = nil, _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> GatewayWorld {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "martlet-gateway-\(UUID().uuidString)")
        var configuration = BrokerConfiguration(folder: folder.path, address: .init(port: 0))
        configuration.loopCount = 1
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        // Tests of a limit set it; the others are about something else.
        configuration.limits = .none
        change(&configuration)
        let broker = try await Broker.open(configuration)
        let project = try await broker.createProject(project).summary
        let key = try await broker.createServerKey(named: "test", in: project.id)
        return GatewayWorld(folder, broker, key.text, project.senderID, faults)
    }

    /// A registered instance that is not connected.
    func newToken(_ platform: Platform = .android, app: String = "com.example.tides") async throws
        -> String
    {
        try await broker.register(app: app, platform: platform, in: Self.project).token
    }

    /// A registered instance that connects when its messages are asked for.
    func newDevice(
        _ platform: Platform = .android, app: String = "com.example.tides"
    ) async throws -> MartletDevice {
        let known = try await broker.register(app: app, platform: platform, in: Self.project)
        var options = DeviceOptions()
        options.acknowledgementDelay = .zero
        return MartletDevice(
            host: "127.0.0.1", port: Int(broker.port!),
            credentials: DeviceCredentials(
                projectID: Self.project, token: known.token, deviceKey: known.deviceKey),
            options: options)
    }

    /// Calls with the server key unless other headers are given; the body may be empty.
    func call(
        _ method: GatewayCall.Method, _ target: String, _ body: String = "",
        headers: [(name: String, value: String)]? = nil
    ) async throws -> (status: Int, json: JSONValue) {
        let call = try #require(
            GatewayCall(
                method, target: target,
                headers: headers ?? [("authorization", "Bearer \(serverKey)")],
                body: Array(body.utf8)))
        let answer = await gateway.answer(call)
        let text = String(decoding: answer.body, as: UTF8.self)
        return (answer.status, (try? JSONValue(parsing: text)) ?? .string(text))
    }
}

/// JSON as a test writes it.
func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text) }
