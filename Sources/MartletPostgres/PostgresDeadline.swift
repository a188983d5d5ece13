// SPDX-License-Identifier: Apache-2.0
//
// The end of a call, by a clock that goes on while the machine sleeps. Rests on the standard library.

/// The moment at which a call gives up.
package struct PostgresDeadline: Sendable {
    private let end: ContinuousClock.Instant

    package init(after limit: Duration) { end = .now + limit }

    private init(end: ContinuousClock.Instant) { self.end = end }

    /// The deadline or the end of `limit`, if earlier.
    func earlier(after limit: Duration) -> PostgresDeadline {
        PostgresDeadline(end: min(end, .now + limit))
    }

    /// Time left; negative after the end.
    var left: Duration { end - .now }

    package var isOver: Bool { ContinuousClock.now >= end }

    /// Time left for a system call, rounded up, so that a call does not end before its deadline.
    var milliseconds: Int32 {
        let (seconds, attoseconds) = (end - .now).components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < 1_000_000 else { return 1_000_000_000 }
        return Int32(seconds) * 1000 + Int32(attoseconds / 1_000_000_000_000_000) + 1
    }
}
