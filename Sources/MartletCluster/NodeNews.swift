// SPDX-License-Identifier: Apache-2.0
//
// The log's answer to the report of a node: the reports of all nodes, the wishes of operators, and the time. Rests on
// NodeReport and NodeWish. Pure.

/// A look at the clock of the log's server.
package struct LogClock: Hashable, Sendable {
    /// The time of the server since 1970, less the time of this machine's monotonic clock.
    package var lead: Duration
    /// The lead is right up to this.
    package var error: Duration

    package init(lead: Duration, error: Duration) {
        self.lead = lead
        self.error = error
    }
}

/// The answer of the log to the report of a node.
package struct NodeNews: Hashable, Sendable {
    /// The reports of all nodes, by name.
    package var nodes: [NodeSighting]
    /// The wishes of operators that are not withdrawn.
    package var wishes: [NodeWish]
    /// The time of the log's server; nil: the log has no clock of its own.
    package var clock: LogClock?

    package init(nodes: [NodeSighting], wishes: [NodeWish] = [], clock: LogClock? = nil) {
        self.nodes = nodes
        self.wishes = wishes
        self.clock = clock
    }
}
