// SPDX-License-Identifier: Apache-2.0
//
// The door to other push services, as a service in the process (GW-11). Instances with an address there are attached to the
// broker as this door's sessions, so their messages take the same path as all others. The door hands them over and
// acknowledges what a push service has taken. Of several nodes only one hands over (OPS-7). Rests on DoorShift.

import Logging
public import Martlet
import MartletCommitter
import NIOCore
import NIOPosix
public import ServiceLifecycle

/// Hands messages to other push services until a graceful shutdown. List it after the broker's service.
public final class BridgeDoor: Service {
    private let broker: Broker
    private let configuration: BridgeConfiguration
    private let services: [any PushService]
    private let port: UInt16

    /// Makes a door to Apple's push service.
    /// - Throws: `INVALID_ARGUMENT` if there is no port on which the door can reach the broker, or if a URL or a file can't be
    ///   used.
    public convenience init(
        _ broker: Broker, _ configuration: BridgeConfiguration = BridgeConfiguration()
    ) throws(MartletError) {
        try self.init(
            broker, configuration, services: [try APNsService(configuration) { broker.now }])
    }

    /// Makes a door to these push services.
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

    /// Serves until a graceful shutdown. Then messages on their way get five seconds; the others stay in the store.
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
