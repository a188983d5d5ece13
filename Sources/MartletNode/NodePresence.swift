// SPDX-License-Identifier: Apache-2.0
//
// Makes sure that only one process serves under a node's name (OPS-7). When a process starts, it looks in the log whether
// another one with its name shows signs of life. Two of them would end each other's runs, and devices would lose their
// connections again and again. Rests on ReplicationLog.

import Glibc
import MartletBase
import MartletCluster
import MartletRows
import MartletStore
import MartletThreads

/// A node stops because a new process has its name.
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
    /// If a report is younger than this, its process may be alive: three times the pause between two reports.
    private static let youngest = Duration.seconds(3)
    /// After so long without a sign of life the name is free: twice the pause between two reports.
    private static let patience = Duration.milliseconds(2200)
    /// How many signs of life count. The first may be the last statement of a process that has ended.
    private static let signCount = 2

    /// Looks for another process with the node's name. If the log doesn't answer we start anyway: a process that learns of
    /// a later one with its name stops.
    /// - Throws: `ALREADY_EXISTS` if there are signs of life; `INVALID_ARGUMENT` for a reserved name.
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
            SystemClock.pause(microseconds: 100_000)
            // The log's clock has moved on by at least this much.
            let elapsed = ClusterState.now - looked
            guard let next = sighting(of: place.node, in: log) else { return }
            looked = ClusterState.now
            // The report is younger than it could be without a new sign, allowing for inexact ages.
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

    /// Whether the reported process had our address and nothing listens there any more, so it has ended.
    private static func isFree(_ address: NodeAddress, _ report: NodeReport) -> Bool {
        guard report.address == address.text,
            let descriptor = try? NodeSocket.listen(at: address)
        else { return false }
        close(descriptor)
        return true
    }

    /// A node's report; nil if it has none, its process has ended of its own accord, or the log doesn't answer.
    private static func sighting(
        of node: NodeName, in log: any ReplicationLog
    ) -> NodeSighting? {
        guard let nodes = try? log.nodes(within: ClusterLimits.firstCommit) else { return nil }
        return nodes.first { $0.report.name == node && !$0.report.hasEnded }
    }
}
