// SPDX-License-Identifier: Apache-2.0
//
// The documented limits that a configuration may change. 0 turns a limit off, where the limit says so. A project may
// have some of them of its own (ProjectLimits). Rests on Limits.

/// The limits of one broker that its operator may change: of mailboxes, rates, messages, reports, fanouts, memory and
/// strangers. `Limits` has the reason for each default.
public struct BrokerLimits: Sendable, Hashable {
    /// STO-1: non-collapsible messages stored per instance; 0: unlimited.
    public var storedPerInstanceMax = Limits.storedPerInstanceMax
    /// COL-3: collapse keys stored per instance; 0: unlimited.
    public var collapseKeysPerInstanceMax = Limits.collapseKeysPerInstanceMax
    /// COL-4: collapsible messages that one app on one device receives without a delay; 0: no throttle.
    public var collapsibleBurst = Limits.collapsibleBurst
    /// COL-4: seconds after which the throttle allows one further collapsible message.
    public var collapsibleRefillSeconds = Limits.collapsibleRefillSeconds
    /// STO-2: seconds since the last connection after which an instance is inactive; 0: never.
    public var inactiveSeconds = Limits.inactiveSeconds
    /// STO-2: seconds for which an inactive instance is told of the last message that was discarded for it, at least 1.
    public var discardNoticeSeconds = Limits.discardNoticeSeconds
    /// QUO-1: messages to one device in a minute; 0: unlimited.
    public var deviceMessagesPerMinute = Limits.deviceMessagesPerMinute
    /// QUO-1: messages to one device in an hour; 0: unlimited.
    public var deviceMessagesPerHour = Limits.deviceMessagesPerHour
    /// QUO-3: connections that a project's senders may open in a minute; 0: unlimited.
    public var senderConnectionsPerMinute = Limits.senderConnectionsPerMinute
    /// QUO-3: connections that a project's senders may have open at a time; 0: unlimited.
    public var senderConnectionsMax = Limits.senderConnectionsMax
    /// QUO-2: messages from one device in a minute; 0: unlimited.
    public var deviceUpstreamPerMinute = Limits.deviceUpstreamPerMinute
    /// QUO-2: messages from all devices of a project in a minute; 0: unlimited.
    public var upstreamPerMinute = Limits.upstreamPerMinute
    /// UPS-1: messages from a project's devices, kept until a sender takes them; 0: unlimited.
    public var upstreamKeptMax = Limits.upstreamKeptMax
    /// QUO-4: changes of a project's subscriptions in a second; 0: unlimited.
    public var topicChangesPerSecond = Limits.topicChangesPerSecond
    /// TOP-11: changes of subscriptions that one device may make without a delay; 0: unlimited.
    public var deviceTopicBurst = Limits.deviceTopicBurst
    /// TOP-11: seconds after which the device may make one further change.
    public var deviceTopicRefillSeconds = Limits.deviceTopicRefillSeconds
    /// REG-8: registrations of new devices of a project in a second; 0: unlimited.
    public var registrationsPerSecond = Limits.registrationsPerSecond
    /// REG-8: registered instances of a project; 0: unlimited.
    public var instancesPerProjectMax = Limits.instancesPerProjectMax

    /// MSG-3: payload of a message, in bytes, 1 to 12,288.
    public var payloadBytesMax = Limits.payloadBytesMax
    /// TTL-1: longest and default time to live of a message, in seconds, 1 to 31,536,000. Stored messages keep their
    /// time to live when the limit changes.
    public var timeToLiveSecondsMax = Int(Limits.timeToLiveSecondsMax)
    /// CON-3: distinct topics in one condition, 1 to 64.
    public var conditionTopicsMax = Limits.conditionTopicsMax
    /// TOP-3: topics that one instance may subscribe to, 1 to 20,000.
    public var topicsPerInstanceMax = Limits.topicsPerInstanceMax
    /// TOP-4: tokens in one topic management request, 1 to 10,000.
    public var tokensPerTopicRequestMax = Limits.tokensPerTopicRequestMax
    /// GRP-2: members of one group, 1 to 1000.
    public var groupMembersMax = Limits.groupMembersMax
    /// Tokens among the targets of one multicast message; 0: as many as fit into a frame.
    public var multicastTokensMax = Limits.multicastTokensMax

