// SPDX-License-Identifier: Apache-2.0
//
// What a node's threads know about the cluster: the committer, the keeper of the lease, the links to other nodes, and the
// loops share it (OPS-7). Rests on MartletCluster.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import Synchronization

/// The state of a node, readable from any thread.
final class ClusterState: Sendable {
    /// A random number of the process. The node knows the run that the active node has given it by this number.
    let process = UInt64.random(in: 1 ... .max)
    /// When the process began.
    let began = ClusterState.now

    struct State {
        /// The node's hold on the lease; nil: the node follows.
        var hold: LeaseHold?
        /// Whether the last renewal of the hold that has ended has failed.
        var hasRenewalFailed = false
        /// The time for which the node's threads wait for the log.
        var patience = LogPatience()
        /// Whether the log has an epoch after the node's own.
        var isFenced = false
        /// The lease as seen last, and when.
        var lease: Lease?
        var leaseSeen = Duration.zero
        /// The epoch whose lease is over or whose holder is gone, when this node's turn to take over has come. A claim on
        /// a later epoch needs another look.
        var claimable: UInt32?
        /// The name of the node that began the last applied epoch; nil: not known yet.
        var leader: String?
        /// The epoch whose holder's process is gone, or has stepped down here. Its lease need not be over.
        var goneEpoch: UInt32?
        /// Nodes without a sign of life. Their runs end.
        var silent: [String] = []
        /// Processes of nodes that want a run.
        var wanted: [LivingRunsRow.Run] = []
        var applied: LogPosition
        /// The node's own run; nil: not known yet.
        var run: UInt32?
        var livingNodeCount = 1
        /// The last answer of the log, and the reason for none since.
        var contact = Duration.zero
        var trouble: String?
        /// The reason for which the node does not go on.
        var stopped: String?
        var takeoverCount: UInt64 = 0
        var doubtCount: UInt64 = 0
        var forwardedCount: UInt64 = 0
        var appendCount: UInt64 = 0
        var appendBytes: UInt64 = 0
        var appendNanoseconds: UInt64 = 0
        /// The reason for which the log has not taken a row for some seconds, although it answers.
        var appendTrouble: String?
        /// When another node, the active one, has said last that the log takes no rows; nil: it has not said so.
        var refusalHeard: Duration?
        /// Whether another node is active, and there has been no link to it for some seconds.
        var isUnlinked = false
        /// The time before which the node does not claim the role that it has handed over.
        var claimsFrom = Duration.zero
        /// Whether the committer is to hand the active role over.
        var mustHandOver = false
        /// The node that is to be active next, if this node is active and ends or hands the role over.
        var successor: NodeReport?
        /// Whether the operator has drained the node.
        var isDrained = false
        /// Whether the node's thread looks at the lease at once, because the link to the active node has ended.
        var mustLook = false
        /// The other nodes that were living at the last answer of the log; nil: the log has not answered this process.
        var others: [NodeReport]?
        /// The last row that any node has reported.
        var logRow: UInt64 = 0
        /// When the node had all reported rows last.
        var caughtUp = Duration.zero
    }

    private let state: Mutex<State>
    /// The time, in nanoseconds of the monotonic clock, up to which the node's store has everything that any node of
    /// the cluster has answered. The active node's is read by `isCurrent`.
    private let freshThrough = Atomic<UInt64>(0)
    /// The last time of which the store had all rows that the log showed, in nanoseconds of the monotonic clock; 0: none is
    /// known. The committer alone writes it.
    let completeAt = Atomic<UInt64>(0)
    /// The time of the nodes.
    let time = ClusterTime()
    /// Whether the log may have a row of this node that the node's store has not, or that the node's loops do not know
    /// of. Followers may have told of the row.
    let isAppending = Atomic(false)
    /// The living nodes, for limits of which each node has a part.
    let nodes = NodeCount()
    /// Whether the row under way changes the recipients that a message has.
    let isChangingRecipients = Atomic(false)
    /// Questions and refusals that wait for a newer store.
    let waiterCount = Atomic<Int>(0)
    /// The last time, in nanoseconds of the monotonic clock, of which a waiter needs the store.
    private let newestWait = Atomic<UInt64>(0)
    /// Callers that wait for a newer store without a thread; nil: the broker ends.
    let waiters = Mutex<[Waiter]?>([])

