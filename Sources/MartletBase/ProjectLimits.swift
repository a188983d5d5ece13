// SPDX-License-Identifier: Apache-2.0
//
// The limits that a project may have of its own, in place of the broker's values. The names and the bounds of these
// limits are stated here once, for the broker's settings and for projects. A value of a project never depends on the
// broker's value, so a later change of the broker's value leaves the project's value as it is. Rests on BrokerLimits.

/// A limit that a project may have of its own. The number is part of the store's format and of the protocol.
public enum ProjectLimit: UInt8, Sendable, Hashable, CaseIterable {
    /// TOP-3: topics that one instance may subscribe to.
    case topicsPerInstance = 1
    /// TOP-4: tokens in one topic management request.
    case tokensPerTopicRequest = 2
    /// GRP-2: members of one group.
    case groupMembers = 3
    /// MSG-3: payload of a message, in bytes.
    case payloadBytes = 4
    /// TTL-1: longest and default time to live of a message, in seconds.
    case timeToLiveSeconds = 5
    /// TOP-6: changes of subscriptions in a second; 0: unlimited.
    case topicChangesPerSecond = 6
    /// CON-3: distinct topics in one condition.
    case topicsPerCondition = 7
    /// REG-8: registrations of new devices in a second; 0: unlimited.
    case registrationsPerSecond = 8
    /// REG-8: registered instances; 0: unlimited.
    case instancesPerProject = 9

    /// Name of the limit on the command line and in a file of settings.
    public var name: String {
        switch self {
        case .topicsPerInstance: "topics-per-instance-max"
        case .tokensPerTopicRequest: "tokens-per-topic-request"
        case .groupMembers: "group-members"
        case .payloadBytes: "payload-bytes-max"
        case .timeToLiveSeconds: "time-to-live-seconds-max"
        case .topicChangesPerSecond: "topic-changes-per-second"
        case .topicsPerCondition: "topics-per-condition-max"
        case .registrationsPerSecond: "registrations-per-second"
        case .instancesPerProject: "instances-per-project-max"
        }
    }

    /// Values that wire, rows and frames can hold, for a broker and for a project.
    public var bounds: ClosedRange<Int> {
        switch self {
        case .topicsPerInstance: 1...Limits.topicsPerInstanceCeiling
        case .tokensPerTopicRequest: 1...Limits.tokensPerTopicRequestCeiling
        case .groupMembers: 1...Limits.groupMembersCeiling
        case .payloadBytes: 1...Limits.payloadBytesCeiling
        case .timeToLiveSeconds: 1...Int(Limits.timeToLiveSecondsCeiling)
        case .topicsPerCondition: 1...Limits.conditionTopicsCeiling
        case .topicChangesPerSecond, .registrationsPerSecond, .instancesPerProject:
            0...Limits.limitCeiling
        }
    }

    /// The broker's value, which holds for each project without a value of its own.
    public var brokerValue: any WritableKeyPath<BrokerLimits, Int> & Sendable {
        switch self {
        case .topicsPerInstance: \.topicsPerInstanceMax
        case .tokensPerTopicRequest: \.tokensPerTopicRequestMax
        case .groupMembers: \.groupMembersMax
        case .payloadBytes: \.payloadBytesMax
        case .timeToLiveSeconds: \.timeToLiveSecondsMax
        case .topicChangesPerSecond: \.topicChangesPerSecond
        case .topicsPerCondition: \.conditionTopicsMax
        case .registrationsPerSecond: \.registrationsPerSecond
        case .instancesPerProject: \.instancesPerProjectMax
        }
    }
}

/// The values that a project has of its own. All other limits of the project are the broker's.
public struct ProjectLimits: Sendable, Hashable {
    /// The value of each limit, at the limit's number less 1. The value is stored inline: the committer copies a
    /// project with each message.
    private var values = SIMD16<UInt32>(repeating: ProjectLimits.absent)
    private static let absent = UInt32.max

    /// Makes limits without a value.
    public init() {}

    /// The project's own value; nil: the broker's value holds. A value to set is within the limit's bounds.
    public package(set) subscript(limit: ProjectLimit) -> Int? {
        get {
            let value = values[Int(limit.rawValue) - 1]
            return value == Self.absent ? nil : Int(value)
        }
        set {
            invariant(
                newValue.map(limit.bounds.contains) ?? true, "A project's limit is within bounds.")
            values[Int(limit.rawValue) - 1] = newValue.map { UInt32($0) } ?? Self.absent
        }
    }

    /// The limits with a value, in the order of their numbers.
    public var own: [ProjectLimit] { ProjectLimit.allCases.filter { self[$0] != nil } }
}

/// A new value for a limit of a project.
public struct ProjectLimitChange: Sendable, Hashable {
    /// The limit that changes.
    public var limit: ProjectLimit
    /// The project's own value, within `limit.bounds`; nil goes back to the broker's value.
    public var value: Int?

    /// Makes a change of one limit.
    public init(_ limit: ProjectLimit, to value: Int?) {
        self.limit = limit
        self.value = value
    }
}

/// A limit as it holds for a project.
public struct ProjectLimitSummary: Sendable, Hashable {
    /// The limit.
    public var limit: ProjectLimit
    /// The value in force, in the unit of the limit's name.
    public var value: Int
    /// True for the project's own value, false for the broker's.
    public var isOwn: Bool

    package init(limit: ProjectLimit, value: Int, isOwn: Bool) {
        self.limit = limit
        self.value = value
        self.isOwn = isOwn
    }
}

extension BrokerLimits {
    /// The limits in force for a project with values of its own.
    package func with(_ own: ProjectLimits) -> BrokerLimits {
        var limits = self
        for limit in own.own { limits[keyPath: limit.brokerValue] = own[limit]! }
        return limits
    }

    /// Each limit that a project may have of its own, as it holds for a project.
    package func summaries(with own: ProjectLimits) -> [ProjectLimitSummary] {
        ProjectLimit.allCases.map { limit in
            ProjectLimitSummary(
                limit: limit, value: own[limit] ?? self[keyPath: limit.brokerValue],
                isOwn: own[limit] != nil)
        }
    }
}
