// SPDX-License-Identifier: Apache-2.0
//
// What the log answers to a node's report: all nodes' reports, the operators' wishes, and the time. Rests on NodeReport and
// NodeWish. Pure.

/// A look at the clock of the log's server.
package struct LogClock: Hashable, Sendable {
    /// The server's time since 1970, less this machine's monotonic clock.
    package var lead: Duration
    /// How far off the lead may be.
    package var error: Duration

    package init(lead: Duration, error: Duration) {
        self.lead = lead
        self.error = error
    }
}

/// The log's answer to a node's report.
package struct NodeNews: Hashable, Sendable {
    /// The reports of all nodes, by name.
    package var nodes: [NodeSighting]
    /// Operators' wishes that haven't been withdrawn.
    package var wishes: [NodeWish]
    /// The time of the log's server; nil if the log has no clock.
    package var clock: LogClock?

    package init(nodes: [NodeSighting], wishes: [NodeWish] = [], clock: LogClock? = nil) {
        self.nodes = nodes
        self.wishes = wishes
        self.clock = clock
    }
}
