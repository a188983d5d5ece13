// SPDX-License-Identifier: Apache-2.0
//
// A message while it is being sent: its variants, when they expire, and who gets which. Rests on the records.

import MartletBase
import MartletBits
import MartletRows

/// A variant of a message being sent.
struct DispatchVariant {
    let variant: OutgoingVariant
    /// Whether the variant is for all platforms and all apps.
    let isForEverybody: Bool
    var expires: Instant
    /// False if it is now or never (TTL-2).
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
    var options: MessageOptions
    /// The number that a scheduled or deferred message got at acceptance.
    var number: UInt64?
    /// For a message that has waited: whose its tokens were at acceptance.
    var addressees = Addressees.unknown

    /// Checks a message that is sent now. Message and variants are never copied: a copy would count a reference for each text
    /// and for the body.
    /// - Parameters:
    ///   - start: when the time to live begins.
    ///   - bounds: the project's limits.
    /// - Throws: `MartletError` if something is wrong with the variants.
    init(
        _ message: __shared SendCommand, from start: Instant, within bounds: MessageBounds
    ) throws(MartletError) {
        target = message.target
        options = message.options
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

    /// Goes on with a message that was checked at acceptance and has waited since.
    /// - Parameter start: when the time to live begins.
    init(waiting message: SendCommand, from start: Instant, number: UInt64) {
        target = message.target
        options = message.options
        self.number = number
        variants = message.variants.map { variant in
            DispatchVariant(
                variant, from: start,
                until: variant.lifespan.end(
                    from: start, longestSeconds: Limits.timeToLiveSecondsCeiling))
        }
    }

    /// The message as it waits: with the times to live that were checked, because the limits may change before it is sent.
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

    // By index, because a loop over the array would copy each variant.
    var isStored: Bool { variants.indices.contains { variants[$0].isStored } }

    /// Whether there is one variant, for all platforms and all apps.
    var isForEverybody: Bool { variants.count == 1 && variants[0].isForEverybody }
}

/// Variants that ended while their message waited. Nobody gets them (REP-4).
struct EndedVariants {
    /// What became of the message for these recipients.
    var event: ReportEvent
    /// Who would have got them; nil if nobody.
    var recipients: Recipients?
}

/// Who gets which of a message's variants.
struct Distribution {
    /// Recipients left out because of their quota (QUO-1).
    var rateLimitedCount: UInt64 = 0
    /// All recipients within their quotas, including inactive ones.
    var recipientCount: UInt64
    /// Each variant's recipients, in the order of the variants; nil if it has none.
    var perVariant: [Recipients?]
    /// Active recipients of stored variants.
    var stored: Recipients?
    /// Inactive recipients of stored variants, for whom the message is discarded at once (STO-2).
    var inactive: Recipients?
    /// Recipients within their quotas.
    var granted: Recipients?
}

/// The distribution after devices' quotas (QUO-1).
enum GrantedDistribution {
    case some(Distribution, to: Recipients)
    case nobody(retryMilliseconds: UInt64)
}

/// What decides a variant's recipients.
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

/// A topic's subscribers, and how the last messages' variants were distributed among them.
struct TopicAudience {
    let project: ProjectNumber
    let topic: TopicName
    let subscribers: RecipientSet
    /// The `from` of messages to the topic.
    private let from: String
    /// Most elements of `known` and of `reached`. Past that the oldest is forgotten.
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

    /// The `from` of messages to the topic; nil if this is another topic or project.
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

    /// Forgets the distributions in which an instance was inactive that no longer is.
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

    /// Forgets all distributions, because more instances may have become inactive.
    mutating func forgetDistributions() { known.removeAll() }
}

extension Dispatch {
    /// A variant's fanouts. A message to one token gets a fanout for one instance, which doesn't wait for those in progress
    /// (FAN-5).
    func fanouts(
        of variant: DispatchVariant, _ header: MessageHeader, to recipients: Recipients,
        in project: Project, _ progress: FanoutProgress?
    ) -> [Fanout] {
        func fanout(_ recipients: Recipients) -> Fanout {
            Fanout(
                project: project.number, header: header, body: variant.variant.body,
                recipients: recipients, position: project.lastSequence, weight: project.weight,
                progress: progress)
        }
        if case .one = recipients { return [fanout(recipients)] }
        return target.isFanout ? [fanout(recipients)] : recipients.single.map(fanout)
    }
}
