// SPDX-License-Identifier: Apache-2.0
//
// A broker's place in a cluster (OPS-7). The log and the compression of its rows are passed in, so a program that embeds
// Martlet links neither PostgreSQL nor a compression library. Rests on ReplicationLog.

package import MartletRows

/// A broker's place in a cluster.
package struct ClusterConfiguration: Sendable {
    package var node: NodeName
    /// Where the other nodes reach this one. It listens there.
    package var address: NodeAddress
    package var packing: any RedoPacking
    /// Makes a connection to the log. Called on the thread that will use it.
    package var connect: @Sendable (NodeReport, _ use: LogUse) -> any ReplicationLog

    /// What a connection to the log is for.
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
}
