// SPDX-License-Identifier: Apache-2.0
//
// The node's threads one by one, for an owner that has threads of its own: a simulator. The functions are those of production's
// threads. Rests on NodePlace.

package import MartletCommitter
import MartletCluster
import MartletThreads
import Synchronization

extension NodePlace {
    /// Names the committer, before any thread runs.
    package func begin(_ committer: Committer) { links.begin(committer) }

    /// Keeps the lease, until the node ends.
    package func runKeeper(_ committer: Committer) { keeper.run(committer) }

    /// Keeps a link to the active node, until the node ends.
    package func runLink() { links.call() }

    /// Serves the link of another node until its end.
    package func serve(_ carrier: some NodeCarrier, _ outbox: LinkOutbox) {
        guard links.take(outbox, from: "") else { return outbox.end() }
        _ = links.serve(carrier, outbox)
        links.forget(outbox)
    }

    /// Asks the threads to end, after the committer's.
    package func end() {
        keeper.end()
        links.end()
    }

    /// Makes the node hold no lease any more, as a kill of the process does.
    package func kill() {
        state.withLock { state in
            state.hold = nil
            state.stopped = state.stopped ?? "killed"
        }
    }

    /// Whether the log has not answered for a while. The log may answer the node's keeper alone.
    package var isAway: Bool {
        let complete = state.completeAt.load(ordering: .relaxed)
        return state.trouble != nil
            || SystemClock.monotonicNanoseconds() > complete + ClusterLimits.questionNanoseconds
    }

    /// The reason for which the node has stopped following.
    package var stopReason: String? { state.withLock { $0.stopped } }
}
