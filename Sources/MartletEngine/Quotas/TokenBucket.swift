// SPDX-License-Identifier: Apache-2.0
//
// One token bucket that somebody holds (QUO-3, QUO-4), exact to the unit: what is missing from it, and
// when that was so. The devices' buckets (QUO-1) are kept more densely; the arithmetic is the same.
// Rests on RateLimit.

package import MartletBase

/// `count` tokens that come back steadily in a time, and may be taken all at once.
package struct TokenBucket: Sendable {
    /// A span is a whole number of units in 64 bits, whatever the count.
    private static let spanMax: UInt64 = 1 << 62

    private let limit: RateLimit
    /// In units of the limit. More than the bucket holds, after a request that was larger than that.
    private var missing: UInt64 = 0
    private var last: Instant

    /// A full bucket.
    package init(count: Int, milliseconds: UInt64, at now: Instant) {
        precondition(count > 0, "A quota of nothing is no quota.")
        limit = RateLimit(count: count, milliseconds: milliseconds, spanMax: Self.spanMax)
        last = now
    }

    /// Takes so many tokens, or none. More than the bucket holds are to be had when it is full, and
    /// come back like all others before the next ones are: it is possible at all, and in the long run
    /// no more are taken than come back.
    /// - Returns: 0 if they are taken, else milliseconds until they can be, if nobody else takes any.
    package mutating func take(_ count: Int = 1, at now: Instant) -> UInt64 {
        pass(to: now)
        let cost = UInt64(count) * limit.cost
        let after = missing + min(cost, limit.span)
        guard after <= limit.span else { return limit.milliseconds(after - limit.span) }
        missing += cost
        return 0
    }

    package func remaining(at now: Instant) -> Int {
        let missing = passed(to: now).missing
        return missing < limit.span ? Int((limit.span - missing) / limit.cost) : 0
    }

    /// Milliseconds until it is full again, if nobody takes any.
    package func untilFull(at now: Instant) -> UInt64 {
        limit.milliseconds(passed(to: now).missing)
    }

    /// The clock may be set back: then no time has passed.
    private mutating func pass(to now: Instant) {
        let elapsed = UInt64(max(0, now.rawValue - last.rawValue))
        last = now
        // What does not fit into 64 bits fills any bucket.
        let (units, isTooMany) = elapsed.multipliedReportingOverflow(by: limit.unitsPerMillisecond)
        missing -= isTooMany ? missing : min(missing, units)
    }

    private func passed(to now: Instant) -> TokenBucket {
        var later = self
        later.pass(to: now)
        return later
    }
}
