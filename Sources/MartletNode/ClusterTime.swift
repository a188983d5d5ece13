// SPDX-License-Identifier: Apache-2.0
//
// The cluster's clock (OPS-7). All nodes take their time from the log's server. So they agree on when a message expires, when
// a scheduled one is due, and which of two connections is later, whatever their machines' clocks show. Between two answers of
// the log a node counts on with its monotonic clock. Rests on SystemClock.

package import MartletBase
package import MartletCluster
import MartletThreads
import Synchronization

/// The time of a cluster's nodes.
package final class ClusterTime: Sendable {
    /// Smaller differences are measurement error. We don't correct them, so that a node's time runs evenly.
    private static let toleratedMicroseconds: Int64 = 100_000

    /// Microseconds since 1970 less those of the monotonic clock; `.min` until the log has told its time.
    private let base = Atomic<Int64>(.min)

    package init() {}

    private static var monotonicMicroseconds: Int64 {
        Int64(SystemClock.monotonicNanoseconds() / 1000)
    }

    /// Takes in a look at the server's clock. The slower the look, the less it tells.
    package func note(_ clock: LogClock) {
        let new = Int64(clock.lead / .microseconds(1))
        let old = base.load(ordering: .relaxed)
        let tolerated = Self.toleratedMicroseconds + Int64(clock.error / .microseconds(1))
        guard old == .min || abs(new - old) > tolerated else { return }
        base.store(new, ordering: .relaxed)
    }

    /// The time now.
    /// - Parameter own: this machine's clock, for as long as the log hasn't told its time.
    package func now(_ own: () -> Instant) -> Instant {
        let base = base.load(ordering: .relaxed)
        guard base != .min else { return own() }
        return Instant(millisecondsSince1970: (base + Self.monotonicMicroseconds) / 1000)
    }

    /// How far this machine's clock is ahead of the nodes' time; zero until the log has told its time.
    package func lead(of own: Instant) -> Duration {
        .milliseconds(own.millisecondsSince1970 - now { own }.millisecondsSince1970)
    }
}
