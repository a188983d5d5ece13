// SPDX-License-Identifier: Apache-2.0
//
// How long to wait before the next attempt: exponential with full jitter, so that devices that lost
// the same broker at the same instant do not come back at the same instant. Pure: the random
// generator is given.
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 (full jitter).

/// The pauses between attempts: a random part of base, 2 × base, 4 × base, … up to the cap.
public struct Backoff: Sendable, Hashable {
    /// The longest first pause.
    public var base: Duration
    /// The longest of all pauses.
    public var cap: Duration
    /// Failed attempts since the last success.
    public private(set) var attempts = 0

    public init(base: Duration = .milliseconds(500), cap: Duration = .seconds(60)) {
        precondition(base > .zero && cap >= base, "Backoff needs 0 < base ≤ cap.")
        self.base = base
        self.cap = cap
    }

    /// What the next pause is at most, without a wish of the broker.
    public var longestNext: Duration {
        // 2^20 × base is past any sensible cap; the exponent stays small enough not to overflow.
        min(cap, base * (1 << min(attempts, 20)))
    }

    /// The pause before the next attempt. A delay that the broker asked for is kept to, and the
    /// random part comes on top of it.
    public mutating func next(
        notBefore delayMilliseconds: UInt32? = nil, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let pause = Self.part(of: longestNext, using: &random)
        attempts += 1
        return pause + .milliseconds(Int64(delayMilliseconds ?? 0))
    }

    /// The last attempt succeeded; the next failure starts from the base again.
    public mutating func succeeded() { attempts = 0 }

    /// A random part of a duration, in whole microseconds.
    public static func part(
        of duration: Duration, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let (seconds, attoseconds) = duration.components
        let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        return .microseconds(Int64.random(in: 0...max(0, microseconds), using: &random))
    }
}
