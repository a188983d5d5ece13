// SPDX-License-Identifier: Apache-2.0
//
// The options that make a broker a node of a cluster (OPS-7). Rests on ProgramParts.

import ArgumentParser
package import Martlet
package import MartletCluster

/// The log of a cluster, for the commands.
package protocol ClusterPart: Sendable {
    /// A broker's place in a cluster.
    /// - Throws: `INVALID_ARGUMENT` for a text that is no address of a log.
    func configuration(
        _ log: String, node: NodeName, address: NodeAddress
    ) throws(MartletError) -> ClusterConfiguration

    /// Makes the tables of a new log. A log without rows of nodes is taken as it is.
    /// - Returns: the log's name.
    func make(_ log: String) throws(MartletError) -> LogIdentity

    /// A connection for a command that looks at the log.
    func connect(_ log: String) throws(MartletError) -> any ReplicationLog
}

/// Where `martlet serve` is a node of a cluster.
struct NodeOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Serve as a node of the cluster whose log is here: a connection URI of PostgreSQL, such as "
                + "postgresql://martlet@db1,db2/martlet?passfile=/etc/martlet/pgpass.",
            valueName: "uri"))
    var cluster: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The name of this node in the cluster.", valueName: "name"))
    var node: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Where the other nodes reach this node. The node listens there.", valueName: "host:port"
        ))
    var nodeAddress: String?

    mutating func validate() throws {
        guard (cluster == nil) == (node == nil), (node == nil) == (nodeAddress == nil) else {
            throw ValidationError("--cluster, --node and --node-address go together.")
        }
        do {
            _ = try node.map { (text) throws(MartletError) in try NodeName(validating: text) }
            _ = try nodeAddress.map { (text) throws(MartletError) in
                try NodeAddress(validating: text)
            }
        } catch {
            throw ValidationError("\(error.message)")
        }
    }

    /// The broker's place; nil: the broker is alone.
    func configuration() throws(MartletError) -> ClusterConfiguration? {
        guard let cluster, let node, let nodeAddress else { return nil }
        return try ProgramParts.requiredCluster().configuration(
            cluster, node: try NodeName(validating: node),
            address: try NodeAddress(validating: nodeAddress))
    }
}
