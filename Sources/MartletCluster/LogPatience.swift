// SPDX-License-Identifier: Apache-2.0
//
// The time for which a node waits for the log. The limit of a call grows with a slow log: a call that is given up begins
// anew on a new connection, and the connection costs a commit too, so with a fixed limit a log whose commits take longer
// would never be heard. Pure.

/// OPS-7: the limit of the next call of the log, learnt from the calls before.
package struct LogPatience: Hashable, Sendable {
    /// Limit of the next call.
    package private(set) var limit = ClusterLimits.attempt
    /// Time of a slow call of late.
    private var slowness = Duration.zero

    package init() {}

    /// A call with a commit was answered.
    package mutating func answered(after took: Duration) {
        // A single fast call does not make a slow log a fast one.
        slowness = max(took, slowness * 3 / 4)
        limit = bounded(slowness * 4, from: ClusterLimits.attempt, to: ClusterLimits.attemptMax)
    }

    /// A call was given up at its limit.
    package mutating func late() {
        slowness = max(slowness, limit)
        limit = min(limit * 2, ClusterLimits.attemptMax)
    }

    /// Life of a lease for which the holder asks now. Between the beginnings of two renewals lie a renewal and a report,
    /// and the second renewal takes as long again: three commits, which take three quarters of the trusted part of
    /// the life.
    package var leaseLife: Duration {
        bounded(slowness * 5, from: ClusterLimits.leaseLife, to: ClusterLimits.leaseLifeMax)
    }

    private func bounded(
        _ time: Duration, from least: Duration, to most: Duration
    ) -> Duration {
        min(max(time, least), most)
    }
}
