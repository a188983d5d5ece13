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

    static var list: String { limits.map(\.name).joined(separator: ", ") }

    private let path: any WritableKeyPath<MailboxLimits, Int> & Sendable
    private let value: Int

    /// nil for an unknown name, or a value other than a whole number from 0 to 1,000,000,000.
    init?(_ text: String) {
        let parts = text.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, let value = Int(parts[1]), (0...1_000_000_000).contains(value),
            let limit = Self.limits.first(where: { $0.name == parts[0] })
        else { return nil }
        path = limit.path
        self.value = value
    }

    func apply(to limits: inout MailboxLimits) { limits[keyPath: path] = value }
}
