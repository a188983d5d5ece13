// SPDX-License-Identifier: Apache-2.0
//
// The documented limits of mailboxes and rates that a configuration may set (0 turns a limit off).
// Rests on Limits.

/// What one broker stores for, and sends to, one instance at most.
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
        return limits
    }
}
