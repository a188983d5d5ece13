// SPDX-License-Identifier: Apache-2.0
//
// A world's own account of projects, instances and messages, kept as naively as possible: sets of objects and counts
// of tokens. Rests on no rule of the engine.

import MartletBase
import MartletEngine
import MartletWire

/// A project with its instances, subscriptions and groups.
final class ProjectModel {
    let index: Int
    let id: String
    var number = ProjectNumber(0)
    var instances: [InstanceModel] = []
    /// Numbers of the subscribed instances, by topic.
    var members: [String: Set<Int>] = [:]
    /// GRP-1: all groups of the project, including ended groups.
    var groups: [GroupModel] = []
    /// The present holder of each ordinal.
    var holders: [Ordinal: InstanceModel] = [:]

    init(index: Int, id: String) {
        self.index = index
        self.id = id
    }
}

/// An instance of an app.
final class InstanceModel {
    let number: Int
    unowned let project: ProjectModel
    let token: String
    let deviceKey: String
    var isRegistered = true
    /// QUO-1: quotas of messages to the device, in a minute and in an hour.
    var minute: TokenBucket
    var hour: TokenBucket
    /// IDs of the messages that the application has taken.
    var taken: Set<Int> = []
    /// OPS-7: messages that came from an old store, while the log was away.
    var mayTakeAgain: Set<Int> = []
    /// IDs of the messages that came without being stored.
    var cameOnce: Set<Int> = []
    /// Highest stream ID through which stored messages were discarded, according to the device's notices.
    var deletedThrough: UInt64 = 0
    /// Highest stream ID of each lane on the present connection.
    var highest: [UInt64] = [0, 0, 0, 0]

    init(
        number: Int, project: ProjectModel, token: String, deviceKey: String,
        limits: BrokerLimits
    ) {
        self.number = number
        self.project = project
        self.token = token
        self.deviceKey = deviceKey
        minute = TokenBucket(count: limits.deviceMessagesPerMinute, milliseconds: 60_000)
        hour = TokenBucket(count: limits.deviceMessagesPerHour, milliseconds: 3_600_000)
    }
}

/// A bucket of tokens, kept as the documentation describes a quota, and not as the engine stores it. The bucket
/// counts in units. A token has as many units as a full refill has milliseconds, so no step rounds.
struct TokenBucket {
    private let count: Int64
    private let unitsPerToken: Int64
    private var units: Int64
    private var looked: Int64 = .min

    /// - Parameters:
    ///   - count: tokens of a full bucket; 0: no limit.
    ///   - milliseconds: time in which an empty bucket fills.
    init(count: Int, milliseconds: Int64) {
        self.count = Int64(count)
        unitsPerToken = milliseconds
        units = Int64(count) * milliseconds
    }

    mutating func hasToken(at now: Int64) -> Bool {
        guard count > 0 else { return true }
        if looked != .min { units = min(count * unitsPerToken, units + (now - looked) * count) }
        looked = now
        return units >= unitsPerToken
    }

    mutating func take() { if count > 0 { units -= unitsPerToken } }

    mutating func fill() { units = count * unitsPerToken }
}

/// A message and its fate.
final class MessageModel: CustomStringConvertible {
    enum Target {
        case token(InstanceModel)
        case topic(String)
        case both(String, String)
        case either(String, String)
        case without(String, String)
        case not(String)
        case group(GroupModel)
        /// GRP-7: a message from a member to its group, for all other members.
        case others(GroupModel, InstanceModel)
    }

    let id: Int
    let project: ProjectModel
    let target: Target
    let timeToLiveSeconds: UInt32?
    let priority: MessagePriority
    /// Empty: the message is not collapsible.
    let collapseKey: String
    let idempotencyKey: String?
    let paddingBytes: Int
    /// MSG-10: instant at which a scheduled message is due.
    let sendAt: Instant?

    /// MSG-6: the message's number; nil before acceptance.
    var number: UInt64?
    /// Place in the project's order; 0 for a message without a fanout.
    var sequence: UInt64 = 0
    /// The message was accepted before it was due.
    var wasEarly = false
    /// The message has its recipients: from its acceptance, or from the instant at which it is due.
    var isSent = false
    var accepted = Instant(rawValue: 0)
    var expires = Instant(rawValue: 0)
    var recipients: Set<Int> = []
    /// Numbers of instances that only the device's quota keeps from being recipients (QUO-1).
    var limited: Set<Int> = []
    var isCancelled = false
    /// The sender was told of the acceptance.
    var isAnswered = false
    /// When a sender last sent the message, in microseconds of the world.
    var lastSent: Int64 = 0
    /// How often the message was sent, on which connection last, and the message's place among all sendings.
    var sentCount = 0
    var connection = 0
    var place = 0

