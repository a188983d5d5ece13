// SPDX-License-Identifier: Apache-2.0
//
// A broker with a project, a server key and a gateway, called without HTTP, and devices that are
// connected to it. Rests on MartletGateway and MartletClient.

import Foundation
import Logging
import Martlet
import MartletClient
import MartletGateway
import Synchronization
import Testing

/// Whether a node is drained, as a test decides.
final class DrainSign: Sendable {
    private let state = Atomic(false)

    var isSet: Bool { state.load(ordering: .acquiring) }
    func set(_ isSet: Bool) { state.store(isSet, ordering: .releasing) }
}

/// A running broker, and a gateway in front of it.
final class GatewayWorld: Sendable {
    static let project = "tides"

    let folder: TestFolder
    let broker: Broker
    let gateway: Gateway
    let serverKey: String
    let senderID: UInt64

    private init(
        _ folder: TestFolder, _ broker: Broker, _ gateway: Gateway, serverKey: String,
        senderID: UInt64
    ) {
        self.folder = folder
        self.broker = broker
        self.gateway = gateway
        self.serverKey = serverKey
        self.senderID = senderID
    }

    /// - Parameters:
    ///   - faults: what the gateway answers in its place.
    ///   - drain: whether the node is drained; nil: as the broker says.
    ///   - doors: further interfaces of the gateway.
    ///   - settings: settings of the broker that differ from a test's.
    ///   - change: settings of the gateway that differ from a test's.
    static func open(
        in folder: TestFolder = TestFolder(), clock: TestClock? = nil, faults: Faults? = nil,
        drain: DrainSign? = nil, doors: [any GatewayDoor] = [],
        broker settings: (inout BrokerConfiguration) -> Void = { _ in },
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws -> GatewayWorld {
        let broker = try await folder.open(clock: clock, settings)
        if (try? broker.project(project)) == nil { _ = try await broker.createProject(project) }
        let key = try await broker.createServerKey(named: "test", in: project)
        var configuration = GatewayConfiguration()
        configuration.address.port = 0
        configuration.logger.logLevel = .critical
        change(&configuration)
        let isDrained: (@Sendable () -> Bool)? = drain.map { sign in { @Sendable in sign.isSet } }
        return GatewayWorld(
            folder, broker,
            Gateway(
                broker, configuration, doors: doors, isDrained: isDrained,
                fault: { faults?.take($0) }),
            serverKey: key.text, senderID: try broker.project(project).senderID)
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
