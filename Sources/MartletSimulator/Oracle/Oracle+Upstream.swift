// SPDX-License-Identifier: Apache-2.0
//
// Checks that every message from a device is accepted once and reaches a sender at least once (UPS-1, GRP-7). The message does
// not come to a connection begun after the message was acknowledged or had expired. Rests on the models.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

/// A message sent by a device.
final class UpstreamModel {
    let id: Int
    let instance: InstanceModel
    /// The addressed group; nil: the message is for the senders of the project.
    let group: GroupModel?
    let timeToLiveSeconds: UInt32?
    /// The message as the members of the group get it; nil without a group.
    let message: MessageModel?
    /// The message's number; nil before acceptance.
    var number: UInt64?
    var expires = Instant(rawValue: 0)
    /// Instant at which the store was told of a sender's acknowledgement; nil before.
    var taken: Instant?

    init(
        id: Int, instance: InstanceModel, group: GroupModel?, timeToLiveSeconds: UInt32?,
        message: MessageModel?
    ) {
        self.id = id
        self.instance = instance
        self.group = group
        self.timeToLiveSeconds = timeToLiveSeconds
        self.message = message
    }

    var messageID: String { "u\(id)" }

    func request(correlation: UInt32) -> UpstreamRequest {
        var writer = WireWriter()
        Message(data: [.init(key: "n", value: String(message?.id ?? id))]).encode(into: &writer)
        return UpstreamRequest(
            correlation: correlation, group: group?.key ?? "", messageID: messageID,
            timeToLiveSeconds: timeToLiveSeconds, message: writer.bytes)
    }
}

extension Oracle {
    private func upstream(_ messageID: String) -> UpstreamModel? {
        guard let id = Int(messageID.dropFirst()), id < upstream.count else { return nil }
        return upstream[id]
    }

    // MARK: Commits

    func committed(_ command: UpstreamCommand, _ outcome: Outcome) {
        guard let sent = upstream(command.messageID) else {
            return fail("a message of a device was committed that none sent")
        }
        switch outcome {
        case .upstreamAccepted(let acceptance, let fanouts):
            trace.note("upstream", sent.id, Int(acceptance.number))
            if let number = sent.number {
                if acceptance.number != number || acceptance.isForSenders || !fanouts.isEmpty {
                    fail("message \(sent.messageID) of a device was accepted twice")
                }
            } else {
                accepted(sent, acceptance, fanouts)
            }
        case .refused(let error): refused(sent, error)
        default: fail("message \(sent.messageID) of a device was neither accepted nor refused")
        }
    }

    private func accepted(
        _ sent: UpstreamModel, _ acceptance: UpstreamAcceptance, _ fanouts: [Fanout]
    ) {
        let now = clock.instant
        sent.number = acceptance.number
        sent.expires = now.advanced(
            bySeconds: Int64(sent.timeToLiveSeconds ?? Limits.timeToLiveSecondsMax))
        guard let group = sent.group, let message = sent.message else { return }
        if !group.members.contains(sent.instance.number) {
            fail("\(sent.messageID) is for a group that its device is no member of (GRP-7)")
        }
        message.number = fanouts.first?.header.number
        distribute(
            message, to: message.audience, from: now,
            sequence: fanouts.first?.header.sequence.rawValue)
    }

    private func refused(_ sent: UpstreamModel, _ error: MartletError) {
        trace.note("upstream refused", sent.id, Int(error.word.rawValue))
        let isMember = sent.group?.members.contains(sent.instance.number) ?? false
        switch error.word {
        case .unavailable: return
        case .unregistered where !sent.instance.isRegistered: return
        case .notFound where sent.group != nil && !isMember: return
        // Now or never, and no sender had room for the message.
        case .notFound where sent.group == nil && sent.timeToLiveSeconds == 0: return
        default: fail("\(sent.messageID) was refused: \(error)")
        }
    }

    func committedTaken(_ numbers: [UInt64], in project: ProjectModel) {
        for sent in upstream
        where sent.instance.project === project && sent.group == nil && sent.taken == nil {
            guard let number = sent.number, numbers.contains(number) else { continue }
            sent.taken = clock.instant
        }
    }

    // MARK: Answers and deliveries

    func answered(_ sent: UpstreamModel, _ number: UInt64) {
        if sent.number != number {
            fail("\(sent.messageID) was answered with a number that was not committed")
        }
    }

    /// Checks a message on its arrival at a sender.
    /// - Parameter began: instant at which the connection began to listen.
    /// - Returns: the message; nil for a message not accepted for this project's senders.
    func came(
        _ delivery: UpstreamDelivery, in project: ProjectModel, _ began: Instant
    ) -> UpstreamModel? {
        guard let sent = upstream(delivery.messageID), sent.instance.project === project,
            sent.group == nil, let number = sent.number
        else {
            fail("a sender got \(delivery.messageID), which was not accepted for it")
            return nil
        }
        trace.note("upstream came", sent.id)
        if number != delivery.number || delivery.token != sent.instance.token
            || MessageModel.id(of: delivery.message) != sent.id
        {
            fail("\(sent.messageID) came with the header of another")
        }
        if let taken = sent.taken, taken < began {
            fail("\(sent.messageID) was acknowledged and came to a later connection")
        }
        let isNowOrNever = delivery.expires == delivery.accepted
        if isNowOrNever != (sent.timeToLiveSeconds == 0) || sent.expires < began {
            fail("\(sent.messageID) came although it had expired")
        }
        return sent
    }

    /// Accepted messages that a sender has yet to take.
    func upstreamLeft(at now: Instant) -> [UpstreamModel] {
        upstream.filter {
            $0.number != nil && $0.group == nil && $0.timeToLiveSeconds != 0 && $0.taken == nil
                && $0.expires > now
        }
    }
}
