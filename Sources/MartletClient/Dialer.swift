// SPDX-License-Identifier: Apache-2.0
//
// Opens connections. All connections of a client live on the event loop of their owner. Many clients share the
// event loops of the process.

import MartletBase
import MartletWire
package import NIOCore
import NIOPosix

/// Settings for every connection of a client.
struct ConnectionSettings: Sendable {
    var connectTimeout: Duration = .seconds(10)
    var handshakeTimeout: Duration = .seconds(10)
    /// Silence of a connection before a PING.
    var pace: HeartbeatPace
    /// Longest time to wait for the answer to a PING.
    var answerTimeout: Duration
    /// Called on a new connection before the credential leaves. An error ends the connection.
    var beforeHello: (@Sendable () throws(MartletError) -> Void)?
    /// Makes the handler that encrypts a connection to a host; nil: the connection is plain.
    var encryption: Encryption?

    /// Pings a silent connection after `heartbeat` and gives the connection up after another `heartbeat`.
    init(heartbeat: Duration) {
        pace = HeartbeatPace(always: heartbeat)
        answerTimeout = heartbeat
    }

    init(_ heartbeat: HeartbeatOptions, _ encryption: Encryption?) {
        pace = HeartbeatPace(heartbeat)
        answerTimeout = heartbeat.answerTimeout
        self.encryption = encryption
    }
}

/// Adds a handler that encrypts a channel to a host. The handler is in a module of its own, so that this module needs
/// no TLS library.
package struct Encryption: Sendable {
    package let add: @Sendable (any Channel, _ host: String) throws -> Void

    package init(_ add: @escaping @Sendable (any Channel, _ host: String) throws -> Void) {
        self.add = add
    }
}

struct Dialer: Sendable {
    /// The first address, and its fallbacks.
    let addresses: [BrokerAddress]
    let eventLoop: any EventLoop
    var settings: ConnectionSettings

    init(_ addresses: [BrokerAddress], eventLoop: any EventLoop, settings: ConnectionSettings) {
        self.addresses = addresses
        self.eventLoop = eventLoop
        self.settings = settings
    }

    /// Begins to open a connection. The owner is told about the outcome.
    func open(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        open(hello, connection: connection, owner: owner, at: 0)
    }

    /// NET-7: begins to open a connection at the address with an index, and goes on with the next address after a failure.
    private func open(
        _ hello: Hello, connection: UInt64, owner: any ConnectionOwner, at index: Int
    ) {
        let settings = self.settings
        let target = addresses[index]
        ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(settings.connectTimeout))
            .channelOption(.autoRead, value: false)
            // A read takes one chunk, so a client's queue exceeds its bound by one chunk at most.
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let encryption = settings.encryption {
                        try encryption.add(channel, target.host)
                    }
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(
                            connection: connection, hello: hello, settings: settings, owner: owner))
                }
            }
            .connect(host: target.host, port: target.port)
            .hop(to: eventLoop)
            .whenFailure { [weak owner] error in
                guard let owner else { return }
                guard index + 1 == addresses.count else {
                    return open(hello, connection: connection, owner: owner, at: index + 1)
                }
                owner.connectionClosed(
                    MartletError(
                        .unavailable,
                        "No connection to \(target) (\(Self.reason(error))); is a broker there?"),
                    connection: connection)
            }
    }

    /// Describes the error of the last address tried, without the surrounding error types.
    private static func reason(_ error: any Error) -> String {
        guard let error = error as? NIOConnectionError else { return "\(error)" }
        if let single = error.connectionErrors.last { return "\(single.error)" }
        if let unknown = error.dnsAError ?? error.dnsAAAAError { return "\(unknown)" }
        return "no address"
    }
}

extension MartletError {
    /// True if a connection refused with this error must not be tried again. Waiting does not make credentials
    /// valid, and a replaced connection would only replace the other connection in turn.
    var isFinal: Bool {
        switch word {
        case .unavailable, .resourceExhausted, .quotaExceeded, .internal, .deadlineExceeded,
            .protocolViolation:
            false
        case .invalidArgument, .unauthenticated, .permissionDenied, .notFound, .alreadyExists,
            .unregistered, .senderIDMismatch, .tooManyTopics, .replaced:
            true
        }
    }
}
