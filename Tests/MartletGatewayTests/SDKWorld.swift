// SPDX-License-Identifier: Apache-2.0
//
// A gateway that is served over HTTP, with the file of a service account for the official clients.
// Rests on GatewayWorld and PythonClients.

import Foundation
import Martlet
import MartletGateway
import Synchronization
import Testing

/// What a gateway answers instead of what it would, and how many sends it was asked for.
final class Faults: Sendable {
    private let state = Mutex((error: GatewayError?.none, sendCount: 0))

    func answer(with error: GatewayError?) {
        state.withLock { $0 = (error, 0) }
    }

    var sendCount: Int { state.withLock { $0.sendCount } }

    func take(_ call: GatewayCall) -> GatewayError? {
        guard call.path.last == "messages:send" else { return nil }
        return state.withLock { state in
            state.sendCount += 1
            return state.error
        }
    }
}

/// A world whose gateway has a port.
struct SDKWorld {
    let world: GatewayWorld
    let faults: Faults
    let url: String
    let credentials: String

    var broker: Broker { world.broker }

    /// Serves until the body ends.
    static func run(
        _ change: (inout BrokerConfiguration) -> Void = { _ in },
        _ body: (SDKWorld) async throws -> Void
    ) async throws {
        let faults = Faults()
        let world = try await GatewayWorld.open(faults: faults, change)
        let server = try GatewayServer(world.gateway)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            let url = "http://127.0.0.1:\(try await server.port())"
            let account = try ServiceAccountFile(
                projectID: GatewayWorld.project, tokenURI: url + "/token")
            try await world.broker.createServiceAccount(
                keyID: account.keyID, named: "test", clientEmail: account.clientEmail,
                publicKey: account.publicKey, in: GatewayWorld.project)
            let file = world.folder.appending(path: "service-account.json")
            try account.json.write(to: file, atomically: true, encoding: .utf8)
            try await body(
                SDKWorld(world: world, faults: faults, url: url, credentials: file.path))
            group.cancelAll()
            try? await group.waitForAll()
        }
        try await world.broker.close()
    }

    /// Runs a scenario of `admin_sdk.py`.
    func admin(_ scenario: String, _ arguments: JSONValue = .object([:])) async throws -> JSONValue
    {
        let printed = try await PythonClients.run([
            PythonClients.script("admin_sdk.py"), url, credentials, scenario, arguments.text,
        ])
        return try JSONValue(parsing: printed.trimmingCharacters(in: .whitespacesAndNewlines))
    }
}
