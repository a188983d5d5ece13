// SPDX-License-Identifier: Apache-2.0
//
// The time to live of a message. Rests on Instant and Limits.

/// The time to live of a message (TTL-1).
public enum Lifespan: Sendable, Hashable {
    /// Seconds from the message's acceptance; 0: now or never (TTL-2).
    case seconds(UInt32)
    /// Until an instant, but at most `Limits.timeToLiveSecondsMax` after acceptance. An instant not later than the
    /// acceptance means now or never.
    case until(Instant)

    /// TTL-1: the longest time to live, 28 days.
    public static let longest = Lifespan.seconds(Limits.timeToLiveSecondsMax)
}
