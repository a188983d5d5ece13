// SPDX-License-Identifier: Apache-2.0
//
// A broker among the services of a process (EMB-2): it is there until the group ends, and is closed
// after what was begun before it. Rests on swift-service-lifecycle.

public import Martlet
public import ServiceLifecycle

/// Closes a broker when its group ends (NET-5). Put it before the services that use the broker.
public struct BrokerService: Service {
    private let broker: Broker

    public init(_ broker: Broker) { self.broker = broker }

    public func run() async throws {
        // Cancelled or told to end: what was accepted is finished either way.
        try? await gracefulShutdown()
        try await broker.close()
    }
}
