// SPDX-License-Identifier: Apache-2.0
//
// The thread that keeps a node's lease, reports its position and watches for silent nodes (OPS-7). It has its own connection
// to the log, so that a long append doesn't delay a renewal. Rests on ReplicationLog and ClusterState.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import Synchronization

/// Keeps a node's lease, and reports.
final class NodeKeeper: Sendable {
    /// How often a follower looks at the lease (OPS-7).
    private static let lookPause = Duration.milliseconds(250)
    private static let reportPause = Duration.seconds(1)
    /// How often the log is trimmed (OPS-7).
    private static let trimPause = Duration.seconds(60)
    /// How often to look for what is wrong with the log's servers (OPS-7): a promoted standby has settings of its own.
    private static let warningPause = Duration.seconds(60)
    /// How much longer a drained node, or one with disk trouble, waits before it takes over, so that any other comes first
    /// (OPS-7).
    private static let drainedWait = Duration.seconds(2)

    let configuration: ClusterConfiguration
    let cluster: ClusterState
    private let store: Store
    let logger: Logger
    private let isStopping = Atomic(false)
    private let thread = Mutex<SystemThread?>(nil)

    init(
        _ configuration: ClusterConfiguration, _ cluster: ClusterState, store: Store, logger: Logger
    ) {
        self.configuration = configuration
        self.cluster = cluster
        self.store = store
        self.logger = logger
    }

    func start(_ committer: Committer) throws(MartletError) {
        let running = try SystemThread(name: "martlet-node") { [self] in run(committer) }
        thread.withLock { $0 = running }
    }

    /// Whether our store takes nothing new, or has refused something lately (OPS-12).
    func hasDiskTrouble(_ committer: Committer) -> Bool {
        store.isShortOfRoom || committer.storeTrouble != nil
    }

    /// Makes the thread end soon.
    func end() { isStopping.store(true, ordering: .releasing) }

    func stop() {
        end()
        thread.withLock { $0.take() }?.join()
    }

    func run(_ committer: Committer) {
        let log = configuration.connect(configuration.report(cluster), .lease)
        var renewed = Duration.zero
        var looked = Duration.zero
        var reported = Duration.zero
        var hasReported = false
        var trimmed = ClusterState.now
        var overSince: Duration?
        var steadySince = ClusterState.now
        var rank = 0
        /// The log's last rows over time, to know which are old enough to drop.
        var marks: [(at: Duration, row: UInt64)] = []
        var wishes = WishBook()
        var warned = Duration.zero
        var warnings: [String] = []
        while !isStopping.load(ordering: .acquiring) {
            let now = ClusterState.now
            do throws(LogError) {
                if let hold = cluster.hold {
                    overSince = nil
                    if now - renewed >= ClusterLimits.leaseRenewal || !hold.isValid(at: now) {
                        try renew(hold, log, committer)
                        renewed = now
                    }
                } else if hasReported, now - looked >= Self.lookPause || mustLook() {
                    renewed = .zero
                    looked = now
                    try look(log, rank, &overSince, committer)
                }
                // Report before the first look: the others must not think us gone while we have a link, and a claim needs
                // the log's time.
                // Only one errand per turn beside the lease: if the server is far away each takes long, and the next renewal
                // waits for it.
                if now - trimmed >= Self.trimPause, cluster.isActive {
                    trimmed = now
                    marks.append((now, cluster.applied.row))
                    try trim(log, &marks, now) { () throws(LogError) in
                        guard let hold = cluster.hold,
                            ClusterState.now - renewed >= ClusterLimits.leaseRenewal
                        else { return }
                        let began = ClusterState.now
                        try renew(hold, log, committer)
                        renewed = began
                    }
                } else if hasReported, warned == .zero || now - warned >= Self.warningPause {
                    warned = now
                    try warn(log, &warnings)
                } else if now - reported >= Self.reportPause {
                    reported = now
                    let news = try report(log, &rank, committer, steadySince)
                    hasReported = true
                    try meet(&wishes, news, log, committer)
                }
            } catch {
                cluster.withLock { $0.trouble = $0.trouble ?? "\(error)" }
                // While the log was away nobody could give a sign of life.
                steadySince = ClusterState.now
                // We have stopped, perhaps because the log is missing. A living node may serve our clients.
                if cluster.withLock({ $0.stopped != nil }) { note(isDrained: true, committer) }
                SystemClock.pause(microseconds: 100_000)
            }
            cluster.settleWaiters()
            SystemClock.pause(microseconds: 20_000)
        }
        farewell(log)
    }

    /// Logs what is wrong with the log's servers, if it is new.
    private func warn(_ log: any ReplicationLog, _ last: inout [String]) throws(LogError) {
        let limit = cluster.withLock { $0.patience.limit }
        let warnings = try log.warnings(within: limit)
        for warning in warnings where !last.contains(warning) { logger.warning("\(warning)") }
        last = warnings
    }

    private func mustLook() -> Bool {
        cluster.withLock { state in
            defer { state.mustLook = false }
            return state.mustLook || state.goneEpoch != nil
        }
    }

    /// A process that ends of its own accord sends a last report, without an address. Otherwise the others would wait until it
    /// has been silent for long.
    private func farewell(_ log: any ReplicationLog) {
        var report = configuration.report(cluster)
        report.address = ""
        try? log.report(report, within: ClusterLimits.attempt)
    }

