// SPDX-License-Identifier: Apache-2.0
//
// A row of the log. Rows have numbers without gaps, and each row has a chain: a digest of all bodies up to the row. A
// reader with a place of the log can therefore tell whether a row comes next in the history of the place. Rests on
// LogPosition. Pure.

package import MartletRows

/// A row of the log: a transaction of the active node, or the beginning of a node's epoch.
package struct ReplicatedRow: Hashable, Sendable {
    /// The place of a store after the row.
    package let position: LogPosition
    package let body: [UInt8]

    /// A new row.
    /// - Parameters:
    ///   - predecessor: the last row of the log, as the writer knows the log.
    ///   - epoch: the epoch of the writer. The first row of an epoch is the row of the takeover.
    package init(after predecessor: LogPosition, epoch: UInt32, body: [UInt8]) {
        position = predecessor.following(body, epoch: epoch)
        self.body = body
    }

    /// A row of the log. `follows` tells whether the row is whole.
    package init(read position: LogPosition, body: [UInt8]) {
        self.position = position
        self.body = body
    }

    /// Whether the row comes next in the history up to `position`.
    package func follows(_ position: LogPosition) -> Bool {
        self.position.row == position.row + 1 && self.position.epoch >= position.epoch
            && self.position == position.following(body, epoch: self.position.epoch)
    }
}

/// The fate of a row in doubt.
package enum RowFate: Hashable, Sendable {
    /// The log and the standby have the row.
    case accepted
    /// The log has another row in its place, and never gets the row.
    case refused(epoch: UInt32)
    /// The log has no row in its place yet. The row may still arrive. To append the same row again settles the fate.
    case absent
}

extension Sequence<ReplicatedRow> {
    /// The first row without its predecessor directly before.
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
