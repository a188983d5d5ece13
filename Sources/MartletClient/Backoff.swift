// SPDX-License-Identifier: Apache-2.0
//
// Pauses between attempts: exponential with full jitter, so devices that lost the same broker at the same instant
// return at different instants. Pure: the caller passes the random generator.
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 (full jitter).

/// Pauses between attempts. A pause is a random part of base, 2 × base, 4 × base, … up to the cap.
public struct Backoff: Sendable, Hashable {
    /// Longest first pause.
    public var base: Duration
    /// Longest pause of all.
    public var cap: Duration
    /// Failed attempts since the last success.
    public private(set) var attempts = 0

    /// Makes pauses that begin with at most half a second and grow to at most a minute, unless told otherwise.
    /// - Precondition: 0 < `base` ≤ `cap`.
    public init(base: Duration = .milliseconds(500), cap: Duration = .seconds(60)) {
        precondition(base > .zero && cap >= base, "Backoff needs 0 < base ≤ cap.")
        self.base = base
        self.cap = cap
    }

    /// Longest value of the next pause, without a delay from the broker.
    public var longestNext: Duration {
        // 2^20 × base exceeds any sensible cap, and the small exponent cannot overflow.
        min(cap, base * (1 << min(attempts, 20)))
    }

    /// The pause before the next attempt. A delay from the broker counts in full, and the random part is added.
    public mutating func next(
        notBefore delayMilliseconds: UInt32? = nil, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let pause = Self.part(of: longestNext, using: &random)
        attempts += 1
        return pause + .milliseconds(Int64(delayMilliseconds ?? 0))
    }

    /// Call after a successful attempt. The next failure starts from the base again.
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
