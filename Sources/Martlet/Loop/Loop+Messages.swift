// SPDX-License-Identifier: Apache-2.0
//
// What other threads send to a loop: outcomes of commands, answers, fanouts and news. Rests on the engine's
// outcomes and MartletWire.

import MartletBase
import MartletCommitter
import MartletCondition
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire

extension Loop where Kernel: ~Copyable {
    // MARK: Messages of other threads

    mutating func handle(_ message: LoopMessage) {
        switch message {
        case .news(let news): handle(news)
        case .outcome(let id, let context, let outcome):
            guard let connection = settled(id, context.charge) else {
                if case .registered(let instance, _) = outcome { undo(Newcomer(instance)) }
                return
            }
            answer(connection, context, outcome)
            resumeIfDrained(connection)
            closeIfDone(connection)
        case .answer(let id, let charge, let frame):
            guard let connection = settled(id, charge) else { return }
            if case .error(let refusal) = frame { noteRefusal(refusal.error, connection) }
            send(frame, to: connection)
            resumeIfDrained(connection)
            closeIfDone(connection)
        case .acknowledged(let batch, let areStored, let again):
            settleAcknowledgements(batch, areStored, again)
        case .stored(let id, let number):
            delivery.stored(id.index, connectionNumber: number)
        case .notStored(let id):
            // The departure of an ended connection was handed over already. Telling the store of a connection
            // again would revive the connection there.
            guard let connection = connection(id) else { return }
            connection.pointee.forgetSeen(time.second)
            delivery.notStored(id.index)
        case .notUndone(let newcomer): newcomers.notUndone.append(newcomer)
        case .endStrangers(let address): endStrangers(of: address)
        case .upstream(let listener, let messages): sendUpstream(messages, to: listener)
        case .rest(let isResting): rest(isResting)
        case .asked(let question, let surveys, let number):
            surveys.take(look(question), to: number)
        case .runEnded: endRun()
        case .fresh: hellos.mustLookAgain = true
        case .shutDown: beginDraining()
        }
    }

    private mutating func handle(_ news: News) {
        switch news {
        case .fanout(let fanout): begin(fanout)
        case .weight(let project, let weight): delivery.setWeight(weight, of: project)
        case .connected(let project, let ordinal, let number):
            guard let mine = delivery.session(of: ordinal, in: project) else { return }
            if mine.connectionNumber < number {
                replace(places[mine.index])
                handOverUrgent()
            } else if ConnectionNumbers.isBridge(number) {
                // GW-11: the loop with the door's session does not know of the device's connection here.
                tellPeers(.connected(project, ordinal, connectionNumber: mine.connectionNumber))
            }
        case .disconnect(let project, let ordinal, let holder):
            guard let mine = delivery.session(of: ordinal, in: project) else { return }
            let connection = places[mine.index]
            // The ordinal's next holder may have connected already.
            if let holder, connection.pointee.principal.holder != holder { return }
            leave(connection)
        case .cancel(let project, let sequence): delivery.cancel(sequence, in: project)
        case .receipts(let project): listeners.receiptsDue += listeners.byProject[project] ?? []
        case .revoked(let keyID): revoke(keyID)
        }
    }

    /// Sends a due CONFIRMED frame.
    mutating func confirm(_ connection: UnsafeMutablePointer<Connection>) {
        guard let through = delivery.takeConfirmation(connection.pointee.id.index) else { return }
        send(.confirmed(Confirmed(through: through)), to: connection)
    }

    /// Sends the CONFIRMED frames for which no other send came within a tick.
    mutating func sendConfirmations() {
        for index in delivery.takeConfirmable() where places.isTaken(index) {
            confirm(places[index])
        }
    }

    private mutating func answer(
        _ connection: UnsafeMutablePointer<Connection>, _ context: RequestContext,
        _ outcome: Outcome
    ) {
        switch context.purpose {
        // If the store refused the confirmation, the receipts come again on the next listening connection.
        case .receiptsTaken: return
        case .upstreamTaken(let numbers):
            if case .refused = outcome { notTaken(numbers, connection) }
            return
        case .served(let then): return reply(connection, context.correlation, outcome, then)
        case .request, .registration: break
        }
        let correlation = context.correlation
        switch outcome {
        case .refused(let error):
            if case .registration = context.purpose {
                noteRefusedRegistration(error, connection)
                fail(connection, error)
            } else {
                send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
            }
        case .registered(let instance, let project):
            guard case .registration(let deviceKey) = context.purpose,
                connection.pointee.phase == .awaitingWelcome
            else { return undo(Newcomer(instance)) }
            registered(connection, instance, project, deviceKey)
        case .upstreamAccepted(let acceptance, _):
            send(
                .upstreamAccepted(
                    UpstreamAccepted(correlation: correlation, number: acceptance.number)),
                to: connection)
        // The peer is answered when the whole command is done.
        case .unfinished: break
        case .done, .unregistered, .receiptKept, .upstreamTaken, .bridgeChanged:
            send(.done(Done(correlation: correlation)), to: connection)
        case .topicsChanged(let result):
            var answer = TopicResult(result)
            answer.correlation = correlation
            send(.topicResult(answer), to: connection)
        case .accepted(let acceptance, _):
            send(acceptance.frame(correlation: correlation), to: connection)
        case .rotated(let token):
            send(.rotated(Rotated(correlation: correlation, token: token.text)), to: connection)
        // A served request reads these outcomes by itself.
        case .project, .key, .group, .cancelled: break
        }
    }

    /// Answers a served request whose command is done.
    private mutating func reply(
        _ connection: UnsafeMutablePointer<Connection>, _ correlation: UInt32, _ outcome: Outcome,
        _ then: @Sendable (Outcome) throws(MartletError) -> Reply<BrokerFrame>
    ) {
        do throws(MartletError) {
            switch outcome {
            // The committer has counted the refusal.
            case .refused(let error):
                return send(
                    .error(ErrorFrame(correlation: correlation, error: error)), to: connection)
            // The peer is answered when the whole command is done.
            case .unfinished: return
            default: break
            }
            switch try then(outcome) {
            case .answer(let answer): send(answer, to: connection)
            case .question(let question):
                try context.requests.ask(
                    Question(
                        loop: context.number, connection: connection.pointee.id,
                        correlation: correlation,
                        charge: .nothing, answer: question),
                    mustFit: true)
                connection.pointee.outstanding += 1
            }
        } catch {
            noteRefusal(error, connection)
            send(.error(ErrorFrame(correlation: correlation, error: error)), to: connection)
        }
    }

    /// OPS-10: counts a request that was refused without a command. The committer counts refused commands.
    func noteRefusal(_ error: MartletError, _ connection: UnsafeMutablePointer<Connection>) {
        context.committer.metrics.refused(error, in: connection.pointee.principal.project)
    }

    /// Queues a frame. A peer with too many unread answers is disconnected.
    mutating func send(_ frame: BrokerFrame, to connection: UnsafeMutablePointer<Connection>) {
        // A lingering connection sends no more frames.
        guard connection.pointee.phase != .lingering else { return }
        var bytes = output.encode(frame)
        if bytes.count > WireVersion.lengthBytes + Limits.brokerFrameBytesMax {
            bytes = output.encode(
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
