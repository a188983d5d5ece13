// SPDX-License-Identifier: Apache-2.0
//
// A message being sent: each variant with an expiry, and the distribution to recipients. Rests on the records.

import MartletBase
import MartletBits
import MartletRows

/// A variant of a message being sent.
struct DispatchVariant {
    let variant: OutgoingVariant
    /// Whether the variant is for all platforms and all apps.
    let isForEverybody: Bool
    var expires: Instant
    /// TTL-2: false for a now-or-never variant.
    var isStored: Bool

    init(_ variant: OutgoingVariant, from start: Instant, until expires: Instant) {
        self.variant = variant
        self.expires = expires
        invariant(
            expires >= start
                && expires <= start.advanced(bySeconds: Int64(Limits.timeToLiveSecondsCeiling)),
            "TTL-1: a message lives no longer than the longest time that can be configured.")
        isStored = expires > start
        isForEverybody = variant.platforms == .all && variant.restrictedPackageName == nil
    }

    var stored: MessageVariant {
        MessageVariant(
            platforms: variant.platforms, expires: expires, priority: variant.priority,
            collapse: variant.collapse, body: variant.body)
    }
}

/// A message being sent.
struct Dispatch {
    var target: SendCommand.Target
    var variants: [DispatchVariant]
    var wantsReceipts: Bool
    /// The number of a scheduled or deferred message, given at acceptance; else nil.
    var number: UInt64?
    /// For a message that has waited, the instances of its tokens at acceptance.
    var addressees = Addressees.unknown

    /// Checks a message that a sender sends now. The message is shared with the caller, and the variants are read in the
    /// array, because a copy of a message or a variant counts a reference for each text and for the body.
    /// - Parameters:
    ///   - start: the beginning of the time to live.
    ///   - bounds: limits of the message's project.
    /// - Throws: `MartletError` for a fault of the variants.
    init(
        _ message: __shared SendCommand, from start: Instant, within bounds: MessageBounds
    ) throws(MartletError) {
        target = message.target
        wantsReceipts = message.wantsReceipts
        variants = []
        variants.reserveCapacity(message.variants.count)
        var platforms: PlatformSet = []
        for index in message.variants.indices {
            let own = message.variants[index].platforms
            guard !own.isEmpty, platforms.isDisjoint(with: own) else {
                throw MartletError(
                    .invalidArgument, "Each platform has one variant of a message at most.",
                    field: "message")
            }
            platforms.formUnion(own)
            try bounds.check(message.variants[index].size, for: own)
            let lifespan = message.variants[index].lifespan
            let expires = try bounds.expiry(
                of: lifespan, from: start, for: message.platforms(with: lifespan))
            variants.append(
                DispatchVariant(message.variants[index], from: start, until: expires))
        }
        guard !variants.isEmpty else {
            throw MartletError(
                .invalidArgument, "A message is for one platform at least.", field: "message")
        }
    }

    /// Continues a message that was checked when it was accepted, and has waited since.
    /// - Parameter start: the beginning of the time to live.
    init(waiting message: SendCommand, from start: Instant, number: UInt64) {
        target = message.target
        wantsReceipts = message.wantsReceipts
        self.number = number
        variants = message.variants.map { variant in
            DispatchVariant(
                variant, from: start,
                until: variant.lifespan.end(
                    from: start, longestSeconds: Limits.timeToLiveSecondsCeiling))
        }
    }

    /// The message in the form in which it waits: with its times to live as they were checked, because the limits may
    /// change before the message is sent.
    /// - Parameter message: the message that was checked.
    func settled(_ message: SendCommand) -> SendCommand {
        invariant(
            message.variants.count == variants.count, "A message waits with the variants it had.")
        var message = message
        for (index, variant) in variants.enumerated() {
            if case .seconds = variant.variant.lifespan { continue }
            message.variants[index].lifespan = .until(variant.expires)
        }
        return message
    }

    // An index reads a variant in the array. A loop over the array would copy each variant.
    var isStored: Bool { variants.indices.contains { variants[$0].isStored } }

