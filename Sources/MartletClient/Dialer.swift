// SPDX-License-Identifier: Apache-2.0
//
// Opens connections. All connections of a client live on the event loop of their owner. Many clients share the
// event loops of the process.

import MartletBase
import MartletWire
package import NIOCore
import NIOPosix
import Synchronization

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

/// NET-7: the address with which the next attempt to connect begins: the address that answered last. After a broker's
/// refusal the next attempt begins with the address behind.
final class AddressTurn: Sendable {
    private let number = Mutex(0)

    var first: Int { number.withLock { $0 } }
    func begin(at index: Int) { number.withLock { $0 = index } }
}

/// NET-7: a try of one address.
struct ConnectionAttempt: Sendable {
    /// The answer of an address.
    enum Answer {
        /// The broker serves the client.
        case welcome
        /// The broker has said why the connection ends.
        case refusal
        /// The connection ended before a word of the broker: the address is blocked, or has no broker.
        case none
    }

    let hello: Hello
    /// Number of the connection among its owner's connections; the same for all addresses.
    let connection: UInt64
    /// Index of the address.
    var index: Int
    /// Addresses to try, with this address.
    var left: Int
}

struct Dialer: Sendable {
    /// The first address, and its fallbacks.
    let addresses: [BrokerAddress]
    let eventLoop: any EventLoop
    var settings: ConnectionSettings
    private let turn = AddressTurn()

    init(_ addresses: [BrokerAddress], eventLoop: any EventLoop, settings: ConnectionSettings) {
        self.addresses = addresses
        self.eventLoop = eventLoop
        self.settings = settings
    }

    /// Begins to open a connection. The owner is told about the outcome.
    func open(_ hello: Hello, connection: UInt64, owner: any ConnectionOwner) {
        open(
            ConnectionAttempt(
                hello: hello, connection: connection, index: turn.first, left: addresses.count),
            owner: owner)
    }

    /// NET-7: tries an address.
    private func open(_ attempt: ConnectionAttempt, owner: any ConnectionOwner) {
        let settings = self.settings
        let target = addresses[attempt.index]
        ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(settings.connectTimeout))
            .channelOption(.autoRead, value: false)
            // A read takes one chunk, so a client's queue exceeds its bound by one chunk at most.
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let encryption = settings.encryption {
                        try encryption.add(channel, target.host)
                    }
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(
                            attempt, settings: settings, owner: owner,
                            concluded: { conclude(attempt, $0, owner: $1) }))
                }
            }
            .connect(host: target.host, port: target.port)
            .hop(to: eventLoop)
            .whenFailure { [weak owner] error in
                guard let owner, !goOn(after: attempt, owner: owner) else { return }
                owner.connectionClosed(
                    MartletError(
                        .unavailable,
                        "No connection to \(target) (\(NetworkFailure.words(error))); "
                            + "is a broker there?"),
                    connection: attempt.connection)
            }
    }

    /// NET-7: notes how an address has answered.
    /// - Returns: whether another address is tried, so that the owner is not told.
    private func conclude(
        _ attempt: ConnectionAttempt, _ answer: ConnectionAttempt.Answer,
        owner: any ConnectionOwner
    ) -> Bool {
        switch answer {
        case .welcome: turn.begin(at: attempt.index)
        // The broker may ask for a pause, so the other addresses are not asked at once.
        case .refusal: turn.begin(at: (attempt.index + 1) % addresses.count)
        case .none: return goOn(after: attempt, owner: owner)
        }
        return false
    }

    /// Tries the next address.
    /// - Returns: false if all addresses were tried.
    private func goOn(after attempt: ConnectionAttempt, owner: any ConnectionOwner) -> Bool {
        guard attempt.left > 1 else { return false }
        var next = attempt
        next.index = (attempt.index + 1) % addresses.count
        next.left -= 1
        open(next, owner: owner)
        return true
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
            .unregistered, .senderIDMismatch, .tooManyTopics, .replaced, .thirdPartyAuthError:
            true
        }
    }
}
