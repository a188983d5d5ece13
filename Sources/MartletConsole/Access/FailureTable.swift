// SPDX-License-Identifier: Apache-2.0
//
// Wrong passwords by some key, bounded in number and in time. The value decides, and writes nothing. Rests on Limits.

import Martlet

/// Counts of failures.
struct FailureTable<Key: Hashable & Sendable>: Sendable {
    private struct Failures {
        var count = 0
        var next: ContinuousClock.Instant?
        var last: ContinuousClock.Instant
    }

    /// Failures are forgotten after this time without another.
    private static var life: Duration { .seconds(900) }

    private var all: [Key: Failures] = [:]

    /// How long the next attempt must wait; nil: not at all.
    func wait(_ key: Key, at now: ContinuousClock.Instant) -> Duration? {
        guard let next = all[key]?.next, next > now else { return nil }
        return next - now
    }

    /// Counts a failure.
    /// - Parameter wait: how long the next attempt must wait after so many failures.
    mutating func add(
        _ key: Key, at now: ContinuousClock.Instant, _ wait: (_ count: Int) -> Duration?
    ) {
        var known = all[key] ?? Failures(last: now)
        if now - known.last > Self.life { known = Failures(last: now) }
        known.count += 1
        known.last = now
        known.next = wait(known.count).map { now + $0 }
        if all[key] == nil, all.count >= Limits.consoleFailuresMax { makeRoom(at: now) }
        all[key] = known
    }

    /// Forgets the failures of a key.
    /// - Returns: their number.
    @discardableResult
    mutating func remove(_ key: Key) -> Int { all.removeValue(forKey: key)?.count ?? 0 }

    private mutating func makeRoom(at now: ContinuousClock.Instant) {
        all = all.filter { now - $0.value.last <= Self.life }
        guard all.count >= Limits.consoleFailuresMax,
            let oldest = all.min(by: { $0.value.last < $1.value.last })
        else { return }
        all[oldest.key] = nil
    }
}
