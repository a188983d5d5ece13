// SPDX-License-Identifier: Apache-2.0
//
// The log of a cluster, seen from a node. All nodes of a cluster apply the rows of the log in turn, so all stores have
// equal contents at equal rows. A cluster rests on three promises of the log alone:
//
//   - The numbers of rows have no gaps, and each row is written after a predecessor named by the writer. A node
//     without knowledge of the last row cannot write: the tail of the log is the fence between an old and a new
//     active node.
//   - An accepted row is durable on a second server, and is not lost with the first.
//   - A row that was read is as durable. After a restart, and after a broken wait for the standby, a server shows rows
//     that no other disk has. So a commit follows each reading with a row, and the standby confirms the commit together
//     with all transactions before.
//
// Rests on the types of the module. Pure.

package import MartletRows

/// A connection of a node to the log. Calls block until the log has answered or the limit is over. An object is
/// used by a single thread at a time. A lost connection is opened again by the next call.
package protocol ReplicationLog: AnyObject {
    /// The log's name and the format of its rows.
    func identity(within limit: Duration) throws(LogError) -> LogIdentity

    // MARK: Rows

    /// Writes a row of the active node. A row in the log by an earlier call is accepted.
    /// - Parameter predecessor: the row before, of the epoch of the row.
    func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome

    /// Looks for a row in doubt.
    func fate(of row: LogPosition, within limit: Duration) throws(LogError) -> RowFate

    /// Reads the rows after a place, in turn. The bodies have at most `bytesMax` bytes together; the first row comes
    /// in any case. The reader checks the chains with `firstDivergence`.
    /// - Throws: `trimmed`, `diverged` or `foreign` if the log does not have the place.
    func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow]

    /// The last row.
    func tail(within limit: Duration) throws(LogError) -> LogPosition

    /// Commits once: all readings before on the connection are then known to be durable.
    func confirm(within limit: Duration) throws(LogError)

    // MARK: Lease

    func lease(within limit: Duration) throws(LogError) -> Lease

    /// Takes the lease and writes the first row of its epoch, both or neither. The body of the row names the node, so
    /// that two claimants never write equal rows.
    /// - Parameter predecessor: the last row of the log. The row has the next epoch.
    func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome

    /// Prolongs this node's lease of an epoch, also after the end if no other node has taken over.
    /// - Returns: whether the epoch is the last epoch, and the lease still has this node's name.
    func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool

    /// Ends the lease of an epoch at once, for a successor.
    /// - Returns: whether the epoch is the last epoch.
    func releaseLease(epoch: UInt32, within limit: Duration) throws(LogError) -> Bool

    /// Ends the lease of an epoch at once, and names the node that is to take over before all others: the successor is
    /// the lease's holder from now on.
    /// - Returns: whether the epoch is the last epoch.
    func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool

    // MARK: Nodes

    /// Writes the report of the node.
    func report(_ node: NodeReport, within limit: Duration) throws(LogError)

    /// The reports of all nodes, by name.
    func nodes(within limit: Duration) throws(LogError) -> [NodeSighting]

    /// Writes the report of the node, and reads the reports of all nodes and the wishes of operators. One commit confirms
    /// the whole, so a slow log costs its time once.
    func exchange(_ node: NodeReport, within limit: Duration) throws(LogError) -> NodeNews

    /// Forgets a node for good. The node's place keeps no rows any more.
    func remove(_ node: NodeName, within limit: Duration) throws(LogError)

    // MARK: Wishes

    /// The wishes of operators that are not withdrawn.
    func wishes(within limit: Duration) throws(LogError) -> [NodeWish]

    /// Keeps a wish. A node has at most one wish of a kind; a later one replaces an earlier one.
    func ask(_ wish: NodeWish, within limit: Duration) throws(LogError)

    /// Withdraws the wish of the kind about the node, whatever successor the wish names.
    func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError)

    // MARK: Room

    /// Makes room for rows up to `row`, ahead of the appends. Called by the active node.
    func makeRoom(through row: UInt64, within limit: Duration) throws(LogError)

    /// Drops rows below `row`, as far as whole pieces of the log are below.
    /// - Returns: the first row of the log afterwards.
    func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64

    /// What is wrong with the way to the log or with its servers, in sentences for the operator: rows on one disk alone, or
    /// in plain text on a network.
    func warnings(within limit: Duration) throws(LogError) -> [String]

    /// The bytes that the rows take on a server; nil: the log does not tell.
    func byteCount(within limit: Duration) throws(LogError) -> UInt64?

    /// The row below which the newest rows, with whole pieces of the log, take at most so many bytes; nil: all rows take
    /// no more, or the log does not tell. The piece with the last row stays in any case.
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
        throw .setting("this log keeps no wishes of operators")
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
    /// 16 random bytes. A log begun anew has another name.
    package var incarnation: [UInt8]
    /// The format of the log's first row.
    package var redoFormat: Int

    package init(incarnation: [UInt8], redoFormat: Int) {
        self.incarnation = incarnation
        self.redoFormat = redoFormat
    }
}
