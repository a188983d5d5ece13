// SPDX-License-Identifier: Apache-2.0
//
// A limit of mailboxes, rates and fanouts on the command line of `martlet serve`: `name=value`. Rests on
// MailboxLimits.

import Martlet

struct LimitSetting: Sendable {
    private static let limits:
        [(name: String, path: any WritableKeyPath<MailboxLimits, Int> & Sendable)] = [
            ("stored-per-instance-max", \.storedPerInstanceMax),
            ("collapse-keys-per-instance-max", \.collapseKeysPerInstanceMax),
            ("collapsible-burst", \.collapsibleBurst),
            ("collapsible-refill-seconds", \.collapsibleRefillSeconds),
            ("inactive-seconds", \.inactiveSeconds),
            ("device-messages-per-minute", \.deviceMessagesPerMinute),
            ("device-messages-per-hour", \.deviceMessagesPerHour),
            ("topics-per-instance-max", \.topicsPerInstanceMax),
            ("tokens-per-topic-request", \.tokensPerTopicRequestMax),
            ("group-members", \.groupMembersMax),
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
            ("topic-changes-per-second", \.topicChangesPerSecond),
            ("device-topic-burst", \.deviceTopicBurst),
            ("device-topic-refill-seconds", \.deviceTopicRefillSeconds),
            ("registrations-per-second", \.registrationsPerSecond),
            ("instances-per-project-max", \.instancesPerProjectMax),
            ("device-upstream-per-minute", \.deviceUpstreamPerMinute),
            ("upstream-per-minute", \.upstreamPerMinute),
            ("upstream-kept-max", \.upstreamKeptMax),
            ("stranger-megabytes", \.strangerMegabytesMax),
            ("handshakes-per-address", \.handshakesPerAddressMax),
            ("registrations-per-second-per-address", \.registrationsPerSecondPerAddress),
            ("refusals-per-minute-per-address", \.refusalsPerMinutePerAddress),
        ]

    /// Limits that cannot be turned off, with the highest value that wire and store can hold.
    private static let bounds: [String: ClosedRange<Int>] = [
        "topics-per-instance-max": 1...Limits.topicsPerInstanceCeiling,
        "tokens-per-topic-request": 1...Limits.tokensPerTopicRequestCeiling,
        "group-members": 1...Limits.groupMembersCeiling,
    ]
    private static let otherBounds = 0...1_000_000_000

    static var list: String { limits.map(\.name).joined(separator: ", ") }

    /// The reason why a text is no limit.
    static func fault(in text: String) -> String {
        let name = text.prefix { $0 != "=" }
        guard limits.contains(where: { $0.name == name }) else {
            return "--limit takes name=value with a whole number, not '\(text)'. Names: \(list)."
        }
        let bounds = bounds[String(name)] ?? otherBounds
        return "--limit \(name) takes a whole number from \(bounds.lowerBound) to "
            + "\(bounds.upperBound), not '\(text.dropFirst(name.count + 1))'."
    }

    /// The limits of two values that differ, as `name=old→new`.
    static func changes(from old: MailboxLimits, to new: MailboxLimits) -> [String] {
        limits.filter { old[keyPath: $0.path] != new[keyPath: $0.path] }.map {
            "\($0.name)=\(old[keyPath: $0.path])→\(new[keyPath: $0.path])"
        }
    }

    private let path: any WritableKeyPath<MailboxLimits, Int> & Sendable
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

    func apply(to limits: inout MailboxLimits) { limits[keyPath: path] = value }
}
