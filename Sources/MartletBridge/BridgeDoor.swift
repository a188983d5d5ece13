// SPDX-License-Identifier: Apache-2.0
//
// The door to foreign push services, as a service in the process (GW-11). Instances with an address are attached to the broker
// as sessions of this door, so their messages come by the one way of delivery; the door hands them over, and acknowledges what
// a service has taken. One node of a cluster hands over (OPS-7). Rests on DoorShift.

import Logging
public import Martlet
import NIOCore
import NIOPosix
public import ServiceLifecycle

/// Hands messages to foreign push services until a graceful shutdown. List the door behind the broker's service.
public final class BridgeDoor: Service {
    private let broker: Broker
    private let configuration: BridgeConfiguration
    private let services: [any PushService]
    private let port: UInt16

    /// Makes a door to Apple's push service.
    /// - Throws: `INVALID_ARGUMENT` without a port on which the door reaches the broker, and for a URL or a file that
    ///   cannot be used.
    public convenience init(
        _ broker: Broker, _ configuration: BridgeConfiguration = BridgeConfiguration()
    ) throws(MartletError) {
        try self.init(
            broker, configuration, services: [try APNsService(configuration) { broker.now }])
    }

    /// Makes a door to some push services.
    package init(
        _ broker: Broker, _ configuration: BridgeConfiguration, services: [any PushService]
    ) throws(MartletError) {
        guard let port = broker.plainPort else {
            throw MartletError(
                .invalidArgument,
                """
                Push services need a plain listener on this machine, such as --listen \
                127.0.0.1:0,plain.
                """, field: "listen")
        }
        (self.broker, self.configuration) = (broker, configuration)
        (self.services, self.port) = (services, port)
    }

    /// Serves until a graceful shutdown. Then messages on their way have five seconds to end; the others wait in the
    /// store.
    public func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        let (broker, services, port, logger) = (broker, services, port, configuration.logger)
        let shift = try await eventLoop.submit {
            let counts = BridgeCounts(broker.metricsFactory)
            let shift = DoorShift(broker, eventLoop) {
                DoorCore(
                    broker, port: port, services: services, counts: counts, logger: logger,
                    eventLoop: eventLoop)
            }
            return NIOLoopBound(shift, eventLoop: eventLoop)
        }.get()
        broker.bridges.watchRole { isHandingOver in
            eventLoop.execute {
                if isHandingOver { shift.value.begin() } else { shift.value.end() }
            }
        }
        try? await gracefulShutdown()
        broker.bridges.watchRole(nil)
        eventLoop.execute { shift.value.end() }
        for _ in 0..<(BridgeLimits.shutdownSecondsMax * 20) {
            if try await eventLoop.submit({ shift.value.isQuiet }).get() { break }
            try? await Task.sleep(for: .milliseconds(50))
        }
        eventLoop.execute { shift.value.closeLinks() }
        for service in services { await service.close() }
        try? await group.shutdownGracefully()
    }
}