    /// REP-1: how long a message's report is kept, in seconds; 0: no reports of single messages.
    public var reportSeconds = Limits.reportSeconds
    /// REP-1: reports of single messages kept per project, newest first; 0: unlimited.
    public var reportsPerProjectMax = Limits.reportsPerProjectMax
    /// REP-1: how long a project's daily counts are kept, in days; 0: forever.
    public var reportDaysMax = Limits.reportDaysMax

    /// FAN-1, QUO-5: fanouts in progress per project; 0: unlimited.
    public var fanoutsInProgressMax = Limits.fanoutsInProgressMax
    /// FAN-1: deferred messages per project; 0: unlimited.
    public var fanoutsDeferredMax = Limits.fanoutsDeferredMax
    /// FAN-1: memory for the fanouts in progress per project, in MiB; 0: unlimited.
    public var fanoutMegabytesPerProjectMax = Limits.fanoutMegabytesPerProjectMax
    /// FAN-1: memory for all fanouts in progress, in MiB; 0: unlimited.
    public var fanoutMegabytesMax = Limits.fanoutMegabytesMax

    /// OPS-5: memory for queued frames per project, in MiB; 0: unlimited.
    public var frameMegabytesPerProjectMax = Limits.frameMegabytesPerProjectMax
    /// OPS-5: memory for all queued frames, in MiB; 0: unlimited.
    public var frameMegabytesMax = Limits.frameMegabytesMax
    /// OPS-5: unanswered bytes per project, in MiB; 0: unlimited.
    public var requestMegabytesPerProjectMax = Limits.requestMegabytesPerProjectMax
    /// OPS-5: unanswered bytes of all connections, in MiB; 0: unlimited.
    public var requestMegabytesMax = Limits.requestMegabytesMax

    /// NET-6: memory for peers without a credential, in MiB; 0: unlimited.
    public var strangerMegabytesMax = Limits.strangerMegabytesMax
    /// NET-6: connections of one address that have no WELCOME yet; 0: unlimited. An address is an IPv4 address, or
    /// the first 64 bits of an IPv6 address.
    public var handshakesPerAddressMax = Limits.handshakesPerAddressMax
    /// REG-8: registrations of one address in a second, on average; 0: unlimited.
    public var registrationsPerSecondPerAddress = Limits.registrationsPerSecondPerAddress
    /// REG-10: wrong credentials of one address in a minute after which further ones wait; 0: none waits.
    public var refusalsPerMinutePerAddress = Limits.refusalsPerMinutePerAddress

    /// The documented limits, as `Limits` states them.
    public init() {}

    /// OPS-11: the rules of mailboxes. A broker keeps them as long as it is open, because the sessions and the store
    /// must decide alike about a mailbox.
    public static let mailboxRules: [any WritableKeyPath<BrokerLimits, Int> & Sendable] = [
        \.storedPerInstanceMax, \.collapseKeysPerInstanceMax, \.collapsibleBurst,
        \.collapsibleRefillSeconds,
    ]

    /// Every limit turned off, except that reports keep their default bounds.
    public static var none: BrokerLimits {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 0
        limits.collapseKeysPerInstanceMax = 0
        limits.collapsibleBurst = 0
        limits.inactiveSeconds = 0
        limits.deviceMessagesPerMinute = 0
        limits.deviceMessagesPerHour = 0
        limits.fanoutsInProgressMax = 0
        limits.fanoutsDeferredMax = 0
        limits.fanoutMegabytesPerProjectMax = 0
        limits.fanoutMegabytesMax = 0
        limits.frameMegabytesPerProjectMax = 0
        limits.frameMegabytesMax = 0
        limits.requestMegabytesPerProjectMax = 0
        limits.requestMegabytesMax = 0
        limits.senderConnectionsPerMinute = 0
        limits.senderConnectionsMax = 0
        limits.topicChangesPerSecond = 0
        limits.deviceTopicBurst = 0
        limits.registrationsPerSecond = 0
        limits.instancesPerProjectMax = 0
        limits.deviceUpstreamPerMinute = 0
        limits.upstreamPerMinute = 0
        limits.upstreamKeptMax = 0
        limits.multicastTokensMax = 0
        limits.strangerMegabytesMax = 0
        limits.handshakesPerAddressMax = 0
        limits.registrationsPerSecondPerAddress = 0
        limits.refusalsPerMinutePerAddress = 0
        return limits
    }
}
