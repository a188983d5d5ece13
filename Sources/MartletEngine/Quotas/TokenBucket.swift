// SPDX-License-Identifier: Apache-2.0
//
// A token bucket with one holder (QUO-3, QUO-4), exact to the unit. It stores how many units are missing, and as of when.
// Devices' buckets (QUO-1) work the same way in less memory. Rests on RateLimit.

package import MartletBase

/// A bucket of `count` tokens. All may be taken at once, and they come back steadily within `milliseconds`.
package struct TokenBucket: Sendable {
    /// Longest span: with it any count has a whole number of units in 64 bits.
    private static let spanMax: UInt64 = 1 << 62

    /// Tokens of the full bucket.
    let count: Int
    private let limit: RateLimit
    /// Missing tokens, in units of the limit. More than the span if more was taken at once than the bucket holds.
    private var missing: UInt64 = 0
    private var last: Instant

    /// Makes a full bucket.
    package init(count: Int, milliseconds: UInt64, at now: Instant) {
        invariant(count > 0, "A quota of nothing is no quota.")
        self.count = count
        limit = RateLimit(count: count, milliseconds: milliseconds, spanMax: Self.spanMax)
        last = now
    }

    /// Takes `count` tokens, or none. If that is more than the bucket holds, it works when the bucket is full. All of them
    /// have to come back before anything else can be taken, so in the long run no more is taken than comes back.
    /// - Returns: 0 if they were taken, otherwise the milliseconds until trying again can work, if nobody takes any meanwhile.
    package mutating func take(_ count: Int = 1, at now: Instant) -> UInt64 {
        invariant(count >= 0, "A bucket gives no fewer than no tokens.")
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

    /// Milliseconds until the bucket is full again if no more tokens are taken.
    package func untilFull(at now: Instant) -> UInt64 {
        limit.milliseconds(passed(to: now).missing)
    }

    /// Moves the bucket's clock. If the clock was set back, no time passes.
    private mutating func pass(to now: Instant) {
        let elapsed = UInt64(max(0, now.rawValue - last.rawValue))
        last = now
        // If the units don't fit into 64 bits, it was long enough to fill any bucket.
        let (units, isTooMany) = elapsed.multipliedReportingOverflow(by: limit.unitsPerMillisecond)
        missing -= isTooMany ? missing : min(missing, units)
    }

    private func passed(to now: Instant) -> TokenBucket {
        var later = self
        later.pass(to: now)
        return later
    }
}
