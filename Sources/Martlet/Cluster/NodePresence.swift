// SPDX-License-Identifier: Apache-2.0
//
// Makes sure that only one process serves under a node's name (OPS-7). A process that starts looks in the log whether another
// process of its name gives signs of life. Two processes of a name would end each other's runs, and the devices of each would
// lose their connections again and again. Rests on ReplicationLog.

import Glibc
import MartletBase
import MartletCluster
import MartletRows
import MartletStore

/// The reason for which a node stops: its name has a new process.
struct NodeNameTaken: Error, CustomStringConvertible {
    let name: NodeName

    var description: String {
        """
        another process serves as node '\(name)' by now; give each process a name of its own with \
        --node, and start this one again
        """
    }
}

enum NodePresence {
    /// A report this young may be of a living process: three times the pause between two reports.
    private static let youngest = Duration.seconds(3)
    /// Time without a sign of life after which the name is free: twice the pause between two reports.
    private static let patience = Duration.milliseconds(2200)
    /// Signs of life of a process. The first may be the last statement of a process that has ended.
    private static let signCount = 2

    /// Looks for another process with the node's name. Without an answer of the log the start goes on: a process that
    /// learns of a later process of its name stops.
    /// - Throws: `ALREADY_EXISTS` if such a process gives signs of life; `INVALID_ARGUMENT` for a reserved name.
    static func requireFree(_ place: ClusterConfiguration) throws(MartletError) {
        guard place.node.text != NodeReport.passingName else {
            throw MartletError(
                .invalidArgument, "No node may have the name '\(place.node)'.", field: "node")
        }
        let format = Int(Redo.format)
        let log = place.connect(.passing(formats: format...format), .lease)
        guard var last = sighting(of: place.node, in: log), last.age < youngest,
            !isFree(place.address, last.report)
        else { return }
        var (signs, since, looked) = (0, ClusterState.now, ClusterState.now)
        while ClusterState.now - since < patience {
            usleep(100_000)
            // The log's clock has gone on by this time at least.
            let elapsed = ClusterState.now - looked
            guard let next = sighting(of: place.node, in: log) else { return }
            looked = ClusterState.now
            // Later than the last sign by more than the ages tell of the time between.
            if next.age < last.age + elapsed - .milliseconds(50) {
                signs += 1
                since = looked
            }
            last = next
            guard signs < signCount else {
                throw MartletError(
                    .alreadyExists,
                    """
                    Another process serves as node '\(place.node)' of the cluster, at \
                    \(last.report.address). Stop that process, or give this one another name with \
                    --node.
                    """, field: "node")
            }
        }
    }

    /// Whether the reported process has the address of this one, and nothing listens there: the process has ended.
    private static func isFree(_ address: NodeAddress, _ report: NodeReport) -> Bool {
        guard report.address == address.text,
            let descriptor = try? NodeSocket.listen(at: address)
        else { return false }
        close(descriptor)
        return true
    }

    /// The report of a node; nil: the node has none, its process has ended by itself, or the log does not answer.
    private static func sighting(
        of node: NodeName, in log: any ReplicationLog
    ) -> NodeSighting? {
        guard let nodes = try? log.nodes(within: ClusterLimits.firstCommit) else { return nil }
        return nodes.first { $0.report.name == node && !$0.report.hasEnded }
    }
}
