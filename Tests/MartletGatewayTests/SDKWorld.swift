// SPDX-License-Identifier: Apache-2.0
//
// A gateway that is served over HTTP, with the file of a service account for the official clients.
// Rests on ServedGateway and PythonClients.

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

/// A served gateway, and the credentials of an official client.
struct SDKWorld {
    let served: ServedGateway
    let faults: Faults
    /// Path of the service account's file.
    let credentials: String

    var world: GatewayWorld { served.world }
    var broker: Broker { served.broker }
    var url: String { served.url }

    /// Serves until the body ends.
    static func run(
        _ change: (inout BrokerConfiguration) -> Void = { _ in },
        _ body: (SDKWorld) async throws -> Void
    ) async throws {
        let faults = Faults()
        try await ServedGateway.run(faults: faults, broker: change) { served in
            let account = try await served.newAccount()
            let file = served.world.folder.url.appending(path: "service-account.json")
            try account.file.json.write(to: file, atomically: true, encoding: .utf8)
            try await body(SDKWorld(served: served, faults: faults, credentials: file.path))
        }
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
