// SPDX-License-Identifier: Apache-2.0
//
// A channel of a connected user agent: the instance behind it, and the messages that the user agent has but hasn't
// acknowledged. After an instance is attached again the broker may repeat messages; the user agent gets each one once per
// connection. Rests on TakenMessages and BrokerLink.

import Martlet
import MartletBridge
import MartletWire

/// A user agent's channel, on its connection.
final class Subscription {
    /// What to do with a message from the broker.
    enum Treatment {
        /// Send it to the user agent.
        case send
        /// The user agent has it and hasn't acknowledged it yet.
        case wait
        /// The user agent has acknowledged it before: tell the broker.
        case end(Acknowledge)
    }

    let channel: ChannelID
    let token: Token
    weak var owner: AgentHandler?
    /// Where the instance is attached; nil if it isn't.
    var place: (link: BrokerLink, channel: UInt8)?
    private var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)

    init(_ channel: ChannelID, _ token: Token, owner: AgentHandler) {
        self.channel = channel
        self.token = token
        self.owner = owner
    }

    /// Begins a new attachment.
    /// - Returns: acknowledged messages that the broker may not have heard of.
    func reattach() -> [UInt64] { taken.reattach() }

    /// A stored message has come from the broker.
    func came(_ streamID: UInt64) -> Treatment {
        guard streamID & WireVersion.notStoredBit == 0 else { return .send }
        return switch taken.came(streamID) {
        case .handOver: .send
        case .wait: .wait
        case .acknowledge(let acknowledgement): .end(acknowledgement)
        }
    }

    /// The user agent is done with a message.
    /// - Returns: the acknowledgement for the broker; nil if we don't know the message, or it wasn't stored.
    func end(_ streamID: UInt64) -> Acknowledge? { taken.end(streamID) }

    /// The acknowledgements up to `through` are on disk.
    func confirmed(_ through: UInt64) { taken.confirmed(through) }
}