    init(applied: LogPosition) { state = Mutex(State(applied: applied)) }

    func withLock<Result: Sendable>(_ body: (inout sending State) -> sending Result) -> Result {
        state.withLock { body(&$0) }
    }

    var run: UInt32? { state.withLock { $0.run } }
    var applied: LogPosition { state.withLock { $0.applied } }
    var hold: LeaseHold? { state.withLock { $0.hold } }
    var isDrained: Bool { state.withLock { $0.isDrained } }

    /// Time for which the node has lacked rows that another node has reported.
    var lag: Duration {
        state.withLock { state in
            guard state.hold == nil, state.applied.row < state.logRow, state.caughtUp != .zero
            else { return .zero }
            return Self.now - state.caughtUp
        }
    }

    /// Whether the active node has just said that the log takes no rows.
    var isLogRefusing: Bool {
        state.withLock { state in
            state.refusalHeard.map { Self.now - $0 < ClusterLimits.refusingHeard } ?? false
        }
    }

    /// Time since any moment, by the monotonic clock.
    static var now: Duration { .nanoseconds(Int64(SystemClock.monotonicNanoseconds())) }

    /// Calls the log with the limit of the moment, and learns from the time of the call.
    /// - Parameters:
    ///   - commits: whether an answer took a commit of the log.
    ///   - isAnswered: whether the log has answered.
    func call<Answer>(
        commits: (Answer) -> Bool = { _ in true }, isAnswered: (Answer) -> Bool = { _ in true },
        _ body: (_ limit: Duration) throws(LogError) -> Answer
    ) throws(LogError) -> Answer {
        let limit = withLock { $0.patience.limit }
        let began = Self.now
        func note(isAnswered: Bool, commits: Bool) {
            let took = Self.now - began
            withLock { state in
                if isAnswered {
                    if commits { state.patience.answered(after: took) }
                } else if took >= limit, state.patience.limit <= limit {
                    // Calls of two threads that end together count once.
                    state.patience.late()
                }
            }
        }
        do throws(LogError) {
            let answer = try body(limit)
            note(isAnswered: isAnswered(answer), commits: commits(answer))
            return answer
        } catch {
            note(isAnswered: false, commits: false)
            throw error
        }
    }

    /// Whether the node is active and may tell outcomes.
    var isActive: Bool {
        state.withLock { $0.hold.map { $0.isValid(at: Self.now) } ?? false }
    }

    // MARK: Freshness

    func beginWait(since nanoseconds: UInt64) {
        _ = newestWait.max(nanoseconds, ordering: .relaxed)
        waiterCount.add(1, ordering: .acquiringAndReleasing)
    }

    /// The last time of which a waiter needs the store; nil: nobody waits.
    var awaited: UInt64? {
        waiterCount.load(ordering: .acquiring) > 0 ? newestWait.load(ordering: .relaxed) : nil
    }

    /// Notes that the store has all rows that the log had at a time.
    func noteFresh(at nanoseconds: UInt64) {
        freshThrough.store(nanoseconds, ordering: .releasing)
        settleWaiters()
    }

    /// Whether the store has everything that any node had answered at a time.
    func isCurrent(at nanoseconds: UInt64) -> Bool {
        freshThrough.load(ordering: .acquiring) >= nanoseconds
            || !isAppending.load(ordering: .acquiring) && isActive
    }
}

extension MartletError {
    /// OPS-7: nothing can be changed, because no node of the cluster is active or can be reached.
    static func noActiveNode(_ reason: String) -> MartletError {
        MartletError(
            .unavailable,
            "The cluster takes no changes now (\(reason)); try again.", retryDelayMilliseconds: 1000
        )
    }

    /// OPS-7: the refusal of a command that was on the way to an active node, and whose fate the node has not heard of.
    static func noAnswer(_ reason: String) -> MartletError {
        MartletError(
            .unavailable,
            """
            The cluster has not answered in time (\(reason)), and may have done this; try again. A message with an \
            idempotency key is sent once.
            """, retryDelayMilliseconds: 1000)
    }
}