    init(
        id: Int, project: ProjectModel, target: Target, timeToLiveSeconds: UInt32?,
        priority: MessagePriority, collapseKey: String = "", idempotencyKey: String? = nil,
        paddingBytes: Int, sendAt: Instant? = nil
    ) {
        self.id = id
        self.project = project
        self.target = target
        self.timeToLiveSeconds = timeToLiveSeconds
        self.priority = priority
        self.collapseKey = collapseKey
        self.idempotencyKey = idempotencyKey
        self.paddingBytes = paddingBytes
        self.sendAt = sendAt
    }

    var isStored: Bool { timeToLiveSeconds != 0 }

    var lane: Int { Int(Lane(priority, isCollapsible: !collapseKey.isEmpty).rawValue) }

    func isExpired(_ now: Instant) -> Bool { expires <= now }

    /// Whether a scheduled message would have expired by `now`, before the send. No instance gets an expired message.
    func isOver(at now: Instant) -> Bool {
        guard let sendAt, let seconds = timeToLiveSeconds, seconds > 0 else { return false }
        return sendAt.advanced(bySeconds: Int64(seconds)) <= now
    }

    /// Notes that the message goes to its recipients.
    /// - Parameter start: instant from which the message's life counts.
    func send(at now: Instant, from start: Instant, sequence: UInt64?) {
        isSent = true
        accepted = now
        self.sequence = sequence ?? 0
        expires = start.advanced(
            bySeconds: Int64(timeToLiveSeconds ?? Limits.timeToLiveSecondsMax))
    }

    var description: String {
        var text = "message \(id) (sequence \(sequence), \(priority)"
        if let timeToLiveSeconds { text += ", \(timeToLiveSeconds) s" }
        if !collapseKey.isEmpty { text += ", key \(collapseKey)" }
        if idempotencyKey != nil { text += ", idempotent" }
        if sendAt != nil { text += ", scheduled" }
        if case .token = target { text += ", to a token" }
        if case .group(let group) = target { text += ", to group \(group.name)" }
        if case .others(let group, _) = target { text += ", of a member of \(group.name)" }
        return text + ")"
    }

    /// Numbers of the instances that the target selects now.
    var audience: Set<Int> {
        func members(_ topic: String) -> Set<Int> { project.members[topic] ?? [] }
        switch target {
        case .token(let instance): return instance.isRegistered ? [instance.number] : []
        case .topic(let topic): return members(topic)
        case .both(let first, let second): return members(first).intersection(members(second))
        case .either(let first, let second): return members(first).union(members(second))
        case .without(let first, let second):
            return members(first).subtracting(members(second))
        case .not(let topic):
            let all = Set(project.instances.filter(\.isRegistered).map(\.number))
            return all.subtracting(members(topic))
        case .group(let group): return Set(group.members)
        case .others(let group, let instance):
            return Set(group.members).subtracting([instance.number])
        }
    }

    private var wireTarget: MessageTarget {
        switch target {
        case .token(let instance): .token(instance.token)
        case .topic(let topic): .topic(topic)
        case .both(let first, let second):
            .condition("'\(first)' in topics && '\(second)' in topics")
        case .either(let first, let second):
            .condition("'\(first)' in topics || '\(second)' in topics")
        case .without(let first, let second):
            .condition("'\(first)' in topics && !('\(second)' in topics)")
        case .not(let topic): .condition("!('\(topic)' in topics)")
        case .group(let group), .others(let group, _): .group(group.key)
        }
    }

    func request(correlation: UInt32) -> SendRequest {
        var writer = WireWriter()
        Message(data: [
            .init(key: "n", value: String(id)),
            .init(key: "p", value: String(repeating: "x", count: paddingBytes)),
        ]).encode(into: &writer)
        return SendRequest(
            correlation: correlation, target: wireTarget, message: writer.bytes,
            timeToLiveSeconds: timeToLiveSeconds, priority: priority, collapseKey: collapseKey,
            idempotencyKey: idempotencyKey ?? "", sendAt: sendAt)
    }

    /// The ID of the message with this body.
    static func id(of body: [UInt8]) -> Int? {
        guard let message = try? Message(decoding: body, unknownTags: .skip) else { return nil }
        return message["n"].flatMap { Int($0) }
    }
}
