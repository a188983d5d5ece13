// SPDX-License-Identifier: Apache-2.0
//
// What an operator wants of a node. Wishes are kept in the log, so a node meets them within seconds wherever the operator's
// command runs. Rests on NodeName. Pure.

/// An operator's wish about a node (OPS-7).
package struct NodeWish: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The node sends its clients to other nodes, and takes no new ones until the wish is withdrawn or its process ends.
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
