// SPDX-License-Identifier: Apache-2.0
//
// The cluster's clock (OPS-7). All nodes take the time of the log's server, so they agree about the end of a message's life,
// about the instant of a scheduled message and about the later of two connections, whatever the clocks of their machines show.
// A node counts on from the log's last answer with its monotonic clock. Rests on SystemClock.

package import MartletBase
package import MartletCluster
import Synchronization

/// The time of the nodes of a cluster.
package final class ClusterTime: Sendable {
    /// Differences up to this are errors of measurement, and are not corrected: the time of a node goes on evenly.
    private static let toleratedMicroseconds: Int64 = 100_000

    /// Microseconds since 1970, less those of the monotonic clock; `.min`: the log has not told its time yet.
    private let base = Atomic<Int64>(.min)

    package init() {}

    private static var monotonicMicroseconds: Int64 {
        Int64(SystemClock.monotonicNanoseconds() / 1000)
    }

    /// Notes a look at the clock of the log's server. A slow look tells less.
    package func note(_ clock: LogClock) {
        let new = Int64(clock.lead / .microseconds(1))
        let old = base.load(ordering: .relaxed)
        let tolerated = Self.toleratedMicroseconds + Int64(clock.error / .microseconds(1))
        guard old == .min || abs(new - old) > tolerated else { return }
        base.store(new, ordering: .relaxed)
    }

    /// The time now.
    /// - Parameter own: the clock of this machine, which counts until the log has told its time.
    package func now(_ own: () -> Instant) -> Instant {
        let base = base.load(ordering: .relaxed)
        guard base != .min else { return own() }
        return Instant(millisecondsSince1970: (base + Self.monotonicMicroseconds) / 1000)
    }

    /// By how much the clock of this machine is ahead of the time of the nodes; zero before the log has told its time.
    package func lead(of own: Instant) -> Duration {
        .milliseconds(own.millisecondsSince1970 - now { own }.millisecondsSince1970)
    }
}
