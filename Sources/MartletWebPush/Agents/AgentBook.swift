// SPDX-License-Identifier: Apache-2.0
//
// What user agents share: the broker, the list of those connected, and each event loop's links to the broker. A user agent
// has one connection; a new one closes the old. Rests on Broker.

import Logging
import Martlet
import MartletBridge
import MartletGateway
import MartletRows
import MartletThreads
import MartletWire
import NIOCore
import Synchronization

/// The user agents of a door.
final class AgentBook: Sendable {
    private struct Connected {
        let number: UInt64
        let replace: @Sendable () -> Void
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var connected: [AgentIdentity: Connected] = [:]
        var pools: [ObjectIdentifier: NIOLoopBound<LinkPool>] = [:]
    }

    let broker: Broker
    let configuration: WebPushConfiguration
    let endpoints: Endpoints
    let counts: PushCounts
    let logger: Logger
    private let port: UInt16
    private let state = Mutex(State())

    init(
        broker: Broker, port: UInt16, configuration: WebPushConfiguration, endpoints: Endpoints,
        counts: PushCounts, logger: Logger
    ) {
        self.broker = broker
        self.port = port
        self.configuration = configuration
        self.endpoints = endpoints
        self.counts = counts
        self.logger = logger
    }

    // MARK: Connections

    /// Adds a user agent's connection, and closes its earlier one.
    /// - Parameter replace: closes this connection; called on any thread.
    /// - Returns: a number for `leave`.
    func enter(_ agent: AgentIdentity, replace: @escaping @Sendable () -> Void) -> UInt64 {
        let (number, former) = state.withLock { state in
            state.lastNumber += 1
            let former = state.connected.updateValue(
                Connected(number: state.lastNumber, replace: replace), forKey: agent)
            return (state.lastNumber, former)
        }
        former?.replace()
        return number
    }

    func leave(_ agent: AgentIdentity, _ number: UInt64) {
        state.withLock { state in
            if state.connected[agent]?.number == number { state.connected[agent] = nil }
        }
    }

    /// The links of an event loop. Call it on that event loop.
    func pool(of eventLoop: any EventLoop) -> LinkPool {
        let key = ObjectIdentifier(eventLoop)
        if let known = state.withLock({ $0.pools[key] }) { return known.value }
        let pool = LinkPool(
            eventLoop: eventLoop, port: port,
            LinkWords(logger, door: "Web Push", name: "Web Push link", closing: .warning))
        let bound = NIOLoopBound(pool, eventLoop: eventLoop)
        state.withLock { $0.pools[key] = bound }
        return pool
    }

    // MARK: The store

    /// Whether the store is as new as a question asked now (OPS-7).
    var isCurrent: Bool { broker.isCurrent }

    /// Waits for the newest rows (OPS-7).
    func newest() async -> Freshness { await broker.newest() }

    /// A user agent's channels, and the tokens of their instances.
    func channels(of agent: AgentIdentity) throws(MartletError) -> [(ChannelID, Token)] {
        try broker.instances(of: agent.digest, in: configuration.project).map {
            (ChannelID(bytes: $0.channel), $0.token)
        }
    }

    /// Registers a channel. If it is registered already, it keeps its token.
    /// - Throws: see `Broker.register(_:app:in:presenting:from:deviceKey:)`.
    func register(
        _ channel: ChannelID, of agent: AgentIdentity, presenting key: String?,
        from peer: WebSocketPeer
    ) async throws(MartletError) -> Token {
        let endpoints = endpoints
        do throws(MartletError) {
            return try await broker.register(
                AgentChannel(agent: agent.digest, channel: channel.bytes), app: configuration.app,
                in: configuration.project, presenting: key.map { .key($0) } ?? .none,
                from: peer.address
            ) { endpoints.deviceKey(of: $0) }
        } catch {
            if error.word == .permissionDenied, key != nil {
                try await peer.refused("registration key")
            }
            throw error
        }
    }

    func unregister(_ token: Token) async throws(MartletError) {
        do throws(MartletError) {
            try await broker.unregister(token.text, in: configuration.project)
        } catch {
            guard error.word == .notFound || error.word == .unregistered else { throw error }
        }
    }

    /// The frame that attaches an instance.
    func hello(_ token: Token, _ state: DeviceState, unconfirmed: [UInt64]) -> Hello {
        .device(
            projectID: configuration.project, token: token.text,
            deviceKey: endpoints.deviceKey(of: token), state: state, unconfirmed: unconfirmed)
    }
}
