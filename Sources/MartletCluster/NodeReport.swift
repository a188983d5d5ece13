// SPDX-License-Identifier: Apache-2.0
//
// The report of each node in the log: formats of all nodes decide on the format of new rows, and places of all nodes
// decide on the rows to keep. Rests on NodeName. Pure.

/// The report of a node.
package struct NodeReport: Hashable, Sendable {
    package var name: NodeName
    /// The run of the node's process.
    package var run: UInt32
    /// HOST:PORT of the node for other nodes.
    package var address: String
    /// Formats of rows, for reading and writing.
    package var formats: ClosedRange<Int>
    /// The last row in the node's store.
    package var applied: UInt64

    package init(
        name: NodeName, run: UInt32, address: String, formats: ClosedRange<Int>, applied: UInt64
    ) {
        self.name = name
        self.run = run
        self.address = address
        self.formats = formats
        self.applied = applied
    }
}

extension NodeReport {
    /// OPS-7: the name under which connections that are of no node report: those of commands, and of a node before its
    /// start. No node may have the name.
    package static let passingName = "martlet-command"

    /// A report of no node. The place is behind all rows, so no row is kept for it.
    package static func passing(formats: ClosedRange<Int>) -> NodeReport {
        guard let name = try? NodeName(validating: passingName) else {
            fatalError("The name is valid.")
        }
        return NodeReport(
            name: name, run: 0, address: "", formats: formats, applied: UInt64(Int64.max))
    }

    /// Whether the node's process has ended by itself: its last report has no address.
    package var hasEnded: Bool { address.isEmpty }
}

/// OPS-7: a look at the places of the nodes beside a log that goes on. A report may be a second old, so under load each
/// node has fewer rows in its report than the log has now. So the log's row is read first, and a node's report is
/// compared with it that is later.
package struct PlaceLook: Sendable {
    /// Least time between the reading of the log's row and a report: a node that is level has applied the row by then.
    package static let leastLater = Duration.milliseconds(300)
    /// Longest time for the nodes' next reports: reports come once a second.
    package static let patience = Duration.seconds(3)

    /// The last row before the reports.
    package let before: UInt64
    /// The last row after the reports.
    package let after: UInt64

    package init(before: UInt64, after: UInt64) {
        self.before = before
        self.after = after
    }

    /// Whether a later report of a node is still to come.
    /// - Parameter elapsed: time between the reading of the log's row and the reading of the reports.
    package static func awaits(_ sighting: NodeSighting, after elapsed: Duration) -> Bool {
        guard !sighting.report.hasEnded, sighting.age <= ClusterLimits.silence,
            elapsed < patience
        else { return false }
        return sighting.age + leastLater > elapsed
    }

    /// Rows that the node lacks.
    package func behind(_ report: NodeReport) -> UInt64 {
        before > report.applied ? before - report.applied : 0
    }

    /// Rows of the node that the log has not.
    package func ahead(_ report: NodeReport) -> UInt64 {
        report.applied > after ? report.applied - after : 0
    }
}

/// A report with its age by the clock of the log.
package struct NodeSighting: Hashable, Sendable {
    package var report: NodeReport
    package var age: Duration

    package init(report: NodeReport, age: Duration) {
        self.report = report
        self.age = age
    }
}
