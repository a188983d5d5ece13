// SPDX-License-Identifier: Apache-2.0
//
// Opens connections. All of a client's connections live on one event loop, the one its owner runs
// on; many clients share the process's event loops.

import MartletBase
import MartletWire
import NIOCore
import NIOPosix

/// What holds for every connection of a client.
struct ConnectionSettings: Sendable {
    var connectTimeout: Duration = .seconds(10)
    var handshakeTimeout: Duration = .seconds(10)
    /// How long a connection may be silent before it is pinged.
    var pace: HeartbeatPace
    /// How long the answer to a ping may take.
    var answerTimeout: Duration

    /// A silent connection is pinged after an interval and given up after another.
    init(heartbeat: Duration) {
        pace = HeartbeatPace(always: heartbeat)
        answerTimeout = heartbeat
    }

    init(_ heartbeat: HeartbeatOptions) {
        pace = HeartbeatPace(heartbeat)
        answerTimeout = heartbeat.answerTimeout
    }
}

struct Dialer: Sendable {
    let host: String
    let port: Int
    let eventLoop: any EventLoop
    var settings: ConnectionSettings

    /// Begins to open a connection; its owner hears how it goes.
    func open(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        let settings = self.settings
        let target = "\(host):\(port)"
        ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(settings.connectTimeout))
            .channelOption(.autoRead, value: false)
            // One chunk a read: what comes past the bound of a client's queue is at most that.
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(
                            connection: connection, hello: hello, settings: settings, owner: owner))
                }
            }
            .connect(host: host, port: port)
            .hop(to: eventLoop)
            .whenFailure { [weak owner] error in
                owner?.connectionClosed(
                    MartletError(
                        .unavailable,
                        "No connection to \(target) (\(Self.reason(error))); is a broker there?"),
                    connection: connection)
            }
    }

    /// In words: the error of the last address tried, without the types around it.
    private static func reason(_ error: any Error) -> String {
        guard let error = error as? NIOConnectionError else { return "\(error)" }
        if let single = error.connectionErrors.last { return "\(single.error)" }
        if let unknown = error.dnsAError ?? error.dnsAAAAError { return "\(unknown)" }
        return "no address"
    }
}

extension MartletError {
    /// Whether a connection refused with this may be tried again. Credentials do not become valid by
    /// waiting, and who was replaced would only replace the other in turn.
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
