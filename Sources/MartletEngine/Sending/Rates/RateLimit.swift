// SPDX-License-Identifier: Apache-2.0
//
// A token bucket as one number: the instant at which it is full again (GCRA). What is missing from it
// is how far that lies ahead; taking a token moves it on by what a token takes to come back. Instants
// are counted in units of which a token is a whole number, so nothing is ever rounded.
// Rests on nothing.

/// So many in a time, all of them at once if need be: a bucket of `count` tokens that is refilled
/// steadily.
struct RateLimit {
    /// How far ahead of now an empty bucket is full at most, of those that are kept by the page (QUO-1):
    /// leaves room in 32 bits.
    private static let pagedSpanMax: UInt64 = 1 << 30

    let unitsPerMillisecond: UInt64
    /// How long one token takes to come back; 0 if there is no limit.
    let cost: UInt64
    /// How long all tokens take to come back.
    let span: UInt64

    /// - Parameter count: 0: no limit.
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
            // A count this odd is kept a little too strictly: by less than a token in the time.
            unitsPerMillisecond = spanMax / milliseconds
            let units = unitsPerMillisecond * milliseconds
            cost = (units + count - 1) / count
        }
        span = cost * count
    }

    /// When a bucket that is full at `full` is full after a token was taken at `now`; nil if there was
    /// none.
    func taking(_ full: UInt64, at now: UInt64) -> UInt64? {
        let next = max(full, now) + cost
        return next <= now + span ? next : nil
    }

    /// Milliseconds until there is a token.
    func delay(_ full: UInt64, at now: UInt64) -> UInt64 {
        let next = max(full, now) + cost
        return next > now + span ? milliseconds(next - now - span) : 0
    }

    /// How long so many units take, in whole milliseconds: not sooner.
    func milliseconds(_ units: UInt64) -> UInt64 {
        (units + unitsPerMillisecond - 1) / unitsPerMillisecond
    }

    private static func greatestCommonDivisor(_ a: UInt64, _ b: UInt64) -> UInt64 {
        var (a, b) = (a, b)
        while b != 0 { (a, b) = (b, a % b) }
        return a
    }
}

/// One value for each of the two limits of QUO-1.
struct RatePair<Value> {
    var minute: Value
    var hour: Value

    init(_ minute: Value, _ hour: Value) {
        self.minute = minute
        self.hour = hour
    }
}

extension RatePair: Sendable where Value: Sendable {}

/// Both limits of QUO-1.
struct RateLimits {
    let minute: RateLimit
    let hour: RateLimit

    init(perMinute: Int, perHour: Int) {
        minute = RateLimit(count: perMinute, milliseconds: 60_000)
        hour = RateLimit(count: perHour, milliseconds: 3_600_000)
    }

    /// An instant in the units of each.
    func instant(_ milliseconds: UInt64) -> RatePair<UInt64> {
        RatePair(
            milliseconds * minute.unitsPerMillisecond, milliseconds * hour.unitsPerMillisecond)
    }
}
