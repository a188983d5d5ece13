// SPDX-License-Identifier: Apache-2.0
//
// A message on its way to the engine. Pure.

package import MartletBase

/// A message to be sent, after the checks of the edge and the merge of platform blocks.
package struct SendCommand: Sendable {
    /// Whom the message is for (MSG-1).
    package var target: Target
    /// One to three variants, for disjoint platforms. Instances on other platforms get nothing.
    package var variants: [OutgoingVariant]
    /// Check the message without sending it (MSG-7).
    package var validateOnly: Bool
    /// With `validateOnly` and a token, tell the device's allowance (GW-9). The quota then refuses nothing.
    package var asksAllowance = false
    /// The options that the message has for all its recipients.
    package var options: MessageOptions
    /// Lets the engine recognise a repeated message; 1 to 128 bytes of UTF-8 (MSG-9).
    package var idempotencyKey: String?
    /// The gateway's attempt; nil for other senders (GW-8).
    package var attempt: SendAttempt?
    /// When to send; at once if nil or past (MSG-10).
    package var sendAt: Instant?
    /// The number of an earlier message (REP-2). Then the message is only for those who should have got that one and
    /// haven't.
    package var notReceived: UInt64?

    /// Whom a message is for (MSG-1).
    package enum Target: Sendable, Hashable {
        case token(String)
        case topic(String)
        case condition(String)
        /// A group's notification key.
        case group(String)
        /// A union of targets of the other kinds. An instance in several of them gets the message once.
        case several([Target])
    }

    /// Makes a message with these variants. By default, all options are off. `attempt` is nil.
    package init(
        target: Target, variants: [OutgoingVariant], validateOnly: Bool = false,
        options: MessageOptions = MessageOptions(), idempotencyKey: String? = nil,
        sendAt: Instant? = nil, notReceived: UInt64? = nil
    ) {
        self.target = target
        self.variants = variants
        self.validateOnly = validateOnly
        self.options = options
        self.idempotencyKey = idempotencyKey
        self.sendAt = sendAt
        self.notReceived = notReceived
    }

    /// All fields. Every format of bytes takes them apart, so a new field does not compile until each says what it does.
    package var fields:
        (
            Target, [OutgoingVariant], validateOnly: Bool, asksAllowance: Bool, MessageOptions,
            idempotencyKey: String?, SendAttempt?, sendAt: Instant?, notReceived: UInt64?
        )
    {
        (
            target, variants, validateOnly, asksAllowance, options, idempotencyKey, attempt, sendAt,
            notReceived
        )
    }

    /// The platforms whose instances get the message with this time to live (TTL-1).
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