    private func renew(
        _ hold: LeaseHold, _ log: any ReplicationLog, _ committer: Committer
    ) throws(LogError) {
        let start = ClusterState.now
        let life = cluster.withLock { $0.patience.leaseLife }
        let isLast: Bool
        do throws(LogError) {
            isLast = try cluster.call { (limit) throws(LogError) in
                try log.renewLease(epoch: hold.epoch, life: life, within: limit)
            }
        } catch {
            cluster.withLock { $0.hasRenewalFailed = true }
            throw error
        }
        cluster.withLock { state in
            state.contact = ClusterState.now
            guard state.hold?.epoch == hold.epoch else { return }
            state.hasRenewalFailed = false
            if isLast {
                state.hold = LeaseHold(epoch: hold.epoch, from: start, life: life)
                state.trouble = nil
            } else {
                state.isFenced = true
            }
        }
        if !isLast { committer.wake() }
    }

    private func look(
        _ log: any ReplicationLog, _ rank: Int, _ overSince: inout Duration?,
        _ committer: Committer
    ) throws(LogError) {
        let lease = try cluster.call { (limit) throws(LogError) in try log.lease(within: limit) }
        let now = ClusterState.now
        let (isOver, mayLead, isDrained, claimsFrom, isHanded) = cluster.withLock { state in
            state.lease = lease
            state.leaseSeen = now
            state.contact = now
            if state.goneEpoch != lease.epoch { state.goneEpoch = nil }
            return (
                lease.isOver || state.goneEpoch != nil, state.stopped == nil, state.isDrained,
                state.claimsFrom,
                lease.epoch == state.applied.epoch && state.leader != nil
                    && lease.holder?.text != state.leader
            )
        }
        let isNamed = isHanded && lease.holder == configuration.node
        guard isOver, mayLead, isNamed || now >= claimsFrom else {
            overSince = nil
            return
        }
        let since = overSince ?? now
        overSince = since
        // The former holder goes first, so that a short outage of the log moves nothing. After a handover the lease has the
        // successor's name.
        let place = lease.holder == configuration.node ? 0 : rank + 1
        let isLast = isDrained || hasDiskTrouble(committer)
        // The former active node has named a successor, which may look at the lease only a pause later.
        let isOthers = isHanded && lease.holder != configuration.node
        let wait =
            ClusterLimits.takeoverStep * place + (isLast ? Self.drainedWait : .zero)
            + (isOthers ? Self.lookPause * 2 : .zero)
        guard now - since >= wait else { return }
        cluster.withLock { $0.claimable = lease.epoch }
        committer.wake()
    }

    private func report(
        _ log: any ReplicationLog, _ rank: inout Int, _ committer: Committer,
        _ steadySince: Duration
    ) throws(LogError) -> NodeNews {
        let news = try cluster.call { (limit) throws(LogError) in
            try log.exchange(configuration.report(cluster), within: limit)
        }
        if let clock = news.clock { cluster.time.note(clock) }
        let nodes = news.nodes
        let living = nodes.filter { $0.age < ClusterLimits.silence && !$0.report.hasEnded }
        let alive = living.map(\.report.name)
        rank = alive.firstIndex(of: configuration.node) ?? 0
        var silent: [String] = []
        if cluster.isActive, ClusterState.now - steadySince > ClusterLimits.silence {
            let runs = try? store.read { (transaction) throws in
                try transaction.connections.livingRuns().map(\.node)
            }
            silent = (runs ?? []).filter { name in
                name != configuration.node.text && !alive.contains { $0.text == name }
            }
        }
        cluster.withLock { state in
            state.livingNodeCount = max(1, alive.count)
            state.silent = state.hold == nil ? [] : silent
            state.others = living.map(\.report).filter { $0.name != configuration.node }
            state.logRow = living.map(\.report.applied).max() ?? 0
            if state.applied.row >= state.logRow || state.caughtUp == .zero {
                state.caughtUp = ClusterState.now
            }
        }
        cluster.nodes.change(to: alive.count)
        if !silent.isEmpty { committer.wake() }
        return news
    }

    /// - Parameter keepLease: renews the lease if it is time; called between two calls of the log.
    private func trim(
        _ log: any ReplicationLog, _ marks: inout [(at: Duration, row: UInt64)], _ now: Duration,
        keepLease: () throws(LogError) -> Void
    ) throws(LogError) {
        // Dropping pieces of the log doesn't take as long as writing a row, so we learn nothing from how long it takes.
        let limit = cluster.withLock { $0.patience.limit }
        var row: UInt64 = 0
        let old = marks.prefix { now - $0.at > ClusterLimits.keep }
        if let mark = old.last {
            marks.removeFirst(old.count - 1)
            let applied = try log.nodes(within: limit).map(\.report.applied).min()
            row = min(mark.row, applied ?? 0)
        }
        try keepLease()
        let beyond = try log.firstRow(ofNewest: ClusterLimits.logBytesMax, within: limit)
        if let beyond, beyond > row {
            row = beyond
            logger.warning(
                "the log has more bytes than are kept for nodes that are behind; they must join again",
                metadata: ["first row": "\(row)"])
        }
        guard row > 0 else { return }
        try keepLease()
        _ = try log.trim(below: row, within: limit)
        try keepLease()
        try log.makeRoom(
            through: cluster.applied.row + ClusterLimits.partitionRows, within: limit)
    }
}
