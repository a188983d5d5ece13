// SPDX-License-Identifier: Apache-2.0
//
// How senders and administrators connect. They are few and somebody waits for their answers, so a
// connection that died is noticed sooner than a device's.

import MartletBase
import MartletWire
public import NIOCore
import NIOPosix

/// How senders and administrators connect.
public struct ClientOptions: Sendable {
    /// The pauses between attempts to connect.
    public var backoff = Backoff()
    /// Attempts to connect before a request fails.
    public var attemptsMax = 5
    /// How long a connection may be silent before it is pinged; it is given up after twice that.
    public var heartbeat: Duration = .seconds(20)
    public var eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton

    public init() {}

    func client(host: String, port: Int, hello: Hello) -> RequestClient {
        RequestClient(
            dialer: Dialer(
                host: host, port: port, eventLoop: eventLoopGroup.next(),
                settings: ConnectionSettings(heartbeat: heartbeat)),
            hello: hello, backoff: backoff, attemptsMax: attemptsMax)
    }
}
