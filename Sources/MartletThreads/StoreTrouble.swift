// SPDX-License-Identifier: Apache-2.0
//
// Recent refusals of the store. A full disk refuses some thousand commands a second. The log gets one line a
// second with the number of refusals, and health checks fail until some seconds after the last refusal. Rests
// on no other type: the committer passes the time.

import MartletBase

/// The recent refusals of the store.
package struct StoreTrouble: Sendable {
    /// Shortest time between two log lines.
    package static let tellingMilliseconds: Int64 = 1000
    /// Time after a refusal for which the broker counts as unhealthy. The time is long, because refused
    /// commands may come less often than every second.
    package static let lastingMilliseconds: Int64 = 10_000

    private var last: (text: String, at: Int64)?
    private var toldAt: Int64?
    private var untoldCount = 0

    package init() {}

    /// Notes a refusal.
    /// - Parameter now: milliseconds of a monotonic clock.
    /// - Returns: the number of refusals for a log line that is due now; nil: no line is due.
    package mutating func note(_ text: String, at now: Int64) -> Int? {
        last = (text, now)
        untoldCount += 1
        if let toldAt, now - toldAt < Self.tellingMilliseconds { return nil }
        toldAt = now
        defer { untoldCount = 0 }
        return untoldCount
    }

    /// The reason of the last refusal, if recent; nil: the store takes all commands.
    package func lasting(at now: Int64) -> String? {
        guard let last, now - last.at < Self.lastingMilliseconds else { return nil }
        return last.text
    }
}
