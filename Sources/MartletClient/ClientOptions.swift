// SPDX-License-Identifier: Apache-2.0
//
// Connection options of senders and administrators. Senders and administrators are few, and callers wait for their
// answers. So the heartbeat is shorter than a device's, and the client notices a dead connection sooner.

import MartletBase
import MartletWire
public import NIOCore
import NIOPosix

/// Connection options of a sender or administrator.
public struct ClientOptions: Sendable {
    /// Pauses between attempts to connect.
    public var backoff = Backoff()
    /// NET-7: further addresses of the broker. The client tries all addresses in turn in each attempt to connect.
    public var fallbacks: [BrokerAddress] = []
    /// Attempts to connect that fail in a row before the waiting requests fail.
    public var attemptsMax = 5
    /// Longest silence of a connection before the client sends a PING. After a second interval without an answer,
    /// the client closes the connection.
    public var heartbeat: Duration = .seconds(20)
    /// Event loops of the connections. The default is the group shared by the whole process.
    public var eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    /// Called on each new connection, on the event loop, before the credential leaves. An error ends the connection.
    package var beforeHello: (@Sendable () throws(MartletError) -> Void)?
    /// Encrypts the connections; nil: the connections are plain.
    package var encryption: Encryption?

    /// The default options.
    public init() {}

    func client(host: String, port: Int, hello: Hello) -> RequestClient {
        var settings = ConnectionSettings(heartbeat: heartbeat)
        settings.beforeHello = beforeHello
        settings.encryption = encryption
        return RequestClient(
            dialer: Dialer(
                [BrokerAddress(host: host, port: port)] + fallbacks,
                eventLoop: eventLoopGroup.next(), settings: settings),
            hello: hello, backoff: backoff, attemptsMax: attemptsMax)
    }
}
