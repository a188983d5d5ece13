// SPDX-License-Identifier: Apache-2.0
//
// A channel of a connected user agent: the instance behind it, and the messages that the user agent has and has not
// ended yet. The broker may give a message again, when the instance was attached anew; the user agent gets the message
// once on its connection. An ended message is acknowledged cumulatively if all messages before it have ended, and singly
// otherwise. Rests on BrokerLink.

import Martlet
import MartletWire

/// A channel of a user agent on a connection.
final class Subscription {
    /// A message that came on the present attachment, in the order of coming.
    private struct Pending {
        let streamID: UInt64
        var hasEnded: Bool
    }

    /// The treatment of a message that the broker gives.
    enum Treatment {
        /// The user agent gets the message.
        case send
        /// The user agent has the message, and has not ended it.
        case wait
        /// The user agent has ended the message; the acknowledgement goes to the broker.
        case end(Acknowledge)
    }

    let channel: ChannelID
    let token: Token
    weak var owner: AgentHandler?
    /// The link with the instance; nil: the instance is not attached.
    var place: (link: BrokerLink, channel: UInt8)?
    private var pending: [Pending] = []
    /// Messages of earlier attachments that the broker may give again, and whether each has ended.
    private var earlier: [UInt64: Bool] = [:]
    /// Ended messages whose acknowledgements are not on disk, as far as known.
    private var unconfirmed: [UInt64] = []

    init(_ channel: ChannelID, _ token: Token, owner: AgentHandler) {
        self.channel = channel
        self.token = token
        self.owner = owner
    }

    /// Begins a new attachment.
    /// - Returns: ended messages that the broker may not know to be ended.
    func reattach() -> [UInt64] {
        for message in pending where !message.hasEnded { earlier[message.streamID] = false }
        for streamID in unconfirmed { earlier[streamID] = true }
        pending = []
        return unconfirmed
    }

    /// Notes a message that the broker gives, if the message is stored.
    func came(_ streamID: UInt64) -> Treatment {
        guard streamID & WireVersion.notStoredBit == 0 else { return .send }
        switch earlier.removeValue(forKey: streamID) {
        case nil:
            pending.append(Pending(streamID: streamID, hasEnded: false))
            return .send
        case false?:
            pending.append(Pending(streamID: streamID, hasEnded: false))
            return .wait
        case true?:
            pending.append(Pending(streamID: streamID, hasEnded: true))
            return .end(acknowledgement(of: streamID))
        }
    }

    /// Notes the end of a message at the user agent.
    /// - Returns: the acknowledgement for the broker; nil for a message that is not known, or not stored.
    func end(_ streamID: UInt64) -> Acknowledge? {
        if earlier[streamID] != nil {
            earlier[streamID] = true
            keep(streamID)
            return nil
        }
        guard let index = pending.firstIndex(where: { $0.streamID == streamID }),
            !pending[index].hasEnded
        else { return nil }
        pending[index].hasEnded = true
        return acknowledgement(of: streamID)
    }

    private func acknowledgement(of streamID: UInt64) -> Acknowledge {
        keep(streamID)
        let ended = pending.prefix { $0.hasEnded }
        guard !ended.isEmpty else { return Acknowledge(through: 0, streamIDs: [streamID]) }
        let through = ended.reduce(0) { max($0, $1.streamID) }
        pending.removeFirst(ended.count)
        return Acknowledge(through: through)
    }

    private func keep(_ streamID: UInt64) {
        if unconfirmed.count == Limits.unconfirmedStreamIDsMax { unconfirmed.removeFirst() }
        unconfirmed.append(streamID)
    }

    /// Notes that every message up to `through` is acknowledged on disk.
    func confirmed(_ through: UInt64) {
        unconfirmed.removeAll { $0 <= through }
        earlier = earlier.filter { $0.key > through }
    }
}
