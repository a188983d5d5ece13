// SPDX-License-Identifier: Apache-2.0
//
// Sends the log's rows to followers over their links (OPS-7). The active node does so as soon as the log has accepted a row,
// so that followers needn't read it from the log, which would cost the log's servers a commit. The chain proves that the row
// is the log's. A follower that lacks a row reads the log. Rests on LinkOutbox, NodeRow and ReplicatedRow.

package import MartletCluster
package import MartletRows
import MartletThreads
package import MartletWire
import Synchronization

/// Rows on a node's links.
package final class RowFeed: Sendable {
    private struct State {
        /// Links of followers that take rows.
        var peers: [LinkOutbox] = []
        /// The link to the active node, if it sends rows.
        var link: LinkOutbox?
        var rows: [ReplicatedRow] = []
        var bytes = 0
    }

    private let state = Mutex(State())

    package init() {}

    // MARK: The active node's side

    package func join(_ link: LinkOutbox) { state.withLock { $0.peers.append(link) } }

    package func leave(_ link: LinkOutbox) {
        state.withLock { state in state.peers.removeAll { $0 === link } }
    }

    /// Sends a row that the log has accepted.
    package func send(_ row: ReplicatedRow) {
        guard row.body.count <= ClusterLimits.linkRowBytesMax else { return }
        let peers = state.withLock { state in
            state.peers.filter { $0.hasRoom(below: ClusterLimits.linkBytesReady) }
        }
        guard !peers.isEmpty else { return }
        let bytes = NodeFrame.row(
            NodeRow(
                epoch: row.position.epoch, row: row.position.row, chain: row.position.chain,
                body: row.body)
        ).bytes
        for peer in peers { peer.push(bytes) }
    }

    // MARK: The follower's side

    /// An active node that sends rows has said hello.
    package func begin(_ link: LinkOutbox) {
        state.withLock { state in
            state.link = link
            (state.rows, state.bytes) = ([], 0)
        }
    }

    package func end(_ link: LinkOutbox) {
        state.withLock { state in if state.link === link { state.link = nil } }
    }

    /// Whether rows wait for `next`.
    package var hasRows: Bool { state.withLock { !$0.rows.isEmpty } }

    /// Drops the rows that have come, because we are active now.
    package func drop() { state.withLock { ($0.rows, $0.bytes) = ([], 0) } }

    /// Whether rows come over a link.
    package var isFed: Bool { state.withLock { $0.link != nil } }

    /// Takes a row.
    /// - Returns: false if the link must end.
    package func take(_ frame: NodeRow, from link: LinkOutbox, of incarnation: [UInt8]) -> Bool {
        var position = LogPosition(beginningOf: incarnation)
        (position.epoch, position.row, position.chain) = (frame.epoch, frame.row, frame.chain)
        let row = ReplicatedRow(read: position, body: frame.body)
        return state.withLock { state in
            guard state.link === link else { return false }
            if state.bytes + row.body.count <= ClusterLimits.heldBytesMax {
                state.rows.append(row)
                state.bytes += row.body.count
            }
            return true
        }
    }

    /// The rows that come next after a position, in order. Others are dropped; the log has them.
    package func next(after position: LogPosition) -> [ReplicatedRow] {
        let rows = state.withLock { state in
            defer { (state.rows, state.bytes) = ([], 0) }
            return state.rows
        }
        var position = position
        var next: [ReplicatedRow] = []
        for row in rows where row.position.row > position.row {
            guard row.follows(position) else { break }
            next.append(row)
            position = row.position
        }
        return next
    }
}
