// SPDX-License-Identifier: Apache-2.0
//
// What a server's connections share: the broker, the list of connections, each project's receipts, and the places for
// strangers. Rests on DoorSender and StrangerPlaces.

import Logging
import Martlet
import MartletGateway
import NIOCore
import Synchronization

/// What a server and its connections share.
final class ServerCore: Sendable {
    /// Reaches a connection from any thread, without keeping it in memory.
    struct Port: Sendable {
        private final class Reference {
            weak var handler: AppServerHandler?
            init(_ handler: AppServerHandler) { self.handler = handler }
        }

        let eventLoop: any EventLoop
        private let reference: NIOLoopBound<Reference>

        /// Called on the event loop.
        init(_ handler: AppServerHandler, _ eventLoop: any EventLoop) {
            self.eventLoop = eventLoop
            reference = NIOLoopBound(Reference(handler), eventLoop: eventLoop)
        }

        /// Runs a body on the connection's event loop, if the connection is open then.
        func run(_ body: @escaping @Sendable (AppServerHandler) -> Void) {
            let reference = reference
            eventLoop.execute { Self.run(reference, body) }
        }

        /// Runs a body after a time, if the connection is open then.
        func run(after time: TimeAmount, _ body: @escaping @Sendable (AppServerHandler) -> Void) {
            let reference = reference
            eventLoop.scheduleTask(in: time) { Self.run(reference, body) }
        }

        private static func run(
            _ reference: NIOLoopBound<Reference>, _ body: (AppServerHandler) -> Void
        ) {
            guard let handler = reference.value.handler, handler.context != nil else { return }
            body(handler)
        }
    }

    private struct State {
        var lastNumber: UInt64 = 0
        var connections: [UInt64: Port] = [:]
        var dispatchers: [String: ReceiptDispatcher] = [:]
        /// Waits for the last connection to end.
        var emptied: EventLoopPromise<Void>?
    }

    let broker: Broker
    let configuration: XMPPConfiguration
    let names: MessageNames
    let strangers: StrangerPlaces
    let turns = HandshakeTurns()
    let refusalLog: RefusalLog
    let metrics: XMPPMetrics
    /// A hook for tests: called before a send, which is then refused with the returned error.
    let fault: (@Sendable (OutgoingMessage) -> MartletError?)?
    /// Whether this node is drained (OPS-7).
    let isDrained: @Sendable () -> Bool
    private let state = Mutex(State())

    var logger: Logger { configuration.logger }

    init(
        _ broker: Broker, _ configuration: XMPPConfiguration,
        _ fault: (@Sendable (OutgoingMessage) -> MartletError?)?,
        isDrained: @escaping @Sendable () -> Bool
    ) {
        self.isDrained = isDrained
        self.broker = broker
        self.fault = fault
        self.configuration = configuration
        names = MessageNames(in: broker.folder, now: broker.now, configuration.logger)
        strangers = StrangerPlaces(
            most: configuration.strangersMax, perAddress: configuration.strangersPerAddressMax)
        refusalLog = RefusalLog(configuration.logger)
        metrics = XMPPMetrics(broker)
    }

    // MARK: Connections

    var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Counts a connection.
    /// - Returns: the connection's number; nil if there are too many.
    func enter(_ port: Port) -> UInt64? {
        state.withLock { state in
            guard state.connections.count < configuration.connectionsMax else { return nil }
            state.lastNumber += 1
            state.connections[state.lastNumber] = port
            metrics.connected(state.connections.count)
            return state.lastNumber
        }
    }

    func leave(_ number: UInt64) {
        let emptied = state.withLock { state -> EventLoopPromise<Void>? in
            state.connections[number] = nil
            metrics.connected(state.connections.count)
            guard state.connections.isEmpty else { return nil }
            return state.emptied.take()
        }
        emptied?.succeed()
    }

    /// Runs a body on each connection's event loop.
    func forEach(_ body: @escaping @Sendable (AppServerHandler) -> Void) {
        for port in state.withLock({ Array($0.connections.values) }) { port.run(body) }
    }

    /// Sends app servers away from a drained node (OPS-7). Called repeatedly, because a sign-in may have been under way. It
    /// does nothing to connections that are draining already.
    func rest() {
        guard isDrained() else { return }
        forEach { $0.drain(for: .rest) }
    }

    /// Completes when no connection is left.
    func empty(on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        state.withLock { state in
            guard !state.connections.isEmpty else { return eventLoop.makeSucceededVoidFuture() }
            if let emptied = state.emptied { return emptied.futureResult }
            let promise = eventLoop.makePromise(of: Void.self)
            state.emptied = promise
            return promise.futureResult
        }
    }

    // MARK: Receipts

    /// The project's dispatcher, which the connection has joined.
    func join(
        _ number: UInt64, _ sender: DoorSender,
        deliver: @escaping @Sendable (NamedReceipt) -> Void
    ) -> ReceiptDispatcher {
        state.withLock { state in
            let project = sender.project.id
            let dispatcher =
                state.dispatchers[project]
                ?? ReceiptDispatcher(broker, projectID: project, names, configuration.logger)
            state.dispatchers[project] = dispatcher
            dispatcher.join(number, sender, deliver: deliver)
            return dispatcher
        }
    }

    /// Removes a connection from its dispatcher. The last one takes the dispatcher with it.
    func leave(_ dispatcher: ReceiptDispatcher, _ number: UInt64, of project: String) {
        state.withLock { state in
            if dispatcher.leave(number), state.dispatchers[project] === dispatcher {
                state.dispatchers[project] = nil
            }
        }
    }

    /// Looks for new receipts of every project that has a connection.
    func lookForReceipts() {
        let dispatchers = state.withLock { Array($0.dispatchers.values) }
        for dispatcher in dispatchers { dispatcher.look(now: broker.now) }
    }
}
