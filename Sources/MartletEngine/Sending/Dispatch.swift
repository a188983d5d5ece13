// SPDX-License-Identifier: Apache-2.0
//
// What is to go out, worked out from what was asked for: each variant with the instant at which it
// expires, and who gets it. Rests on the records.

import MartletBase
import MartletBits
import MartletRows

/// A variant of a message that is being sent.
struct DispatchVariant {
    var variant: OutgoingVariant
    /// Whether nobody is left out.
    var isForEverybody: Bool {
        variant.platforms == .all && variant.restrictedPackageName == nil
    }
    var expires: Instant
    /// TTL-2: false: now or never.
    var isStored: Bool

    /// - Parameter start: what its life is counted from.
    /// - Throws: `MartletError` if it is to live for too long.
    init(_ variant: OutgoingVariant, from start: Instant) throws(MartletError) {
        self.variant = variant
        let longest = start.advanced(bySeconds: Int64(Limits.timeToLiveSecondsMax))
        switch variant.lifespan {
        case .seconds(let seconds):
            guard seconds <= Limits.timeToLiveSecondsMax else {
                throw MartletError(
                    .invalidArgument,
                    "The time to live is 0 to \(Limits.timeToLiveSecondsMax) seconds.",
                    field: "time_to_live")
            }
            expires = start.advanced(bySeconds: Int64(seconds))
        case .until(let end):
            let latest = start.advanced(bySeconds: Int64(Limits.expirationSecondsMax))
            guard end <= latest else {
                throw MartletError(
                    .invalidArgument,
                    """
                    A message expires at most \(Limits.expirationSecondsMax) seconds ahead; stored \
                    it is for \(Limits.timeToLiveSecondsMax) seconds at most.
                    """, field: "time_to_live")
            }
            expires = min(max(end, start), longest)
        }
        isStored = expires > start
    }

    var stored: MessageVariant {
        MessageVariant(
            platforms: variant.platforms, expires: expires, priority: variant.priority,
            collapse: variant.collapse, body: variant.body)
    }
}

/// A message that is being sent.
struct Dispatch {
    var target: SendCommand.Target
    var variants: [DispatchVariant]
    var wantsReceipts: Bool
    /// The number it was given when it was scheduled.
    var number: UInt64?
    /// Whom its tokens named when it was accepted, if it has waited since then.
    var addressees = Addressees.unknown

    /// - Throws: `MartletError` for what is wrong with the variants.
    init(_ message: SendCommand, from start: Instant, number: UInt64?) throws(MartletError) {
        target = message.target
        wantsReceipts = message.wantsReceipts
        self.number = number
        variants = []
        variants.reserveCapacity(message.variants.count)
        var platforms: PlatformSet = []
        for variant in message.variants {
            guard !variant.platforms.isEmpty, platforms.isDisjoint(with: variant.platforms) else {
                throw MartletError(
                    .invalidArgument, "Each platform has one variant of a message at most.",
                    field: "message")
            }
            platforms.formUnion(variant.platforms)
            variants.append(try DispatchVariant(variant, from: start))
        }
        guard !variants.isEmpty else {
            throw MartletError(
                .invalidArgument, "A message is for one platform at least.", field: "message")
        }
    }

    var isStored: Bool { variants.contains(where: \.isStored) }

    /// Whether there is one variant, and nobody is left out.
    var isForEverybody: Bool { variants.count == 1 && variants[0].isForEverybody }
}

/// Who gets which variant.
struct Distribution {
    /// QUO-1: who was left out.
    var rateLimitedCount: UInt64 = 0
    /// Who gets any variant, or it is discarded for.
    var recipientCount: UInt64
    /// In the variants' order; nil: nobody.
    var perVariant: [Recipients?]
    /// Those of the variants that are stored.
    var stored: Recipients?
    /// STO-2: for whom those are discarded at once.
    var inactive: Recipients?
    /// Who was not left out.
    var granted: Recipients?
}

/// Who gets which variant, after everyone's quota was asked (QUO-1).
enum GrantedDistribution {
    case some(Distribution, to: Recipients)
    case nobody(retryMilliseconds: UInt64)
}

/// What of a variant decides who gets it.
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

/// The subscribers of a topic, and who of them gets what, worked out for variants like those of the
/// last messages.
struct TopicAudience {
    let project: ProjectNumber
    let topic: TopicName
    let subscribers: RecipientSet
    /// The `from` of messages to the topic.
    private let from: String
    /// Past so many, the oldest goes.
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

    /// What a message to the topic of this name says it is from; nil: it is another topic, or may be.
    func from(of name: String, in project: ProjectNumber) -> String? {
        project == self.project && name == topic.text ? from : nil
    }

    func distribution(for reaches: [VariantReach]) -> Distribution? {
        known.first { $0.reaches == reaches }?.distribution
    }

    mutating func keep(_ distribution: Distribution, for reaches: [VariantReach]) {
        if known.count == Self.knownMax { known.removeFirst() }
        known.append((reaches, distribution))
    }

    func recipients(for reaches: [VariantReach]) -> RecipientSet? {
        reached.first { $0.reaches == reaches }?.recipients
    }

    mutating func keep(_ recipients: RecipientSet, for reaches: [VariantReach]) {
        if reached.count == Self.knownMax { reached.removeFirst() }
        reached.append((reaches, recipients))
    }

    /// The instance is inactive no more.
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

    /// Others may be inactive.
    mutating func forgetDistributions() { known.removeAll() }
}
