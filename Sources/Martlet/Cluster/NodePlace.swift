// SPDX-License-Identifier: Apache-2.0
//
// A broker's node in a cluster, put together from its parts: what the node knows, its links to the others, and the keeper of
// the lease (OPS-7). Rests on ClusterState, NodeLinks and NodeKeeper.

import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

/// A node, as the rest of the broker uses it.
final class NodePlace: BrokerNode {
    let configuration: ClusterConfiguration
    let state: ClusterState
    let links: NodeLinks
    let keeper: NodeKeeper
    /// nil: the committer's thread is its own.
    let owner: CommitterOwner?

    /// - Parameters:
    ///   - applied: the place of the store in the log.
    ///   - secret: a secret of the data folder, the same on all nodes.
    init(
        _ configuration: ClusterConfiguration, applied: LogPosition, store: Store, secret: [UInt8],
        logger: Logger, network: any NodeNetwork = SocketNetwork(), owner: CommitterOwner? = nil
    ) {
        self.configuration = configuration
        self.owner = owner
        state = ClusterState(applied: applied)
        links = NodeLinks(configuration, state, secret: secret, logger: logger, network: network)
        keeper = NodeKeeper(configuration, state, store: store, logger: logger)
    }

    /// Starts the node's threads, after the committer's.
    func start(_ committer: Committer) throws {
        try links.start(committer)
        try keeper.start(committer)
    }

    /// Ends the node's threads, after the committer's.
    func stop() {
        keeper.stop()
        state.endWaits()
        links.stop()
    }

    func run(_ committer: Committer, _ transport: inout some Transport & ~Copyable) {
        committer.run(as: self, &transport)
    }

    var nodes: NodeCount { state.nodes }
    var run: UInt32? { state.run }
    var epoch: UInt32 { state.applied.epoch }

    // MARK: Health

    var isActive: Bool { state.isActive }
    var isDrained: Bool { state.isDrained }
    var trouble: String? { state.trouble }

    func requireReadiness() throws(MartletError) {
        guard !state.isDrained else {
            throw MartletError(.unavailable, "This node of the cluster is drained.")
        }
        let trouble = state.withLock { state in
            state.appendTrouble != nil
                ? "The cluster's log takes no rows."
                : state.isUnlinked && state.hold == nil
                    ? "This node has no link to the active node." : nil
        }
        if let trouble {
            throw MartletError(.unavailable, trouble, retryDelayMilliseconds: 1000)
        }
        let lag = state.lag
        guard lag <= ClusterLimits.silence else {
            throw MartletError(
                .unavailable,
                "This node has lacked rows of the cluster for \(lag.components.seconds) s.",
                retryDelayMilliseconds: 1000)
        }
    }

    // MARK: Messages

    func begin(_ progress: FanoutProgress, loops: Int, at now: Instant) {
        links.parts.begin(progress, loops: loops, at: now, clock: ClusterState.now)
    }

    /// A follower may have answered from a row that the active node's own store lacks. So while a row that changes recipients
    /// is under way, the messages go through the log.
    var sendsLive: Bool {
        !state.isChangingRecipients.load(ordering: .acquiring) && state.isActive
            && links.live.reachesAll(nodes: state.nodes.value)
    }

    var liveFrameBytes: Int { ClusterLimits.liveFrameBytes }

    func tell(live fanouts: [Fanout], loops: () -> Void) {
        links.live.hand(fanouts, row: state.applied.row, loops: loops)
    }

    // MARK: How new the store is

    var questionNanoseconds: UInt64 { ClusterLimits.questionNanoseconds }

    func isCurrent(at nanoseconds: UInt64) -> Bool { state.isCurrent(at: nanoseconds) }

    func isNewWithoutLog(at nanoseconds: UInt64, isLast: Bool) -> Bool {
        guard isLast || state.trouble != nil, state.withLock({ $0.stopped == nil })
        else { return false }
        return links.word.isFed(since: nanoseconds) || links.word.isShared(since: nanoseconds)
    }

    func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        links.live.hasAllMessages(before: nanoseconds)
    }

    func giveUpMessages(at nanoseconds: UInt64) { links.live.giveUp(at: nanoseconds) }
    func beginWait(since nanoseconds: UInt64) { state.beginWait(since: nanoseconds) }
    func endWait() { state.waiterCount.subtract(1, ordering: .relaxed) }

    func current(at asked: UInt64, until end: UInt64) async -> Bool {
        await state.current(at: asked, until: end)
    }

    // MARK: Figures

    /// Reports the broker's load to the other nodes.
    func report(
        _ figures: @escaping @Sendable (_ node: String) -> NodeFigures?,
        quotas: @escaping @Sendable () -> NodeQuotas
    ) {
        links.figures.report({ [name = links.name] in figures(name) }, quotas: quotas)
    }

    var living: Set<String> { Set(links.figures.others(at: ClusterState.now).map(\.node)) }

    var figuresOfActive: NodeFigures? {
        isActive ? nil : links.figures.active(at: ClusterState.now)
    }

    func quotas(of project: ProjectNumber) -> [CountedQuota: QuotaLeft]? {
        isActive ? nil : links.figures.quotas(of: project, at: ClusterState.now)
    }

    func addOthers(to status: inout BrokerStatus) {
        links.figures.addOthers(to: &status, at: ClusterState.now)
    }

    var metricsText: String { ClusterFigures.text(state, links) }
}
