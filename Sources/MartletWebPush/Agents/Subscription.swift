// SPDX-License-Identifier: Apache-2.0
//
// A channel of a connected user agent: the instance behind it, and the messages that the user agent has but hasn't
// acknowledged. After an instance is attached again the broker may repeat messages; the user agent gets each one once per
// connection. Rests on TakenMessages and BrokerLink.

import Martlet
import MartletBridge
import MartletWire

/// A user agent's channel, on its connection.
final class Subscription: LinkedInstance {
    let channel: ChannelID
    let token: Token
    weak var owner: AgentHandler?
    var place: (link: BrokerLink, channel: UInt8)?
    private var taken = TakenMessages(endedMax: Limits.unconfirmedStreamIDsMax)

    init(_ channel: ChannelID, _ token: Token, owner: AgentHandler) {
        self.channel = channel
        self.token = token
        self.owner = owner
    }

    func hello() -> Hello? { owner?.hello(self) }

    /// Begins a new attachment.
    /// - Returns: acknowledged messages that the broker may not have heard of.
    func reattach() -> [UInt64] { taken.reattach() }

    func came(_ message: Deliver) {
        guard let owner else {
            if let place { place.link.detach(place.channel) }
            return
        }
        guard owner.mayTake else { return owner.stall() }
        guard message.isStored else { return owner.take(message, of: self) }
        switch taken.came(message.streamID) {
        case .handOver: owner.take(message, of: self)
        case .wait: break
        case .acknowledge(let acknowledgement):
            if let place { place.link.send(.acknowledge(acknowledgement), on: place.channel) }
        }
    }

    /// The user agent is done with a message.
    /// - Returns: the acknowledgement for the broker; nil if we don't know the message, or it was now or never.
    func end(_ streamID: UInt64) -> Acknowledge? { taken.end(streamID) }

    func confirmed(_ through: UInt64) { taken.confirmed(through) }

    func detached(for refusal: MartletError?) { owner?.detached(self, for: refusal) }
}
