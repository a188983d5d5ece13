// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: a broker as a node of a cluster: its start, its questions, and its health. Rests on ClusterState.

import Glibc
import MartletBase
import MartletCluster
import MartletRows
import MartletStore
import Synchronization

extension Broker {
    /// The state of a node at its start.
    /// - Throws: `INVALID_ARGUMENT` for a folder of a cluster without the cluster, and for a cluster with a folder of
    ///   none.
    static func state(
        in cluster: ClusterConfiguration?, _ store: Store
    ) throws -> ClusterState? {
        let position = try store.logPosition()
        guard cluster != nil else {
            guard position == nil else {
                throw MartletError(
                    .invalidArgument,
                    """
                    The data folder belongs to a node of a cluster, and changes made alone would \
                    be lost to the others; serve it with --cluster.
                    """, field: "cluster")
            }
            return nil
        }
        guard let position else {
            throw MartletError(
                .invalidArgument,
                """
                The data folder belongs to no cluster; make the cluster of it with \
                'martlet cluster init', or copy the folder of another node.
                """, field: "data")
        }
        return ClusterState(applied: position)
    }
}

extension Committer {
    /// OPS-7: waits until the store has everything that any node of the cluster has answered until now. Alone, and on
    /// the active node, the store has it.
    /// - Returns: `UNAVAILABLE` if the log does not answer in time.
    func waitForNewer() -> MartletError? {
        guard let cluster else { return nil }
        let asked = SystemClock.monotonicNanoseconds()
        guard !cluster.isCurrent(at: asked) else { return nil }
        // The log has been away for a while, so a wait would hold up the thread for nothing.
        if let trouble = clusterTrouble { return .noActiveNode(trouble) }
        cluster.waiterCount.add(1, ordering: .relaxed)
        defer { cluster.waiterCount.subtract(1, ordering: .relaxed) }
        wake()
        let end = asked + ClusterLimits.questionNanoseconds
        while !cluster.isCurrent(at: asked) {
            guard SystemClock.monotonicNanoseconds() < end else {
                return .noActiveNode("the log does not answer")
            }
            usleep(500)
        }
        return nil
    }

    /// UPS-1: whether this node hands out messages of devices.
    var handsOutUpstream: Bool { cluster.map { $0.hold != nil } ?? true }

    /// OPS-7: the reason for which the node takes no changes; nil: it takes them.
    var clusterTrouble: String? {
        cluster?.withLock { state in
            if let stopped = state.stopped { return stopped }
            guard ClusterState.now - state.contact > ClusterLimits.away else { return nil }
            return state.trouble ?? "the log does not answer"
        }
    }
}
