// SPDX-License-Identifier: Apache-2.0
//
// Frames of clients, one after another, in a flat switch: messages, acknowledgements and the requests of devices. A
// request of a sender or an administrator says by itself what the broker does. A change becomes a command for the
// committer, and a question goes to the inquiry. Rests on the engine's commands and RequestHandler.

import Logging
import MartletBase
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    /// Serves a frame. The frame is consumed because a copy of a SEND counts a reference for each of its texts.
    mutating func handle(
        _ frame: consuming ClientFrame, of connection: UnsafeMutablePointer<Connection>
    ) throws {
        guard connection.pointee.phase != .hello else {
            guard case .hello(let hello) = consume frame else {
                throw MartletError(.protocolViolation, "The first frame must be HELLO.")
            }
            return try begin(hello, connection)
        }
        switch consume frame {
        case .hello:
            throw MartletError(.protocolViolation, "HELLO comes once, as the first frame.")
        case .ping(let ping): send(.pong(Pong(value: ping.value)), to: connection)
        case .pong: break
        case .send(let request):
            let correlation = request.correlation
            try answering(correlation, connection) { (loop) throws in
                try loop.serve(request, connection)
            }
        case let other:
            let correlation = other.correlation
            try answering(correlation, connection) { (loop) throws in
                try loop.serve(other, connection)
            }
        }
    }

    /// Serves a request. A refused request does not end the connection, but a violation of the protocol does.
    /// - Parameter correlation: nil for a frame without an answer.
    @inline(__always)
    private mutating func answering(
        _ correlation: UInt32?, _ connection: UnsafeMutablePointer<Connection>,
        _ serve: (inout Self) throws -> Void
    ) throws {
        precondition(
            connection.pointee.phase != .awaitingWelcome,
            "No request is taken from a connection that waits for WELCOME.")
        do {
            if ending.isDraining, correlation != nil {
                throw MartletError(
                    .unavailable, "The broker is stopping; connect again.",
                    retryDelayMilliseconds: context.configuration.reconnectDelayMilliseconds)
            }
            try serve(&self)
        } catch let error as MartletError {
            guard let correlation, error.word != .protocolViolation else { throw error }
            noteRefusal(error, connection)
            send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
        }
    }

    private mutating func serve(
        _ request: SendRequest, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        let project = try connection.pointee.principal.senderProject()
        let correlation = request.correlation
        let message = try SendCommand(request)
        let now = context.clock()
        if NowOrNeverSender.takes(message, at: now), context.committer.sendsNowOrNever {
            try sendNowOrNever(message, in: project, correlation, connection, now)
        } else {
            try ask(.send(project: project, message: message), correlation, connection)
        }
    }

    private mutating func begin(
        _ hello: Hello, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        let isHeld = try holdAfterAbsence(hello, connection) || holdForMarks(hello, connection)
        if isHeld { return }
        do { try open(hello, connection) } catch let error as MartletError {
            if try !holdForNewer(hello, error, connection) {
                try refuse(hello, error, connection)
            }
        }
    }

    private mutating func serve(
        _ frame: ClientFrame, _ connection: UnsafeMutablePointer<Connection>
    ) throws {
        switch frame {
        case .hello, .ping, .pong, .send: invariantFailure("`handle` serves these frames.")
        case .channel:
            throw MartletError(
                .protocolViolation, "Only a connection of role 5 has channels.")
        case .detach:
            guard connection.pointee.isApp else {
                throw MartletError(
                    .protocolViolation, "An app is detached on its channel; close the connection.")
            }
            leave(connection)

        case .acknowledge(let frame):
            guard case .device = connection.pointee.principal else { throw Self.onlyDevices() }
            guard
                delivery.acknowledge(
                    connection.pointee.id.index, through: frame.through, single: frame.streamIDs)
            else {
                throw MartletError(
                    .protocolViolation,
                    "A stream ID above the highest one delivered on this connection was acknowledged."
                )
            }
        case .deviceState(let frame):
            guard case .device = connection.pointee.principal else { throw Self.onlyDevices() }
            delivery.setState(connection.pointee.id.index, frame.state)
            places.origin(of: connection.pointee.id.index).pointee.state = frame.state
        case .receipt(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            // REP-1: the delivery is counted before the receipt, so that no report has more displays than
            // deliveries.
            handOverSent()
            try ask(
                .receipt(
                    project: project, ordinal: ordinal, holder: holder, kind: frame.kind,
                    streamID: frame.streamID), frame.correlation, connection)
        case .rotate(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            try ask(
                .rotate(
                    project: project, ordinal: ordinal, holder: holder, token: Credentials.token()),
                frame.correlation, connection)
        case .apnsToken(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            try ask(
                try bridgeChange(frame, of: ordinal, holder, in: project), frame.correlation,
                connection)
        case .deviceTopics(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            try ask(
                .changeTopics(
                    project: project, ordinal: ordinal, change: frame.operation,
                    topics: frame.topics, holder: holder), frame.correlation, connection)
        case .unregister(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            // Acknowledged messages count as delivered, so acknowledgements go before the unregistration.
            handOverWaiting()
            try ask(
                .unregister(project: project, ordinal: ordinal, holder: holder), frame.correlation,
                connection)

        case .listenReceipts(let frame):
            listen(connection, try connection.pointee.principal.senderProject())
            send(.done(Done(correlation: frame.correlation)), to: connection)
        case .upstream(let frame):
            guard case .device(let project, let ordinal, let holder) = connection.pointee.principal
            else { throw Self.onlyDevices() }
            try ask(
                .upstream(
                    try UpstreamCommand(frame, from: ordinal, holder, in: project)),
                frame.correlation, connection)
        case .listenUpstream(let frame):
            listenUpstream(connection, try connection.pointee.principal.senderProject())
            send(.done(Done(correlation: frame.correlation)), to: connection)
        case .upstreamAcknowledge(let frame): try takeUpstream(frame.numbers, connection)
        case .receiptAcknowledge(let frame):
            let project = try connection.pointee.principal.senderProject()
            guard let sent = connection.pointee.receiptsAfter, frame.through <= sent else {
                throw MartletError(
                    .protocolViolation, "A receipt that was never sent was acknowledged.")
            }
            try ask(
                .takeReceipts(project: project, through: frame.through), 0, connection,
                .receiptsTaken)
        case .request(let frame): try begin(frame, connection)
        }
    }

    /// GW-11: the change that a device asks for. A device without a bundle ID means the name of its app.
    private func bridgeChange(
        _ frame: APNsTokenRequest, of ordinal: Ordinal, _ holder: Holder, in project: ProjectNumber
    ) throws -> Command {
        guard !frame.token.isEmpty else {
            return .changeBridge(
                .removeAddress(project: project, ordinal: ordinal, holder: holder))
        }
        var bundle = frame.bundle
        if bundle.isEmpty {
            bundle = try context.store.read { (transaction) throws in
                guard let instance = try transaction.instances.instance(ordinal, in: project)
                else { return "" }
                return try transaction.projects.app(instance.app, in: project)?.name ?? ""
            }
        }
        return .changeBridge(
            .setAddress(
                project: project, ordinal: ordinal, holder: holder,
                .apns(
                    APNsAddress(token: frame.token, isSandbox: frame.isSandbox, bundle: bundle))))
    }

    /// Carries out the plan for a request, or begins to.
    private mutating func begin(
        _ request: RequestFrame, _ connection: UnsafeMutablePointer<Connection>
    ) throws(MartletError) {
        let served = try context.requests.plan(for: request, of: connection.pointee.principal)
        switch served.plan {
        case .reply(.answer(let answer)): send(answer, to: connection)
        case .reply(.question(let question)):
            let charge = try charge(connection)
            do throws(MartletError) {
                try context.requests.ask(
                    Question(
                        loop: context.number, connection: connection.pointee.id,
                        correlation: served.correlation, charge: charge,
                        isAboutProcess: served.isAboutProcess, answer: question),
                    mustFit: false)
            } catch {
                _ = settled(connection.pointee.id, charge)
                throw error
            }
        case .command(let command, let then):
            if served.comesAfterAcknowledgements { handOverWaiting() }
            try ask(command, served.correlation, connection, .served(then))
        }
    }

    /// Hands a command to the committer. The peer is answered when the command is durable.
    mutating func ask(
        _ command: Command, _ correlation: UInt32,
        _ connection: UnsafeMutablePointer<Connection>,
        _ purpose: RequestContext.Purpose = .request
    ) throws(MartletError) {
        let charge = try charge(connection)
        handOver.append(
            command,
            .connection(
                loop: context.number, connection.pointee.id,
                RequestContext(correlation: correlation, purpose: purpose, charge: charge)))
    }

    // MARK: Roles

    static func onlyDevices() -> MartletError {
        MartletError(.permissionDenied, "Only a device may ask this.")
    }
}
