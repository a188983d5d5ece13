// SPDX-License-Identifier: Apache-2.0
//
// A world whose gateway has a port and is asked over HTTP. Rests on GatewayWorld.

import Foundation
import Martlet
import MartletClient
import MartletGateway
import ServiceLifecycle
import Testing

/// Suites whose peers block a thread, which a gateway needs: one test at a time.
@Suite("Gateway: over HTTP", .serialized)
struct OverHTTP {}

/// A served gateway, while the body of `run` lasts.
struct ServedGateway {
    static let project = GatewayWorld.project

    let world: GatewayWorld
    let services: ServiceGroup
    let port: UInt16

    var broker: Broker { world.broker }
    var gateway: Gateway { world.gateway }
    var serverKey: String { world.serverKey }
    var url: String { "http://127.0.0.1:\(port)" }

    static func run(
        in folder: TestFolder = TestFolder(), clock: TestClock? = nil, faults: Faults? = nil,
        drain: DrainSign? = nil, doors: [any GatewayDoor] = [],
        broker settings: (inout BrokerConfiguration) -> Void = { _ in },
        _ change: (inout GatewayConfiguration) -> Void = { _ in },
        _ body: (ServedGateway) async throws -> Void
    ) async throws {
        let world = try await GatewayWorld.open(
            in: folder, clock: clock, faults: faults, drain: drain, doors: doors, broker: settings,
            change)
        let server = try GatewayServer(world.gateway)
        let services = ServiceGroup(
            configuration: .init(
                services: [BrokerService(world.broker), server],
                logger: world.gateway.configuration.logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await services.run() }
            let port = try await server.port()
            try await body(ServedGateway(world: world, services: services, port: port))
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    func peer() throws -> HTTPPeer { try HTTPPeer(port: port) }

    /// A registered instance that connects when its messages are asked for.
    func newDevice(app: String = "com.example.tides") async throws -> MartletDevice {
        try await world.newDevice(app: app)
    }

    /// A new service account, known to the broker.
    func newAccount(in project: String = Self.project) async throws -> TestAccount {
        let file = try ServiceAccountFile(projectID: project, tokenURI: url + "/token")
        try await broker.createServiceAccount(
            keyID: file.keyID, named: "test", clientEmail: file.clientEmail,
            publicKey: file.publicKey, in: project)
        return TestAccount(file)
    }
}