    /// Whether the message has a single variant, for all platforms and all apps.
    var isForEverybody: Bool { variants.count == 1 && variants[0].isForEverybody }
}

/// REP-4: variants of a message that ended while the message waited: nobody gets them.
struct EndedVariants {
    /// The outcome of the message for the recipients.
    var event: ReportEvent
    /// For whom the variants were; nil: for nobody.
    var recipients: Recipients?
}

/// The distribution of a message's variants to recipients.
struct Distribution {
    /// QUO-1: recipients left out because of their quota.
    var rateLimitedCount: UInt64 = 0
    /// All recipients within their quotas, inactive recipients included.
    var recipientCount: UInt64
    /// The recipients of each variant, in the order of the variants; nil: the variant has no recipients.
    var perVariant: [Recipients?]
    /// The active recipients of stored variants.
    var stored: Recipients?
    /// STO-2: the inactive recipients of stored variants. The message is discarded for them at once.
    var inactive: Recipients?
    /// The recipients within their quotas.
    var granted: Recipients?
}

/// QUO-1: the distribution after the devices' quotas.
enum GrantedDistribution {
    case some(Distribution, to: Recipients)
    case nobody(retryMilliseconds: UInt64)
}

/// The properties of a variant that select its recipients.
struct VariantReach: Hashable {
    var platforms: PlatformSet
    var restrictedPackageName: String?
    var isStored: Bool

    init(_ variant: DispatchVariant) {
        platforms = variant.variant.platforms
        restrictedPackageName = variant.variant.restrictedPackageName
        isStored = variant.isStored
    }
}

/// A topic's subscribers, and distributions for the variants of the last messages.
struct TopicAudience {
    let project: ProjectNumber
    let topic: TopicName
    let subscribers: RecipientSet
    /// The `from` of messages to the topic.
    private let from: String
    /// Bound on `known` and on `reached`. Past the bound, the oldest element is forgotten.
    private static let knownMax = 4
    private var known: [(reaches: [VariantReach], distribution: Distribution)] = []
    private var reached: [(reaches: [VariantReach], recipients: RecipientSet)] = []

    init(project: ProjectNumber, topic: TopicName, subscribers: RecipientSet) {
        self.project = project
        self.topic = topic
        self.subscribers = subscribers
        from = Self.from(topic)
    }

    static func from(_ topic: TopicName) -> String { "/topics/" + topic.text }

    /// The `from` of messages to the topic; nil if the name or the project differs.
    func from(of name: String, in project: ProjectNumber) -> String? {
        project == self.project && name == topic.text ? from : nil
    }

    func distribution(for reaches: [VariantReach]) -> Distribution? {
        known.first { $0.reaches == reaches }?.distribution
    }

    mutating func keep(_ distribution: Distribution, for reaches: [VariantReach]) {
        if known.count == Self.knownMax { known.removeFirst() }
        known.append((reaches, distribution))
        invariant(known.count <= Self.knownMax, "The remembered distributions are bounded.")
    }

    func recipients(for reaches: [VariantReach]) -> RecipientSet? {
        reached.first { $0.reaches == reaches }?.recipients
    }

    mutating func keep(_ recipients: RecipientSet, for reaches: [VariantReach]) {
        if reached.count == Self.knownMax { reached.removeFirst() }
        reached.append((reaches, recipients))
        invariant(reached.count <= Self.knownMax, "The remembered recipients are bounded.")
    }

    /// Forgets the distributions with an inactive instance, because the instance is not inactive any more.
    mutating func forgetInactive(_ ordinal: Ordinal, in project: ProjectNumber) {
        guard project == self.project else { return }
        known.removeAll {
            switch $0.distribution.inactive {
            case nil: false
            case .one(let one): one == ordinal
            case .many(let set): set.view.contains(ordinal)
            }
        }
    }

    /// Forgets all distributions, because further instances may have become inactive.
    mutating func forgetDistributions() { known.removeAll() }
}
