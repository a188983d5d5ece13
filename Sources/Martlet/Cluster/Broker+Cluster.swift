// SPDX-License-Identifier: Apache-2.0
//
// Starts a broker as a node of a cluster, and reports its health (OPS-7). Rests on ClusterState.

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
        guard let position else { throw noClusterFolder }
        return ClusterState(applied: position)
    }

    static var noClusterFolder: MartletError {
        MartletError(
            .invalidArgument,
            """
            The data folder belongs to no cluster; make the cluster of it with \
            'martlet cluster init', or copy the folder of another node.
            """, field: "data")
    }
}

extension Broker {
    /// OPS-7: whether the operator has drained the node, or the node has stopped following. Clients then go to other
    /// nodes, and administrators stay.
    package var isDrained: Bool { committer.cluster?.isDrained ?? false }
}

extension MartletError {
    /// OPS-7: the refusal of a client of a drained node.
    package static var drained: MartletError {
        MartletError(
            .unavailable, "This node of the cluster is drained; connect to another node.",
            retryDelayMilliseconds: 1000)
    }
}

extension Committer {
    /// OPS-7: the reason for which the node takes no changes; nil: it takes them.
    var clusterTrouble: String? {
        cluster?.withLock { state in
            // Clients are not told the addresses of servers. The log of the node has the whole error.
            if state.stopped != nil { return "this node does not follow the log" }
            guard ClusterState.now - state.contact > ClusterLimits.away else { return nil }
            return "the log does not answer"
        }
    }

    /// OPS-7: whether a balancer may send clients to this node.
    /// - Throws: `UNAVAILABLE` if the node is drained, or behind the log for long.
    func requireReadiness() throws(MartletError) {
        guard let cluster else { return }
        guard !cluster.isDrained else {
            throw MartletError(.unavailable, "This node of the cluster is drained.")
        }
        let trouble = cluster.withLock { state in
            state.appendTrouble != nil
                ? "The cluster's log takes no rows."
                : state.isUnlinked && state.hold == nil
                    ? "This node has no link to the active node." : nil
        }
        if let trouble {
            throw MartletError(.unavailable, trouble, retryDelayMilliseconds: 1000)
        }
        let lag = cluster.lag
        guard lag <= ClusterLimits.silence else {
            throw MartletError(
                .unavailable,
                "This node has lacked rows of the cluster for \(lag.components.seconds) s.",
                retryDelayMilliseconds: 1000)
        }
    }
}
