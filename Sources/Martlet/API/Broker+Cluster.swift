// SPDX-License-Identifier: Apache-2.0
//
// Starts a broker as a node of a cluster (OPS-7). Rests on NodePlace.

import MartletBase
import MartletCommitter
import MartletNode
import MartletRows
import MartletStore
import MartletWire

extension Broker {
    /// Makes the broker's node; nil for a broker alone.
    /// - Throws: `INVALID_ARGUMENT` if the folder belongs to a cluster and the settings name none, or the other way round.
    static func node(
        of configuration: BrokerConfiguration, _ store: Store
    ) throws -> NodePlace? {
        let position = try store.logPosition()
        guard let place = configuration.cluster else {
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
        try NodePlace.requireFree(place)
        return NodePlace(
            place, applied: position, store: store,
            secret: try DataFolder.tokenSecret(in: configuration.folder),
            logger: configuration.logger)
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
    package var isDrained: Bool { committer.node?.isDrained ?? false }
}

extension Gauges {
    /// OPS-7: the load of this node, for the other nodes.
    func figures(of node: String) -> NodeFigures {
        var status = status()
        status.projects = Array(status.projects.prefix(NodeLimits.figureProjectsMax))
        let isActive = committer.node?.isActive ?? true
        let fanouts =
            isActive
            ? try? ownFanouts(of: nil, after: "", limit: NodeLimits.figureFanoutsMax).entries : nil
        return NodeFigures(
            node: node, isActive: isActive, fanouts: fanouts ?? [], status: status)
    }
}

extension ConnectionNumbers.Node {
    init(_ node: any BrokerNode, clock: @escaping @Sendable () -> Instant) {
        self.init(clock: clock, run: { node.run ?? 0 }, epoch: { node.epoch })
    }
}
