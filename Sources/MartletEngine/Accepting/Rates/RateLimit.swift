// SPDX-License-Identifier: Apache-2.0
//
// A token bucket as a single number: the instant at which it is full again (GCRA). How far away that is says how many tokens
// are missing. Taking a token moves it by the time that a token needs to come back. The unit of time is chosen so that this is
// a whole number, so nothing is ever rounded. Rests on MartletBase.

import MartletBase

/// At most `count` messages in a time, all at once if need be: a bucket of `count` tokens that fills up steadily.
struct RateLimit {
    /// Longest span of buckets in pages, in units, so that instants fit into 32 bits (QUO-1).
    private static let pagedSpanMax: UInt64 = 1 << 30

    let unitsPerMillisecond: UInt64
    /// Units until a token comes back; 0 if there is no limit.
    let cost: UInt64
    /// Units until all tokens come back.
    let span: UInt64

    /// - Parameter count: the bucket's tokens; 0 for no limit.
    init(count: Int, milliseconds: UInt64, spanMax: UInt64 = RateLimit.pagedSpanMax) {
        guard count > 0 else {
            (unitsPerMillisecond, cost, span) = (1, 0, 0)
            return
        }
        let count = min(UInt64(count), spanMax)
        let divisor = Self.greatestCommonDivisor(count, milliseconds)
        if count / divisor <= spanMax / milliseconds {
            unitsPerMillisecond = count / divisor
            cost = milliseconds / divisor
        } else {
            // This count has no short common unit, so the limit is slightly too strict: by less than a token.
            unitsPerMillisecond = spanMax / milliseconds
            let units = unitsPerMillisecond * milliseconds
            cost = (units + count - 1) / count
        }
        span = cost * count
        invariant(cost > 0, "A token takes time to come back.")
    }

    /// When the bucket is full after taking a token at `now`, if it was to be full at `full`; nil if there is none left.
    func taking(_ full: UInt64, at now: UInt64) -> UInt64? {
        let next = max(full, now) + cost
        return next <= now + span ? next : nil
    }

    /// Milliseconds until the bucket has a token.
    func delay(_ full: UInt64, at now: UInt64) -> UInt64 {
        let next = max(full, now) + cost
        return next > now + span ? milliseconds(next - now - span) : 0
    }

    /// How many tokens the bucket has, if it is full at `full`; nil if there is no limit.
    func left(_ full: UInt64, at now: UInt64) -> UInt64? {
        guard cost > 0 else { return nil }
        return (span - min(max(full, now) - now, span)) / cost
    }

    /// Milliseconds in so many units, rounded up.
    func milliseconds(_ units: UInt64) -> UInt64 {
        (units + unitsPerMillisecond - 1) / unitsPerMillisecond
    }

    private static func greatestCommonDivisor(_ a: UInt64, _ b: UInt64) -> UInt64 {
        var (a, b) = (a, b)
        while b != 0 { (a, b) = (b, a % b) }
        return a
    }
}

/// Two values, for the limits per minute and per hour (QUO-1).
struct RatePair<Value> {
    var minute: Value
    var hour: Value

    init(_ minute: Value, _ hour: Value) {
        self.minute = minute
        self.hour = hour
    }
}

extension RatePair: Sendable where Value: Sendable {}

/// The limits on messages to one device, per minute and per hour (QUO-1).
struct RateLimits {
    let minute: RateLimit
    let hour: RateLimit

    init(perMinute: Int, perHour: Int) {
        minute = RateLimit(count: perMinute, milliseconds: 60_000)
        hour = RateLimit(count: perHour, milliseconds: 3_600_000)
    }

    /// An instant in the units of each limit.
    func instant(_ milliseconds: UInt64) -> RatePair<UInt64> {
        RatePair(
            milliseconds * minute.unitsPerMillisecond, milliseconds * hour.unitsPerMillisecond)
    }
}
