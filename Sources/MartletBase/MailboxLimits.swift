// SPDX-License-Identifier: Apache-2.0
//
// The documented limits of mailboxes, rates and fanouts that a configuration may set (0 turns a limit off).
// Rests on Limits.

/// What one broker stores for, and sends to, one instance at most, has in progress of a project, and
/// lets one ask of it.
public struct MailboxLimits: Sendable, Hashable {
    /// STO-1: messages that are not collapsible stored per instance; 0: any number.
    public var storedPerInstanceMax = Limits.storedPerInstanceMax
    /// COL-3: collapse keys stored per instance; 0: any number.
    public var collapseKeysPerInstanceMax = Limits.collapseKeysPerInstanceMax
    /// COL-4; 0: no throttle.
    public var collapsibleBurst = Limits.collapsibleBurst
    /// COL-4.
    public var collapsibleRefillSeconds = Limits.collapsibleRefillSeconds
    /// STO-2; 0: never inactive.
    public var inactiveSeconds = Limits.inactiveSeconds
    /// QUO-1; 0: any number.
    public var deviceMessagesPerMinute = Limits.deviceMessagesPerMinute
    /// QUO-1; 0: any number.
    public var deviceMessagesPerHour = Limits.deviceMessagesPerHour
    /// QUO-3; 0: any number.
    public var senderConnectionsPerMinute = Limits.senderConnectionsPerMinute
    /// QUO-3; 0: any number.
    public var senderConnectionsMax = Limits.senderConnectionsMax
    /// QUO-2; 0: any number.
    public var deviceUpstreamPerMinute = Limits.deviceUpstreamPerMinute
    /// QUO-2: per project; 0: any number.
    public var upstreamPerMinute = Limits.upstreamPerMinute
    /// UPS-1: per project; 0: any number.
    public var upstreamKeptMax = Limits.upstreamKeptMax
    /// QUO-4; 0: any number.
    public var topicChangesPerSecond = Limits.topicChangesPerSecond

    /// Tokens among the targets of one message; 0: any number that a frame has room for.
    public var multicastTokensMax = Limits.multicastTokensMax

    /// REP-1: how long a message's report is kept; 0: not at all.
    public var reportSeconds = Limits.reportSeconds
    /// REP-1: reports of single messages kept per project, the latest ones; 0: any number.
    public var reportsPerProjectMax = Limits.reportsPerProjectMax
    /// REP-1: how long a day's counts are kept, in days; 0: for ever.
    public var reportDaysMax = Limits.reportDaysMax

    /// FAN-1, QUO-5: per project; 0: any number.
    public var fanoutsInProgressMax = Limits.fanoutsInProgressMax
    /// FAN-1: per project; 0: any number.
    public var fanoutsDeferredMax = Limits.fanoutsDeferredMax
    /// FAN-1: held for the fanouts in progress of one project; 0: any number.
    public var fanoutMegabytesPerProjectMax = Limits.fanoutMegabytesPerProjectMax
    /// FAN-1: held for all fanouts in progress; 0: any number.
    public var fanoutMegabytesMax = Limits.fanoutMegabytesMax

    /// OPS-5: frames that wait to be sent for one project; 0: any number.
    public var frameMegabytesPerProjectMax = Limits.frameMegabytesPerProjectMax
    /// OPS-5: frames that wait to be sent; 0: any number.
    public var frameMegabytesMax = Limits.frameMegabytesMax
    /// OPS-5: what the connections of one project have sent and were not answered; 0: any number.
    public var requestMegabytesPerProjectMax = Limits.requestMegabytesPerProjectMax
    /// OPS-5: the same for all; 0: any number.
    public var requestMegabytesMax = Limits.requestMegabytesMax

    public init() {}

    /// Nothing is limited.
    public static var none: MailboxLimits {
        var limits = MailboxLimits()
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
        limits.deviceUpstreamPerMinute = 0
        limits.upstreamPerMinute = 0
        limits.upstreamKeptMax = 0
        limits.multicastTokensMax = 0
        return limits
    }
}
