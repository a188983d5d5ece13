// SPDX-License-Identifier: Apache-2.0
//
// A limit on the command line: `name=value` of `martlet serve`, and of `martlet project set` for the limits that a
// project may have of its own. Rests on BrokerLimits and ProjectLimits.

import Martlet

struct LimitSetting: Sendable {
    private typealias Place = any WritableKeyPath<BrokerLimits, Int> & Sendable

    private static let limits: [(name: String, path: Place)] =
        ProjectLimit.allCases.map { (name: $0.name, path: $0.brokerValue) } + others
    /// The limits that no project has of its own.
    private static let others: [(name: String, path: Place)] = [
        ("stored-per-instance-max", \.storedPerInstanceMax),
        ("collapse-keys-per-instance-max", \.collapseKeysPerInstanceMax),
        ("collapsible-burst", \.collapsibleBurst),
        ("collapsible-refill-seconds", \.collapsibleRefillSeconds),
        ("inactive-seconds", \.inactiveSeconds),
        ("discard-notice-seconds", \.discardNoticeSeconds),
        ("device-messages-per-minute", \.deviceMessagesPerMinute),
        ("device-messages-per-hour", \.deviceMessagesPerHour),
        ("multicast-tokens-max", \.multicastTokensMax),
        ("report-seconds", \.reportSeconds),
        ("reports-per-project-max", \.reportsPerProjectMax),
        ("report-days-max", \.reportDaysMax),
        ("fanouts-in-progress", \.fanoutsInProgressMax),
        ("fanouts-deferred", \.fanoutsDeferredMax),
        ("fanout-megabytes-per-project", \.fanoutMegabytesPerProjectMax),
        ("fanout-megabytes", \.fanoutMegabytesMax),
        ("frame-megabytes-per-project", \.frameMegabytesPerProjectMax),
        ("frame-megabytes", \.frameMegabytesMax),
        ("request-megabytes-per-project", \.requestMegabytesPerProjectMax),
        ("request-megabytes", \.requestMegabytesMax),
        ("sender-connections-per-minute", \.senderConnectionsPerMinute),
        ("sender-connections-max", \.senderConnectionsMax),
        ("device-topic-burst", \.deviceTopicBurst),
        ("device-topic-refill-seconds", \.deviceTopicRefillSeconds),
        ("device-upstream-per-minute", \.deviceUpstreamPerMinute),
        ("upstream-per-minute", \.upstreamPerMinute),
        ("upstream-kept-max", \.upstreamKeptMax),
        ("stranger-megabytes", \.strangerMegabytesMax),
        ("handshakes-per-address", \.handshakesPerAddressMax),
        ("registrations-per-second-per-address", \.registrationsPerSecondPerAddress),
        ("refusals-per-minute-per-address", \.refusalsPerMinutePerAddress),
    ]

    /// Bounds of the limits that need others than `otherBounds`.
    private static let bounds: [String: ClosedRange<Int>] = {
        var bounds = ["discard-notice-seconds": 1...Limits.limitCeiling]
        for limit in ProjectLimit.allCases { bounds[limit.name] = limit.bounds }
        return bounds
    }()
    private static let otherBounds = 0...Limits.limitCeiling

    static var list: String { limits.map(\.name).joined(separator: ", ") }

    /// The reason why a text is no limit.
    static func fault(in text: String) -> String {
        let name = text.prefix { $0 != "=" }
        guard limits.contains(where: { $0.name == name }) else {
            return text.contains("=")
                ? "--limit has no limit '\(name)'."
                    + Nearest.question(about: String(name), among: limits.map(\.name))
                    + " Names: \(list)."
                : "--limit takes name=value with a whole number, not '\(text)'. Names: \(list)."
        }
        return outOfBounds(String(name), bounds[String(name)] ?? otherBounds, text)
    }

    fileprivate static func outOfBounds(
        _ name: String, _ bounds: ClosedRange<Int>, _ text: String, or word: String = ""
    ) -> String {
        "--limit \(name) takes a whole number from \(bounds.lowerBound) to \(bounds.upperBound)\(word), "
            + "not '\(text.dropFirst(name.count + 1))'."
    }

    /// The limits of two values that differ, as `name=old→new`.
    static func changes(from old: BrokerLimits, to new: BrokerLimits) -> [String] {
        limits.filter { old[keyPath: $0.path] != new[keyPath: $0.path] }.map {
            "\($0.name)=\(old[keyPath: $0.path])→\(new[keyPath: $0.path])"
        }
    }

    private let path: Place
    private let value: Int

    /// nil for an unknown name, or a value out of the limit's bounds.
    init?(_ text: String) {
        let parts = text.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, let value = Int(parts[1]),
            let limit = Self.limits.first(where: { $0.name == parts[0] }),
            (Self.bounds[limit.name] ?? Self.otherBounds).contains(value)
        else { return nil }
        path = limit.path
        self.value = value
    }

    func apply(to limits: inout BrokerLimits) { limits[keyPath: path] = value }
}

/// `name=value` of `martlet project set`, or `name=broker` for the broker's value.
struct ProjectLimitSetting: Sendable {
    private static let broker = "broker"

    static var list: String { ProjectLimit.allCases.map(\.name).joined(separator: ", ") }

    /// The reason why a text is no limit of a project.
    static func fault(in text: String) -> String {
        guard let limit = limit(of: text) else {
            let name = String(text.prefix { $0 != "=" })
            return "--limit takes name=value with a whole number, or name=broker for the broker's "
                + "value, not '\(text)'."
                + Nearest.question(about: name, among: ProjectLimit.allCases.map(\.name))
                + " Names: \(list)."
        }
        return LimitSetting.outOfBounds(limit.name, limit.bounds, text, or: ", or the word broker")
    }

    private static func limit(of text: String) -> ProjectLimit? {
        let name = text.prefix { $0 != "=" }
        return ProjectLimit.allCases.first { $0.name == name }
    }

    let change: ProjectLimitChange

    /// nil for an unknown name, or a value out of the limit's bounds.
    init?(_ text: String) {
        let parts = text.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, let limit = Self.limit(of: text) else { return nil }
        guard parts[1] != Self.broker else {
            change = ProjectLimitChange(limit, to: nil)
            return
        }
        guard let value = Int(parts[1]), limit.bounds.contains(value) else { return nil }
        change = ProjectLimitChange(limit, to: value)
    }
}
