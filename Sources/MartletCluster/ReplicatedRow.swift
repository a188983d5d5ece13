// SPDX-License-Identifier: Apache-2.0
//
// A row of the log. Rows are numbered without gaps, and each has a chain, a digest of all bodies so far. So whoever has a place
// in the log can tell whether a row is the next one in its history. Rests on LogPosition. Pure.

package import MartletRows

/// A row of the log: a transaction of the active node, or the start of an epoch.
package struct ReplicatedRow: Hashable, Sendable {
    /// A store's place after this row.
    package let position: LogPosition
    package let body: [UInt8]

    /// A new row.
    /// - Parameters:
    ///   - predecessor: the log's last row, as far as the writer knows.
    ///   - epoch: the writer's epoch. Its first row is the takeover.
    package init(after predecessor: LogPosition, epoch: UInt32, body: [UInt8]) {
        position = predecessor.following(body, epoch: epoch)
        self.body = body
    }

    /// A row read from the log. `follows` tells whether it is intact.
    package init(read position: LogPosition, body: [UInt8]) {
        self.position = position
        self.body = body
    }

    /// Whether the row is the next one in the history up to `position`.
    package func follows(_ position: LogPosition) -> Bool {
        self.position.row == position.row + 1 && self.position.epoch >= position.epoch
            && self.position == position.following(body, epoch: self.position.epoch)
    }
}

/// What became of a row in doubt.
package enum RowFate: Hashable, Sendable {
    /// The log and the standby have the row.
    case accepted
    /// The log has another row in its place, and will never get it.
    case refused(epoch: UInt32)
    /// The log has nothing in its place yet, so it may still arrive. Appending it again tells.
    case absent
}

extension Sequence<ReplicatedRow> {
    /// The first row that doesn't follow the one before.
    /// - Parameter position: the place before the first row.
    package func firstDivergence(after position: LogPosition) -> ReplicatedRow? {
        var position = position
        for row in self {
            guard row.follows(position) else { return row }
            position = row.position
        }
        return nil
    }
}
