// SPDX-License-Identifier: Apache-2.0
//
// An app server: it sends what the world tells it to, waits for the answers, and asks again where an
// idempotency key makes that safe (MSG-9). Rests on MartletWire.

import MartletBase
import MartletWire

/// One project's sender.
final class SimulatedSender: SimulatedClient {
    private let project: ProjectModel
    private let administratorKey: String
    private var isOpen = false
    private var lastCorrelation: UInt32 = 0
    /// Messages that are not answered yet.
    private var unanswered: [(correlation: UInt32, message: MessageModel)] = []
    /// To be sent when there is a connection.
    private var queued: [MessageModel] = []

    init(
        number: Int, project: ProjectModel, administratorKey: String, network: SimulatedNetwork,
        oracle: Oracle
    ) {
        self.project = project
        self.administratorKey = administratorKey
        super.init(number: number, network: network, oracle: oracle)
    }

    /// Whether nothing is to be answered or to be sent.
    var isIdle: Bool { unanswered.isEmpty && queued.isEmpty }

    func open() {
        guard link == nil else { return }
        guard connect() else { return retry() }
        send(
            .hello(.administrator(administratorKey: administratorKey, projectID: project.id)))
        network.agenda.after(20_000_000) { [weak self, weak link] in
            guard let self, let link, self.link === link, !isOpen else { return }
            leave(.reset)
        }
    }

    private func retry() { network.agenda.after(30_000) { [weak self] in self?.open() } }

    func leave(_ ending: SimulatedLink.Ending) {
        guard link != nil else { return }
        drop(ending)
        lost()
    }

    override func lost() {
        isOpen = false
        for (_, message) in unanswered where message.idempotencyKey != nil {
            queued.append(message)
        }
        unanswered = []
        retry()
    }

    func submit(_ message: MessageModel) { submit([message]) }

    /// In one piece, so that they mostly come into one transaction.
    func submit(_ messages: [MessageModel]) {
        guard isOpen else {
            queued += messages
            return
        }
        let frames = messages.map { message in
            lastCorrelation += 1
            unanswered.append((lastCorrelation, message))
            return ClientFrame.send(message.request(correlation: lastCorrelation))
        }
        send(frames)
    }

    func cancel(_ message: MessageModel) {
        guard isOpen, let number = message.number else { return }
        lastCorrelation += 1
        send(.cancel(CancelRequest(correlation: lastCorrelation, messageNumber: number)))
    }

    /// TOP-4: on behalf of devices.
    func change(_ operation: TopicOperation, topic: String, tokens: [String]) {
        guard isOpen else { return }
        lastCorrelation += 1
        send(
            .changeTopic(
                ChangeTopicRequest(
                    correlation: lastCorrelation, operation: operation, topic: topic,
                    tokens: tokens)))
    }

    override func handle(_ frame: BrokerFrame) {
        switch frame {
        case .welcome:
            isOpen = true
            let waiting = queued
            queued = []
            submit(waiting)
        case .accepted(let accepted):
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
