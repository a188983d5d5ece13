// SPDX-License-Identifier: Apache-2.0
//
// Splits a limit equally among the nodes of a cluster, for limits that each node counts by itself (OPS-7). Each node has an
// equal part of such a limit, so that all nodes together keep within the limit. Rests on Synchronization.

import Synchronization

/// The number of living nodes of a cluster, as a node knows it.
package final class NodeCount: Sendable {
    private let count = Atomic<Int>(1)

    package init() {}

    package var value: Int { count.load(ordering: .relaxed) }

    package func change(to nodes: Int) { count.store(max(1, nodes), ordering: .relaxed) }

    /// A node's part of a limit, at least 1; 0 for a limit of 0, which is no limit.
    package func part(of limit: Int) -> Int { limit == 0 ? 0 : max(1, limit / value) }
}
