// SPDX-License-Identifier: Apache-2.0
//
// A broker's node in a cluster, put together from its parts: what the node knows, its links to the others, and the keeper of
// the lease (OPS-7). Rests on ClusterState, NodeLinks and NodeKeeper.

package import Logging
package import MartletBase
package import MartletCluster
package import MartletCommitter
package import MartletEngine
package import MartletRows
package import MartletStore
import MartletThreads
package import MartletTransport
package import MartletWire
import Synchronization

/// A node, as the rest of the broker uses it.
package final class NodePlace: BrokerNode {
    let configuration: ClusterConfiguration
    let state: ClusterState
    let links: NodeLinks
    let keeper: NodeKeeper
    /// nil: the committer's thread is its own.
    let owner: CommitterOwner?

    /// - Parameters:
    ///   - applied: the place of the store in the log.
    ///   - secret: a secret of the data folder, the same on all nodes.
    package init(
        _ configuration: ClusterConfiguration, applied: LogPosition, store: Store, secret: [UInt8],
        logger: Logger, network: (any NodeNetwork)? = nil, owner: CommitterOwner? = nil
    ) {
        self.configuration = configuration
        self.owner = owner
        state = ClusterState(applied: applied)
        links = NodeLinks(
            configuration, state, secret: secret, logger: logger,
            network: network ?? SocketNetwork())
        keeper = NodeKeeper(configuration, state, store: store, logger: logger)
    }

    /// Makes sure, before a node starts, that its address and its name are free. A start that fails must not leave a node
    /// behind in the log.
    package static func requireFree(_ configuration: ClusterConfiguration) throws(MartletError) {
        try NodeLinks.requireFree(configuration.address)
        try NodePresence.requireFree(configuration)
    }

    /// The clock that all nodes share.
    package var time: ClusterTime { state.time }

    /// Starts the node's threads, after the committer's.
    package func start(_ committer: Committer) throws {
        try links.start(committer)
        try keeper.start(committer)
    }

    /// Ends the node's threads, after the committer's.
    package func stop() {
        keeper.stop()
        state.endWaits()
        links.stop()
    }

    package func run(_ committer: Committer, _ transport: inout some Transport & ~Copyable) {
        committer.run(as: self, &transport)
    }

    package var nodes: ShareCount { state.nodes }
    package var run: UInt32? { state.run }
    package var epoch: UInt32 { state.applied.epoch }

    // MARK: Health

    package var isActive: Bool { state.isActive }
    package var isDrained: Bool { state.isDrained }
    package var trouble: String? { state.trouble }

    package func requireReadiness() throws(MartletError) {
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

    package func begin(_ progress: FanoutProgress, loops: Int, at now: Instant) {
        links.parts.begin(progress, loops: loops, at: now, clock: ClusterState.now)
    }

    /// A follower may have answered from a row that the active node's own store lacks. So while a row that changes recipients
    /// is under way, the messages go through the log.
    package var sendsNowOrNever: Bool {
        !state.isChangingRecipients.load(ordering: .acquiring) && state.isActive
            && links.nowOrNever.reachesAll(nodes: state.nodes.value)
    }

    package var nowOrNeverFrameBytes: Int { ClusterLimits.nowOrNeverFrameBytes }

    package func tell(nowOrNever fanouts: [Fanout], loops: () -> Void) {
        links.nowOrNever.hand(fanouts, row: state.applied.row, loops: loops)
    }

    // MARK: How new the store is

    package var questionNanoseconds: UInt64 { ClusterLimits.questionNanoseconds }

    package func isCurrent(at nanoseconds: UInt64) -> Bool { state.isCurrent(at: nanoseconds) }

    package func isNewWithoutLog(at nanoseconds: UInt64, isLast: Bool) -> Bool {
        guard isLast || state.trouble != nil, state.withLock({ $0.stopped == nil })
        else { return false }
        return links.word.isFed(since: nanoseconds) || links.word.isShared(since: nanoseconds)
    }

    package func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        links.nowOrNever.hasAllMessages(before: nanoseconds)
    }

    package func giveUpMessages(at nanoseconds: UInt64) { links.nowOrNever.giveUp(at: nanoseconds) }
    package func beginWait(since nanoseconds: UInt64) { state.beginWait(since: nanoseconds) }
    package func endWait() { state.waiterCount.subtract(1, ordering: .relaxed) }

    package func current(at asked: UInt64, until end: UInt64) async -> Bool {
        await state.current(at: asked, until: end)
    }

    // MARK: Figures

    /// Reports the broker's load to the other nodes.
    package func report(
        _ figures: @escaping @Sendable (_ node: String) -> NodeFigures?, _ quotas: ProjectQuotas,
        clock: @escaping @Sendable () -> Instant
    ) {
        links.figures.report({ [name = links.name] in figures(name) }) {
            NodeFigureBook.frame(of: quotas, at: clock())
        }
    }

    package var living: Set<String> { Set(links.figures.others(at: ClusterState.now).map(\.node)) }

    package var figuresOfActive: NodeFigures? {
        isActive ? nil : links.figures.active(at: ClusterState.now)
    }

    package func quotas(of project: ProjectNumber) -> [CountedQuota: QuotaLeft]? {
        isActive ? nil : links.figures.quotas(of: project, at: ClusterState.now)
    }

    package func addOthers(to status: inout BrokerStatus) {
        links.figures.addOthers(to: &status, at: ClusterState.now)
    }

    package var metricsText: String { ClusterFigures.text(state, links) }
}
