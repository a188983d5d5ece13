// SPDX-License-Identifier: Apache-2.0
//
// An app server: sends the messages that the world hands over, and waits for the answers. After a failure the sender
// repeats only messages with an idempotency key, because other repetitions are not safe (MSG-9). Rests on
// SimulatedServer.

import MartletBase
import MartletWire

/// The sender of a project.
final class SimulatedSender: SimulatedServer {
    private var lastCorrelation: UInt32 = 0
    /// Messages without an answer.
    private var unanswered: [(correlation: UInt32, message: MessageModel)] = []
    /// Messages that wait for a connection.
    private var queued: [MessageModel] = []

    /// Whether no message waits for an answer or for a connection.
    var isIdle: Bool { unanswered.isEmpty && queued.isEmpty }

    override func lost() {
        for (_, message) in unanswered where message.idempotencyKey != nil {
            queued.append(message)
        }
        unanswered = []
        super.lost()
    }

    func submit(_ message: MessageModel) { submit([message]) }

    /// Sends the messages in one piece, so that most come into one transaction.
    func submit(_ messages: [MessageModel]) {
        guard isOpen else {
            queued += messages
            return
        }
        let frames = messages.map { message in
            lastCorrelation += 1
            unanswered.append((lastCorrelation, message))
            oracle.sent(message, on: link?.number ?? 0)
            return ClientFrame.send(message.request(correlation: lastCorrelation))
        }
        send(frames)
    }

    func cancel(_ message: MessageModel) {
        guard isOpen, let number = message.number else { return }
        lastCorrelation += 1
        send(.request(CancelRequest(correlation: lastCorrelation, messageNumber: number)))
    }

    /// TOP-4: changes subscriptions on behalf of devices.
    func change(_ operation: TopicOperation, topic: String, tokens: [String]) {
        guard isOpen else { return }
        lastCorrelation += 1
        send(
            .request(
                ChangeTopicRequest(
                    correlation: lastCorrelation, operation: operation, topic: topic,
                    tokens: tokens)))
    }

    /// GRP-2: creates a group.
    func createGroup(named name: String, tokens: [String]) {
        guard isOpen else { return }
        lastCorrelation += 1
        send(
            .request(
                CreateGroupRequest(correlation: lastCorrelation, name: name, tokens: tokens)))
    }

    func changeGroup(
        _ group: GroupModel, key: String, _ change: GroupOperation, tokens: [String]
    ) {
        guard isOpen else { return }
        lastCorrelation += 1
        send(
            .request(
                ChangeGroupRequest(
                    correlation: lastCorrelation, operation: change, name: group.name, key: key,
                    tokens: tokens)))
    }

    override func handle(_ frame: BrokerFrame) {
        super.handle(frame)
        switch frame {
        case .welcome:
            let waiting = queued
            queued = []
            submit(waiting)
        case .accepted(let accepted):
            guard let message = answered(accepted.correlation) else { return }
            oracle.answered(message, accepted)
        case .groupAccepted(let accepted):
            guard let message = answered(accepted.correlation) else { return }
            oracle.answered(message, accepted)
        case .error(let error):
            guard let message = answered(error.correlation) else { return }
            oracle.answered(message, error.error)
            guard message.idempotencyKey != nil, error.error.word == .unavailable else { return }
            network.agenda.after(50_000) { [weak self] in self?.submit(message) }
        default: break
        }
    }

    private func answered(_ correlation: UInt32) -> MessageModel? {
        guard let index = unanswered.firstIndex(where: { $0.correlation == correlation }) else {
            return nil
        }
        return unanswered.remove(at: index).message
    }
}
