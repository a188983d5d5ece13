// SPDX-License-Identifier: Apache-2.0
//
// A message on its way to the engine. Pure.

package import MartletBase

/// A message to be sent, after the checks of the edge and the merge of platform blocks.
package struct SendCommand: Sendable {
    /// MSG-1: target of the message.
    package var target: Target
    /// One to three variants, for disjoint platforms. Instances on other platforms get no message.
    package var variants: [OutgoingVariant]
    /// MSG-7: check the message without sending it.
    package var validateOnly: Bool
    /// GW-9: with `validateOnly` and a token, tell the device's allowance. The quota then refuses nothing.
    package var asksAllowance = false
    /// RCP-1: whether the sender asks for receipts.
    package var wantsReceipts: Bool
    /// MSG-9: lets the engine recognise a repeated message; 1 to 128 bytes of UTF-8.
    package var idempotencyKey: String?
    /// GW-8: the gateway's attempt; nil for other senders.
    package var attempt: SendAttempt?
    /// MSG-10: the instant to send at. A nil or past instant sends at once.
    package var sendAt: Instant?
    /// REP-2: the number of an earlier message. Only instances that the earlier message was for and that have not
    /// received it are recipients.
    package var notReceived: UInt64?

    /// MSG-1: the target of a message.
    package enum Target: Sendable, Hashable {
        case token(String)
        case topic(String)
        case condition(String)
        /// A group's notification key.
        case group(String)
        /// A union of targets of the other kinds. An instance in several of them gets the message once.
        case several([Target])
    }

    /// Makes a message with the given variants. By default, all options are off. `attempt` is nil.
    package init(
        target: Target, variants: [OutgoingVariant], validateOnly: Bool = false,
        wantsReceipts: Bool = false, idempotencyKey: String? = nil, sendAt: Instant? = nil,
        notReceived: UInt64? = nil
    ) {
        self.target = target
        self.variants = variants
        self.validateOnly = validateOnly
        self.wantsReceipts = wantsReceipts
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
    }

    /// TTL-1: the platforms whose instances get the message with this time to live.
    func platforms(with lifespan: Lifespan) -> PlatformSet {
        variants.indices.reduce(into: []) { platforms, index in
            if variants[index].lifespan == lifespan {
                platforms.formUnion(variants[index].platforms)
            }
        }
    }

    /// Makes a message with one variant for all platforms.
    package init(
        target: Target, body: [UInt8], lifespan: Lifespan = .longest,
        priority: MessagePriority = .normal, collapse: CollapseKey = .none,
        validateOnly: Bool = false
    ) {
        self.init(
            target: target,
            variants: [
                OutgoingVariant(
                    lifespan: lifespan, priority: priority, collapse: collapse, body: body)
            ], validateOnly: validateOnly)
    }
}
