// SPDX-License-Identifier: Apache-2.0
//
// What a node knows about its cluster. The committer, the keeper of the lease, the links and the loops share it (OPS-7). Rests
// on MartletCluster.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import Synchronization

/// A node's state, readable from any thread.
final class ClusterState: Sendable {
    /// The process's random number. By it we recognise the run that the active node gives us.
    let process = UInt64.random(in: 1 ... .max)
    /// When the process began.
    let began = ClusterState.now

    struct State {
        /// Our hold on the lease; nil while we follow.
        var hold: LeaseHold?
        /// Whether the last renewal that ended has failed.
        var hasRenewalFailed = false
        /// How long our threads wait for the log.
        var patience = LogPatience()
        /// Whether the log has a later epoch than ours.
        var isFenced = false
        /// The lease when we last saw it, and when that was.
        var lease: Lease?
        var leaseSeen = Duration.zero
        /// The epoch that we may take over from: its lease is over or its holder gone, and it is our turn. For a later epoch
        /// we have to look again.
        var claimable: UInt32?
        /// The node that began the last applied epoch; nil if we don't know yet.
        var leader: String?
        /// The epoch whose holder is gone, or was this node and has stepped down. Its lease may still run.
        var goneEpoch: UInt32?
        /// Nodes that give no sign of life. Their runs end.
        var silent: [String] = []
        /// Processes of nodes that want a run.
        var wanted: [LivingRunsRow.Run] = []
        var applied: LogPosition
        /// Our own run; nil if we don't know it yet.
        var run: UInt32?
        var livingNodeCount = 1
        /// When the log last answered, and why it hasn't since.
        var contact = Duration.zero
        var trouble: String?
        /// Why the node has stopped.
        var stopped: String?
        var takeoverCount: UInt64 = 0
        var doubtCount: UInt64 = 0
        var forwardedCount: UInt64 = 0
        var appendCount: UInt64 = 0
        var appendBytes: UInt64 = 0
        var appendNanoseconds: UInt64 = 0
        /// Why the log hasn't taken a row for some seconds, although it answers.
        var appendTrouble: String?
        /// When the active node, if it is another, last said that the log takes no rows; nil if it hasn't.
        var refusalHeard: Duration?
        /// Whether another node is active and we have had no link to it for some seconds.
        var isUnlinked = false
        /// We don't claim the role that we have handed over before this time.
        var claimsFrom = Duration.zero
        /// Whether the committer should hand over the active role.
        var mustHandOver = false
        /// Who should be active next, if we are active and end or hand over.
        var successor: NodeReport?
        /// Whether the operator has drained the node.
        var isDrained = false
        /// Whether to look at the lease at once, because the link to the active node has ended.
        var mustLook = false
        /// The other nodes that were alive when the log last answered; nil if it has never answered this process.
        var others: [NodeReport]?
        /// The last row that any node has reported.
        var logRow: UInt64 = 0
        /// When we last had every reported row.
        var caughtUp = Duration.zero
    }

    private let state: Mutex<State>
    /// Our store has everything that any node of the cluster had answered by this time, in nanoseconds of the monotonic clock.
    /// While we are active, `isCurrent` decides.
    private let freshThrough = Atomic<UInt64>(0)
    /// The last time at which the store is known to have had all the log's rows, in nanoseconds of the monotonic clock; 0 if
    /// there is none. Only the committer writes it.
    let completeAt = Atomic<UInt64>(0)
    /// The nodes' common time.
    let time = ClusterTime()
    /// Whether the log may have a row of ours that our store lacks, or our loops haven't heard of. Followers may already have
    /// told of it.
    let isAppending = Atomic(false)
    /// How many nodes are alive, for limits that they share.
    let nodes = ShareCount()
    /// Whether the row under way changes who receives a message.
    let isChangingRecipients = Atomic(false)
    /// Questions and refusals that wait for a newer store.
    let waiterCount = Atomic<Int>(0)
    /// The latest time that a waiter needs the store to be as new as, in nanoseconds of the monotonic clock.
    private let newestWait = Atomic<UInt64>(0)
    /// Callers that wait for a newer store without blocking a thread; nil while the broker ends.
    let waiters = Mutex<[Waiter]?>([])

    init(applied: LogPosition) { state = Mutex(State(applied: applied)) }

    func withLock<Result: Sendable>(_ body: (inout sending State) -> sending Result) -> Result {
        state.withLock { body(&$0) }
    }

    var run: UInt32? { state.withLock { $0.run } }
    var applied: LogPosition { state.withLock { $0.applied } }
    var hold: LeaseHold? { state.withLock { $0.hold } }
    var isDrained: Bool { state.withLock { $0.isDrained } }

    /// How long we have lacked rows that another node has reported.
    var lag: Duration {
        state.withLock { state in
            guard state.hold == nil, state.applied.row < state.logRow, state.caughtUp != .zero
            else { return .zero }
            return Self.now - state.caughtUp
        }
    }

    /// Why the node takes no changes; nil if it takes them.
    var trouble: String? {
        state.withLock { state in
            // Clients must not learn the servers' addresses. The whole error is in the node's log.
            if state.stopped != nil { return "this node does not follow the log" }
            guard Self.now - state.contact > ClusterLimits.away else { return nil }
            return "the log does not answer"
        }
    }

    /// Whether the active node has just said that the log takes no rows.
    var isLogRefusing: Bool {
        state.withLock { state in
            state.refusalHeard.map { Self.now - $0 < ClusterLimits.refusingHeard } ?? false
        }
    }

    /// The monotonic clock.
    static var now: Duration { .nanoseconds(Int64(SystemClock.monotonicNanoseconds())) }

    /// Calls the log with the present limit, and learns from how long it takes.
    /// - Parameters:
    ///   - commits: whether the answer took a commit.
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
                    // If two threads' calls end together, count them once.
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

    /// Whether we are active and may tell outcomes.
    var isActive: Bool {
        state.withLock { $0.hold.map { $0.isValid(at: Self.now) } ?? false }
    }

    // MARK: Freshness

    func beginWait(since nanoseconds: UInt64) {
        _ = newestWait.max(nanoseconds, ordering: .relaxed)
        waiterCount.add(1, ordering: .acquiringAndReleasing)
    }

    /// The latest time that a waiter needs the store to be as new as; nil if nobody waits.
    var awaited: UInt64? {
        waiterCount.load(ordering: .acquiring) > 0 ? newestWait.load(ordering: .relaxed) : nil
    }

    /// The store has all rows that the log had at this time.
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

extension ClusterConfiguration {
    /// The node's report as of now, with run 0 if its run isn't known yet.
    func report(_ state: ClusterState) -> NodeReport {
        NodeReport(
            name: node, run: state.run ?? 0, address: address.text,
            formats: Int(Redo.format)...Int(Redo.format), applied: state.applied.row)
    }
}

extension MartletError {
    /// Refuses a command that was on its way to an active node, and whose fate we don't know (OPS-7).
    static func noAnswer(_ reason: String) -> MartletError {
        MartletError(
            .unavailable,
            """
            The cluster has not answered in time (\(reason)), and may have done this; try again. A message with an \
            idempotency key is sent once.
            """, retryDelayMilliseconds: 1000)
    }
}
