// SPDX-License-Identifier: Apache-2.0
//
// The wishes of an operator, kept in the log: a node meets a wish within some seconds, wherever the operator's command
// runs. Rests on NodeName. Pure.

/// OPS-7: a wish of the operator about a node.
package struct NodeWish: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The node sends its clients to other nodes, and takes no new ones until the wish is withdrawn or the node's
        /// process ends.
        case drain
        /// The active node hands its role over.
        case handOver(to: NodeName)
    }

    package var node: NodeName
    package var kind: Kind

    package init(node: NodeName, kind: Kind) {
        self.node = node
        self.kind = kind
    }
}

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

/// Logs in memory keep no wishes, and have no bound on bytes.
extension ReplicationLog {
    package func exchange(
        _ node: NodeReport, within limit: Duration
    ) throws(LogError) -> NodeNews {
        try report(node, within: limit)
        return NodeNews(
            nodes: try nodes(within: limit), wishes: try wishes(within: limit))
    }

    package func wishes(within limit: Duration) throws(LogError) -> [NodeWish] { [] }

    package func ask(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        throw .setting("this log keeps no wishes of operators")
    }

    package func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError) {}

    package func byteCount(within limit: Duration) throws(LogError) -> UInt64? { nil }

    package func firstRow(
        ofNewest bytesMax: UInt64, within limit: Duration
    ) throws(LogError) -> UInt64? { nil }

    package func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool {
        try releaseLease(epoch: epoch, within: limit)
    }
}
