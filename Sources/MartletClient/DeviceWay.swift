// SPDX-License-Identifier: Apache-2.0
//
// The two ways of a device to the broker: a connection of its own, or a channel of a shared connection. Rests on
// `Dialer` and `DeviceConnection`.

import MartletBase
import MartletWire
import NIOCore

enum DeviceWay: Sendable {
    case own(Dialer)
    case shared(DeviceConnection)

    init(host: String, port: Int, _ options: DeviceOptions) {
        self = .own(
            Dialer(
                [BrokerAddress(host: host, port: port)] + options.fallbacks,
                eventLoop: options.eventLoopGroup.next(),
                settings: ConnectionSettings(options.heartbeat, options.encryption)))
    }

    var eventLoop: any EventLoop {
        switch self {
        case .own(let dialer): dialer.eventLoop
        case .shared(let connection): connection.eventLoop
        }
    }

    var isShared: Bool {
        if case .shared = self { true } else { false }
    }

    // The members below run on the event loop.

    var heartbeat: Duration {
        switch self {
        case .own(let dialer): dialer.settings.pace.interval
        case .shared(let connection): connection.assumeIsolated { $0.heartbeat }
        }
    }

    func open(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        switch self {
        case .own(let dialer): dialer.open(hello, connection: connection, owner: owner)
        case .shared(let shared):
            shared.assumeIsolated { shared in
                shared.attach(hello, connection: connection, owner: owner)
            }
        }
    }

    /// Stores a learned pace for the next connection. No effect on a shared connection, because the connection
    /// learns for all apps.
    mutating func learn(_ pace: HeartbeatPace) {
        guard case .own(var dialer) = self else { return }
        dialer.settings.pace = pace
        self = .own(dialer)
    }
}
