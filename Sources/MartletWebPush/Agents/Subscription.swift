// SPDX-License-Identifier: Apache-2.0
//
// A channel of a connected user agent: the instance behind it, and the messages that the user agent has and has not
// ended yet. The broker may give a message again, when the instance was attached anew; the user agent gets the message
// once on its connection. Rests on TakenMessages and BrokerLink.

import Martlet
import MartletBridge
import MartletWire

/// A channel of a user agent on a connection.
final class Subscription {
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
    private var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)

    init(_ channel: ChannelID, _ token: Token, owner: AgentHandler) {
        self.channel = channel
        self.token = token
        self.owner = owner
    }

    /// Begins a new attachment.
    /// - Returns: ended messages that the broker may not know to be ended.
    func reattach() -> [UInt64] { taken.reattach() }

    /// Notes a message that the broker gives, if the message is stored.
    func came(_ streamID: UInt64) -> Treatment {
        guard streamID & WireVersion.notStoredBit == 0 else { return .send }
        return switch taken.came(streamID) {
        case .handOver: .send
        case .wait: .wait
        case .acknowledge(let acknowledgement): .end(acknowledgement)
        }
    }

    /// Notes the end of a message at the user agent.
    /// - Returns: the acknowledgement for the broker; nil for a message that is not known, or not stored.
    func end(_ streamID: UInt64) -> Acknowledge? { taken.end(streamID) }

    /// Notes that every message up to `through` is acknowledged on disk.
    func confirmed(_ through: UInt64) { taken.confirmed(through) }
}
