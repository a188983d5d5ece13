// SPDX-License-Identifier: Apache-2.0
//
// What a broker asks of its node in a cluster, on any thread (OPS-7). A broker alone has no node, and runs no code of one. Rests
// on Committer.

package import MartletBase
package import MartletEngine
package import MartletTransport
package import MartletWire

/// The node of a broker in a cluster.
package protocol BrokerNode: AnyObject, Sendable {
    /// Runs the committer on its thread, until the broker stops.
    func run(_ committer: Committer, _ transport: inout some Transport & ~Copyable)
    /// How many nodes are alive, for limits that they share.
    var nodes: ShareCount { get }
    /// The run of this process; nil: it has none yet.
    var run: UInt32? { get }
    var epoch: UInt32 { get }

    // MARK: Health

    /// Whether this node is active: it applies commands, and counts for the others.
    var isActive: Bool { get }
    /// Whether clients are told to go to other nodes.
    var isDrained: Bool { get }
    /// Why no changes are taken; nil: they are.
    var trouble: String? { get }
    /// Whether a load balancer may send clients here.
    /// - Throws: `UNAVAILABLE` if the node is drained, or has been behind the log for long.
    func requireReadiness() throws(MartletError)

    // MARK: Messages

    /// Begins to count a fanout that other nodes hear of too.
    func begin(_ progress: FanoutProgress, loops: Int, at now: Instant)
    /// Whether a loop or caller sends now-or-never messages itself (TTL-2).
    var sendsNowOrNever: Bool { get }
    /// Bytes of now-or-never messages past which a loop hands them over in the middle of a turn.
    var nowOrNeverFrameBytes: Int { get }
    /// Hands now-or-never fanouts to the other nodes, and then to our own loops (TTL-2).
    /// - Parameter loops: tells the loops.
    func tell(nowOrNever fanouts: [Fanout], loops: () -> Void)

    // MARK: How new the store is

    /// Nanoseconds for which a question waits for a newer store.
    var questionNanoseconds: UInt64 { get }
    /// Whether the store has everything that any node had answered at a time.
    func isCurrent(at nanoseconds: UInt64) -> Bool
    /// Whether other nodes have said, since this time, that our store lacks nothing.
    /// - Parameter isLast: whether we have waited long enough for a log that may just be slow.
    func isNewWithoutLog(at nanoseconds: UInt64, isLast: Bool) -> Bool
    /// Whether the loops have every now-or-never message that any node had sent to a device at this time.
    func hasAllMessages(before nanoseconds: UInt64) -> Bool
    /// A device has waited too long for those messages.
    func giveUpMessages(at nanoseconds: UInt64)
    /// Begins a wait of a caller that needs the store as new as this.
    func beginWait(since nanoseconds: UInt64)
    func endWait()
    /// Waits without blocking a thread.
    /// - Returns: false if the store isn't new enough at the end of the wait, or if the broker ends.
    func current(at asked: UInt64, until end: UInt64) async -> Bool

    // MARK: Figures

    /// The living nodes that have reported.
    var living: Set<String> { get }
    /// The active node's load, if it is another and has reported.
    var figuresOfActive: NodeFigures? { get }
    /// The quotas that the active node counts, if it is another and has reported.
    func quotas(of project: ProjectNumber) -> [CountedQuota: QuotaLeft]?
    /// Adds other nodes' loads to our own.
    func addOthers(to status: inout BrokerStatus)
    /// The node's metrics in the text format of Prometheus.
    var metricsText: String { get }
}

extension MartletError {
    /// Nothing can be changed, because no node is active or none can be reached (OPS-7).
    package static func noActiveNode(_ reason: String) -> MartletError {
        MartletError(
            .unavailable,
            "The cluster takes no changes now (\(reason)); try again.", retryDelayMilliseconds: 1000
        )
    }

    /// How a drained node refuses clients (OPS-7).
    package static var drained: MartletError {
        MartletError(
            .unavailable, "This node of the cluster is drained; connect to another node.",
            retryDelayMilliseconds: 1000)
    }
}
