// SPDX-License-Identifier: Apache-2.0
//
// A broker's place in a cluster (OPS-7). The log and the packing of its rows come from outside, so a program that embeds
// Martlet links neither PostgreSQL nor a library of packing. Rests on MartletCluster.

package import MartletCluster
import MartletRows
package import MartletStore

/// A broker's place in a cluster.
package struct ClusterConfiguration: Sendable {
    package var node: NodeName
    /// Where the other nodes reach this node. The node listens there.
    package var address: NodeAddress
    package var packing: any RedoPacking
    /// Makes a connection to the log. Called on the thread that uses the connection.
    package var connect: @Sendable (NodeReport, _ use: LogUse) -> any ReplicationLog

    /// The use of a connection to the log.
    package enum LogUse: Sendable {
        case rows
        case lease
    }

    package init(
        node: NodeName, address: NodeAddress, packing: any RedoPacking,
        connect: @escaping @Sendable (NodeReport, _ use: LogUse) -> any ReplicationLog
    ) {
        self.node = node
        self.address = address
        self.packing = packing
        self.connect = connect
    }

    /// The present report of the node; run 0: the node's run is not known yet.
    func report(_ state: ClusterState) -> NodeReport {
        NodeReport(
            name: node, run: state.run ?? 0, address: address.text,
            formats: Int(Redo.format)...Int(Redo.format), applied: state.applied.row)
    }
}
