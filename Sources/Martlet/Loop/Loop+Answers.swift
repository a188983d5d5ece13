// SPDX-License-Identifier: Apache-2.0
//
// What a loop tells its peers: what came of their commands, and what other threads have for them.
// Rests on the engine's outcomes and MartletWire.

import MartletBase
import MartletCondition
import MartletEngine
import MartletRing
import MartletStore
import MartletWire

extension Loop where Kernel: ~Copyable {
    // MARK: Messages of other threads

    mutating func handle(_ message: LoopMessage) {
        switch message {
        case .fanout(let fanout): begin(fanout)
        case .outcome(let id, let context, let outcome):
            guard let connection = connection(id) else { return }
            connection.pointee.outstanding -= 1
            answer(connection, context, outcome)
            resumeIfDrained(connection)
            closeIfDone(connection)
        case .connected(let project, let ordinal, let number):
            guard let mine = delivery.session(of: ordinal, in: project),
                mine.connectionNumber < number
            else { return }
            replace(connections + Int(mine.index))
        case .disconnect(let project, let ordinal, let holder):
            guard let mine = delivery.session(of: ordinal, in: project) else { return }
            let connection = connections + Int(mine.index)
            // The ordinal's next holder may have been faster than this message.
            if let holder, connection.pointee.principal.holder != holder { return }
            delivery.detach(mine.index)
            connection.pointee.phase = .finishing
            connection.pointee.phaseBegan = lastTick
            transport.pauseReceive(connection.pointee.id)
            closeIfDone(connection)
        case .answer(let id, let frame):
            guard let connection = connection(id) else { return }
            connection.pointee.outstanding -= 1
            send(frame, to: connection)
            resumeIfDrained(connection)
            closeIfDone(connection)
        case .acknowledged: isAcknowledging = false
        case .drain: beginDraining()
        }
    }

    private mutating func answer(
        _ connection: UnsafeMutablePointer<Connection>, _ context: RequestContext,
        _ outcome: Outcome
    ) {
        let correlation = context.correlation
        switch outcome {
        case .refused(let error):
            if case .registration = context.purpose {
                fail(connection, error)
            } else {
                send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
            }
        case .registered(let instance, let project):
            guard case .registration(let deviceKey) = context.purpose,
                connection.pointee.phase == .registering
            else { return }
            welcomeDevice(
                connection, project: project, instance: instance,
                acknowledgedThrough: project.lastSequence, receivedThrough: .none,
                token: instance.token.text, deviceKey: deviceKey)
        case .project(let project):
            send(
                .project(ProjectResult(correlation: correlation, project: ProjectRecord(project))),
                to: connection)
        case .key(let key):
            if case .keyCreation(let serverKey) = context.purpose {
                send(
                    .key(KeyResult(correlation: correlation, keyID: key.id, serverKey: serverKey)),
                    to: connection)
            } else {
                send(.done(Done(correlation: correlation)), to: connection)
            }
        case .done, .unregistered:
            send(.done(Done(correlation: correlation)), to: connection)
        case .topicsChanged(let result):
            let failures = result.failures.map {
                TopicResult.Failure(index: UInt16($0.index), word: $0.word)
            }
            send(
                .topicResult(
                    TopicResult(
                        correlation: correlation, successes: UInt16(result.successCount),
                        failures: failures)), to: connection)
        case .accepted(let acceptance, _):
            send(
                .accepted(
                    Accepted(
                        correlation: correlation, messageNumber: acceptance.messageNumber,
                        recipients: acceptance.recipientCount)), to: connection)
        }
    }

    /// Queues a frame. A peer that lets its answers pile up is disconnected.
    mutating func send(_ frame: BrokerFrame, to connection: UnsafeMutablePointer<Connection>) {
        var bytes = writer.encode(frame)
        if bytes.count > WireVersion.lengthBytes + Limits.brokerFrameBytesMax {
            bytes = writer.encode(
                .error(
                    ErrorFrame(
                        correlation: frame.correlation ?? 0,
                        error: MartletError(
                            .resourceExhausted,
                            "The answer is longer than a frame may be; ask for less."))))
        }
        let target = delivery.reserve(bytes.count, .direct)
        target.copyBytes(from: bytes)
        if !delivery.send(bytes.count, to: connection.pointee.id.index) { close(connection) }
    }
}
