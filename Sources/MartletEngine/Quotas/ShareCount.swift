// SPDX-License-Identifier: Apache-2.0
//
// Splits a limit that each node counts for itself into equal parts, so that all nodes together stay within it
// (OPS-7). Rests on Synchronization.

import Synchronization

/// How many nodes share the limits, as far as this one knows.
package final class ShareCount: Sendable {
    private let count = Atomic<Int>(1)

    package init() {}

    package var value: Int { count.load(ordering: .relaxed) }

    package func change(to nodes: Int) { count.store(max(1, nodes), ordering: .relaxed) }

    /// A node's part of a limit, at least 1; 0 for a limit of 0, which is no limit.
    package func part(of limit: Int) -> Int { limit == 0 ? 0 : max(1, limit / value) }
}
