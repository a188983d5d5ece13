// SPDX-License-Identifier: Apache-2.0
//
// What each node reports to the log. The formats of all nodes decide in which format new rows are written, and their places
// decide which rows are kept. Rests on NodeName. Pure.

/// A node's report.
package struct NodeReport: Hashable, Sendable {
    package var name: NodeName
    /// The run of the node's process.
    package var run: UInt32
    /// HOST:PORT where other nodes reach it.
    package var address: String
    /// The row formats that it can read and write.
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
    /// The name for connections that aren't a node's: those of commands, and of a node before its start. No node may have it
    /// (OPS-7).
    package static let passingName = "martlet-command"

    /// A report that isn't a node's. Its place is after all rows, so none is kept for it.
    package static func passing(formats: ClosedRange<Int>) -> NodeReport {
        guard let name = try? NodeName(validating: passingName) else {
            fatalError("The name is valid.")
        }
        return NodeReport(
            name: name, run: 0, address: "", formats: formats, applied: UInt64(Int64.max))
    }

    /// Whether the node's process has ended of its own accord: its last report then has no address.
    package var hasEnded: Bool { address.isEmpty }
}

/// Compares the nodes' places with a log that goes on (OPS-7). A report may be a second old, so under load every node would
/// seem behind. So we read the log's row first, and compare it with a report that is later.
package struct PlaceLook: Sendable {
    /// How much later the report must be than the log's row: long enough for a node that keeps up to apply the row.
    package static let leastLater = Duration.milliseconds(300)
    /// How long to wait for the nodes' next reports, which come once a second.
    package static let patience = Duration.seconds(3)

    /// The last row before the reports.
    package let before: UInt64
    /// The last row after the reports.
    package let after: UInt64

    package init(before: UInt64, after: UInt64) {
        self.before = before
        self.after = after
    }

    /// Whether we still have to wait for a later report.
    /// - Parameter elapsed: time from reading the log's row to reading the reports.
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

    /// Rows that the node has and the log lacks.
    package func ahead(_ report: NodeReport) -> UInt64 {
        report.applied > after ? report.applied - after : 0
    }
}

/// A report and its age, by the log's clock.
package struct NodeSighting: Hashable, Sendable {
    package var report: NodeReport
    package var age: Duration

    package init(report: NodeReport, age: Duration) {
        self.report = report
        self.age = age
    }
}
