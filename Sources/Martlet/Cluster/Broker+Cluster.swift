// SPDX-License-Identifier: Apache-2.0
//
// Starts a broker as a node of a cluster, and reports its health (OPS-7). Rests on ClusterState.

import MartletBase
import MartletCluster
import MartletRows
import MartletStore
import Synchronization

extension Broker {
    /// A node's state at its start.
    /// - Throws: `INVALID_ARGUMENT` if the folder belongs to a cluster and the settings name none, or the other way round.
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
    /// Whether the operator has drained the node, or it has stopped following (OPS-7). Clients then go to other nodes;
    /// administrators stay.
    package var isDrained: Bool { committer.cluster?.isDrained ?? false }
}

extension MartletError {
    /// How a drained node refuses clients (OPS-7).
    package static var drained: MartletError {
        MartletError(
            .unavailable, "This node of the cluster is drained; connect to another node.",
            retryDelayMilliseconds: 1000)
    }
}

extension Committer {
    /// Why the node takes no changes; nil if it takes them (OPS-7).
    var clusterTrouble: String? {
        cluster?.withLock { state in
            // Clients must not learn the servers' addresses. The whole error is in the node's log.
            if state.stopped != nil { return "this node does not follow the log" }
            guard ClusterState.now - state.contact > ClusterLimits.away else { return nil }
            return "the log does not answer"
        }
    }

    /// Whether a load balancer may send clients here (OPS-7).
    /// - Throws: `UNAVAILABLE` if the node is drained, or has been behind the log for long.
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
