// SPDX-License-Identifier: Apache-2.0
//
// How long a node waits for the log. The limit grows when the log is slow. With a fixed one we would never hear from a log
// whose commits take longer: a call that we give up starts over on a new connection, and connecting costs a commit too.
// Pure.

/// The limit for the next call of the log, learnt from the calls before (OPS-7).
package struct LogPatience: Hashable, Sendable {
    /// The next call's limit.
    package private(set) var limit = ClusterLimits.attempt
    /// How long slow calls have been taking lately.
    private var slowness = Duration.zero

    package init() {}

    /// A call with a commit was answered.
    package mutating func answered(after took: Duration) {
        // One fast call doesn't make a slow log fast.
        slowness = max(took, slowness * 3 / 4)
        limit = bounded(slowness * 4, from: ClusterLimits.attempt, to: ClusterLimits.attemptMax)
    }

    /// A call was given up at its limit.
    package mutating func late() {
        slowness = max(slowness, limit)
        limit = min(limit * 2, ClusterLimits.attemptMax)
    }

    /// The lease's life to ask for now. From the start of one renewal to the end of the next there are a renewal, a report and
    /// a renewal: three commits, which may take three quarters of the trusted part of the life.
    package var leaseLife: Duration {
        bounded(slowness * 5, from: ClusterLimits.leaseLife, to: ClusterLimits.leaseLifeMax)
    }

    private func bounded(
        _ time: Duration, from least: Duration, to most: Duration
    ) -> Duration {
        min(max(time, least), most)
    }
}
