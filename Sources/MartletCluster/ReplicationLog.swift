// SPDX-License-Identifier: Apache-2.0
//
// A cluster's log, as a node sees it. All nodes apply its rows in order, so at the same row all stores have the same contents.
// A cluster relies on just three promises of the log:
//
//   - Rows are numbered without gaps, and whoever writes a row names the one before it. A node that doesn't know the last row
//     can't write. So the tail of the log is the fence between an old active node and a new one.
//   - An accepted row is durable on a second server, and isn't lost with the first.
//   - So is a row that was read. After a restart, or a broken wait for the standby, a server shows rows that are on no other
//     disk. So each reading that found a row is followed by a commit, with which the standby confirms everything before.
//
// Rests on the types of the module. Pure.

package import MartletRows

/// A node's connection to the log. Calls block until the log has answered or the limit is over. Use it from one thread at a
/// time. If the connection is lost, the next call opens a new one.
package protocol ReplicationLog: AnyObject {
    /// The log's name and the format of its rows.
    func identity(within limit: Duration) throws(LogError) -> LogIdentity

    // MARK: Rows

    /// Writes the active node's row. If an earlier call has already brought it into the log, it is accepted.
    /// - Parameter predecessor: the row before, of the same epoch.
    func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome

    /// Looks for a row in doubt.
    func fate(of row: LogPosition, within limit: Duration) throws(LogError) -> RowFate

    /// Reads the rows after a place, in order, with at most `bytesMax` bytes of bodies; the first row comes in any case. Check
    /// the chains with `firstDivergence`.
    /// - Throws: `trimmed`, `diverged` or `foreign` if the log doesn't have the place.
    func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow]

    /// The last row.
    func tail(within limit: Duration) throws(LogError) -> LogPosition

    /// Commits once. Everything that was read over this connection before is then known to be durable.
    func confirm(within limit: Duration) throws(LogError)

    // MARK: Lease

    func lease(within limit: Duration) throws(LogError) -> Lease

    /// Takes the lease and writes its epoch's first row, both or neither. The row's body names the node, so two claimants never
    /// write the same row.
    /// - Parameter predecessor: the log's last row. The new row has the next epoch.
    func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome

    /// Extends this node's lease, even after its end if no other node has taken over.
    /// - Returns: whether this is still the last epoch, and the lease still has this node's name.
    func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool

    /// Ends an epoch's lease at once, for a successor.
    /// - Returns: whether this is still the last epoch.
    func releaseLease(epoch: UInt32, within limit: Duration) throws(LogError) -> Bool

    /// Ends an epoch's lease at once and makes the successor its holder, so that it takes over before all others.
    /// - Returns: whether this is still the last epoch.
    func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool

    // MARK: Nodes

    /// Writes the node's report.
    func report(_ node: NodeReport, within limit: Duration) throws(LogError)

    /// The reports of all nodes, by name.
    func nodes(within limit: Duration) throws(LogError) -> [NodeSighting]

    /// Writes the node's report and reads all reports and wishes, confirmed by a single commit, so that a slow log costs its
    /// time only once.
    func exchange(_ node: NodeReport, within limit: Duration) throws(LogError) -> NodeNews

    /// Forgets a node for good. No more rows are kept for it.
    func remove(_ node: NodeName, within limit: Duration) throws(LogError)

    // MARK: Wishes

    /// Operators' wishes that haven't been withdrawn.
    func wishes(within limit: Duration) throws(LogError) -> [NodeWish]

    /// Keeps a wish. There is at most one of a kind about a node; a new one replaces it.
    func ask(_ wish: NodeWish, within limit: Duration) throws(LogError)

    /// Withdraws the wish of this kind about the node, whatever successor it names.
    func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError)

    // MARK: Room

    /// Makes room for rows up to `row`, ahead of the appends. Called by the active node.
    func makeRoom(through row: UInt64, within limit: Duration) throws(LogError)

    /// Drops rows below `row`, whole pieces of the log at a time.
    /// - Returns: the log's first row afterwards.
    func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64

    /// What is wrong with the log's servers or the way to them, in sentences for the operator: rows are on one disk only, or go
    /// over a network in plain text.
    func warnings(within limit: Duration) throws(LogError) -> [String]

    /// How many bytes the rows take on a server; nil if the log doesn't tell.
    func byteCount(within limit: Duration) throws(LogError) -> UInt64?

    /// The first row to keep if the log may have at most so many bytes, in whole pieces. nil if it has no more than that, or
    /// doesn't tell. The piece with the last row always stays.
    func firstRow(
        ofNewest bytesMax: UInt64, within limit: Duration
    ) throws(LogError) -> UInt64?
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
        throw .setting("this log does not keep operators' wishes")
    }

    package func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError) {}

    package func warnings(within limit: Duration) throws(LogError) -> [String] { [] }

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

/// The log's name and the format of its rows.
package struct LogIdentity: Hashable, Sendable {
    /// 16 random bytes. A log that was begun anew has others.
    package var incarnation: [UInt8]
    /// The first row's format.
    package var redoFormat: Int

    package init(incarnation: [UInt8], redoFormat: Int) {
        self.incarnation = incarnation
        self.redoFormat = redoFormat
    }
}
