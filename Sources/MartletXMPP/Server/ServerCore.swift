// SPDX-License-Identifier: Apache-2.0
//
// The shared part of a server's connections: the broker, the open connections, the receipts of each project, and the
// bounds on strangers. Rests on DoorSender and StrangerPlaces.

import Logging
import Martlet
import MartletGateway
import NIOCore
import Synchronization

/// The shared part of a server and its connections.
final class ServerCore: Sendable {
    /// The way to a connection from any thread. It does not keep the connection's memory.
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
        var desks: [String: ReceiptDesk] = [:]
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
    /// A hook for tests: called before a send. The send is refused with the returned error.
    let fault: (@Sendable (OutgoingMessage) -> MartletError?)?
    /// OPS-7: whether the node is drained.
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
    /// - Returns: the number of the connection; nil if the server has too many.
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

    /// OPS-7: sends the app servers of a drained node away. Called again and again, because a sign-in may have been under
    /// way; a connection that drains goes on draining.
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

    /// The receipts of a project, with a connection joined.
    func join(
        _ number: UInt64, _ sender: DoorSender,
        deliver: @escaping @Sendable (NamedReceipt) -> Void
    ) -> ReceiptDesk {
        state.withLock { state in
            let project = sender.project.id
            let desk =
                state.desks[project]
                ?? ReceiptDesk(broker, projectID: project, names, configuration.logger)
            state.desks[project] = desk
            desk.join(number, sender, deliver: deliver)
            return desk
        }
    }

    /// Removes a connection from its desk. A desk ends with its last connection.
    func leave(_ desk: ReceiptDesk, _ number: UInt64, of project: String) {
        state.withLock { state in
            if desk.leave(number), state.desks[project] === desk { state.desks[project] = nil }
        }
    }

    /// Looks for receipts of all projects with connections.
    func lookForReceipts() {
        let desks = state.withLock { Array($0.desks.values) }
        for desk in desks { desk.look(now: broker.now) }
    }
}
