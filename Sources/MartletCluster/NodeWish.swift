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
