// SPDX-License-Identifier: Apache-2.0
//
// A token bucket as a number: the instant at which the bucket is full again (GCRA). The time until that instant is
// the measure of the missing tokens. Taking a token moves the instant by the time of a token's return. A unit of time
// is chosen so that a token takes a whole number of units, and values are never rounded. Rests on
// MartletBase.

import MartletBase

/// A limit of `count` messages in a time, in a burst if need be: a bucket of `count` tokens with a steady refill.
struct RateLimit {
    /// QUO-1: bound of the span, in units, for buckets kept in pages: instants then fit into 32 bits.
    private static let pagedSpanMax: UInt64 = 1 << 30

    let unitsPerMillisecond: UInt64
    /// Units until a token comes back; 0: no limit.
    let cost: UInt64
    /// Units until all tokens come back.
    let span: UInt64

    /// - Parameter count: tokens of the bucket; 0: no limit.
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
            // For a count without a short common unit, the limit is slightly too strict: by less than a token in the
            // time.
            unitsPerMillisecond = spanMax / milliseconds
            let units = unitsPerMillisecond * milliseconds
            cost = (units + count - 1) / count
        }
        span = cost * count
        invariant(cost > 0, "A token takes time to come back.")
    }

    /// The instant at which the bucket is full after a token was taken at `now`; nil: no token was left. `full` is
    /// the instant before.
    func taking(_ full: UInt64, at now: UInt64) -> UInt64? {
        let next = max(full, now) + cost
        return next <= now + span ? next : nil
    }

    /// Milliseconds until the bucket has a token.
    func delay(_ full: UInt64, at now: UInt64) -> UInt64 {
        let next = max(full, now) + cost
        return next > now + span ? milliseconds(next - now - span) : 0
    }

    /// Tokens of the bucket; nil: there is no limit. `full` is the instant at which the bucket is full.
    func left(_ full: UInt64, at now: UInt64) -> UInt64? {
        guard cost > 0 else { return nil }
        return (span - min(max(full, now) - now, span)) / cost
    }

    /// The time of so many units, in milliseconds, rounded up.
    func milliseconds(_ units: UInt64) -> UInt64 {
        (units + unitsPerMillisecond - 1) / unitsPerMillisecond
    }

    private static func greatestCommonDivisor(_ a: UInt64, _ b: UInt64) -> UInt64 {
        var (a, b) = (a, b)
        while b != 0 { (a, b) = (b, a % b) }
        return a
    }
}

/// Two values: for the limit per minute and the limit per hour on messages to one device (QUO-1).
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
