// SPDX-License-Identifier: Apache-2.0
//
// The time to live of a message. Rests on Instant.

/// The time to live of a message (TTL-1).
public enum Lifespan: Sendable, Hashable {
    /// Seconds from the message's acceptance; 0: now or never (TTL-2).
    case seconds(UInt32)
    /// Until an instant, but at most for the longest time to live of the project. An instant not later than the
    /// acceptance means now or never.
    case until(Instant)
    /// TTL-1: the longest time to live of the project, unless configured otherwise 28 days.
    case longest
}
