// SPDX-License-Identifier: Apache-2.0
//
// A broker as a service of a process (EMB-2). The broker lives until its service group ends, and closes after the
// services listed behind it. Rests on swift-service-lifecycle.

public import Martlet
public import ServiceLifecycle

/// Closes a broker when its service group ends (NET-5). List the broker before the services that use the broker.
public struct BrokerService: Service {
    private let broker: Broker

    /// Makes a service for an open broker. The service takes over the closing of the broker.
    public init(_ broker: Broker) { self.broker = broker }

    /// Waits for a graceful shutdown or a cancellation, and closes the broker. Returns when the broker is closed.
    public func run() async throws {
        // After a cancellation, as after a graceful shutdown, the broker finishes accepted work.
        try? await gracefulShutdown()
        try await broker.close()
    }
}
