// SPDX-License-Identifier: Apache-2.0
//
// The load of every node, as one node knows it: its own now, the others' from their last report, and the quotas that the
// active node counts (FAN-8, QUO-4). Any node answers questions about the cluster with the sums. Rests on NodeFigures.

import MartletBase
import MartletCluster
import MartletEngine
import MartletWire
import Synchronization

/// The reports of other nodes.
final class NodeFigureBook: Sendable {
    /// A report is valid for this time: some reports may be late.
    private static let life = Duration.seconds(5)
    /// Time between two reports.
    static let pause = Duration.seconds(1)

    private struct Report {
        var at: Duration
        var figures: NodeFigures
    }

    private let reports = Mutex<[String: Report]>([:])
    /// QUO-4: the last quotas of the active node, and when they came.
    private let quotas = Mutex<(at: Duration, frame: NodeQuotas)?>(nil)
    /// Reads this node's own quotas.
    private let ownQuotas = Mutex<(@Sendable () -> NodeQuotas)?>(nil)
    /// The way to the node's own figures; nil until the broker has all its parts.
    private let own = Mutex<(@Sendable () -> NodeFigures?)?>(nil)
    /// The node's own figures of the last second.
    private let latest = Mutex<Report?>(nil)

    /// Begins to report.
    func report(
        _ figures: @escaping @Sendable () -> NodeFigures?,
        quotas: @escaping @Sendable () -> NodeQuotas
    ) {
        own.withLock { $0 = figures }
        ownQuotas.withLock { $0 = quotas }
    }

    /// The report of the quotas that a node counts.
    static func frame(of quotas: ProjectQuotas, at now: Instant) -> NodeQuotas {
        NodeQuotas(
            entries: quotas.counted(at: now, limit: NodeLimits.quotaEntriesMax)
                .map { NodeQuotas.Entry(project: $0, quota: $1, left: $2) })
    }

    /// Notes the quotas of the active node.
    func take(_ frame: NodeQuotas, at now: Duration) { quotas.withLock { $0 = (now, frame) } }

    /// The quotas of a project that are not full, as the active node counts them; nil: no report is valid.
    func quotas(
        of project: ProjectNumber, at now: Duration
    ) -> [CountedQuota: QuotaLeft]? {
        quotas.withLock { quotas in
            guard let quotas, now - quotas.at < Self.life else { return nil }
            let entries = quotas.frame.entries.filter { $0.project == project }
            return Dictionary(
                entries.map { ($0.quota, $0.left) }, uniquingKeysWith: { _, last in last })
        }
    }

    /// Reads the node's own figures, at most once a second. Called on the thread that looks for the active node, because
    /// this thread ends before the store is closed.
    func refresh(at now: Duration) {
        if let last = latest.withLock({ $0 }), now - last.at < Self.pause { return }
        guard let figures = own.withLock({ $0 })?() else { return }
        latest.withLock { $0 = Report(at: now, figures: figures) }
    }

    /// The node's own figures of the last second.
    var ownFigures: NodeFigures? { latest.withLock { $0?.figures } }

    /// Notes the report of another node.
    func take(_ figures: NodeFigures, at now: Duration) {
        reports.withLock { reports in
            reports = reports.filter { now - $0.value.at < Self.life }
            guard reports.count < ClusterLimits.linksMax || reports[figures.node] != nil else {
                return
            }
            reports[figures.node] = Report(at: now, figures: figures)
        }
    }

    /// The valid reports of other nodes, by their names.
    func others(at now: Duration) -> [NodeFigures] {
        reports.withLock { reports in
            reports.values.filter { now - $0.at < Self.life }.map(\.figures)
        }.sorted { $0.node < $1.node }
    }

    /// Tells a node the loads of all nodes but its own, once a second.
    /// - Parameters:
    ///   - reported: when the loads were told last.
    ///   - withQuotas: whether the node understands quotas.
    func tell(
        _ link: LinkOutbox, of peer: String, _ reported: inout Duration, withQuotas: Bool
    ) {
        let now = ClusterState.now
        guard now - reported >= Self.pause, let own = ownFigures else { return }
        reported = now
        link.push(NodeFrame.figures(own).bytes)
        for other in others(at: now) where other.node != peer && other.node != own.node {
            link.push(NodeFrame.figures(other).bytes)
        }
        if withQuotas, let quotas = ownQuotas.withLock({ $0 }) {
            link.push(NodeFrame.quotas(quotas()).bytes)
        }
    }

    /// Tells the active node the load of this node, once a second.
    func tellOwn(_ link: LinkOutbox, _ reported: inout Duration) {
        let now = ClusterState.now
        guard now - reported >= Self.pause, let own = ownFigures else { return }
        reported = now
        link.push(NodeFrame.figures(own).bytes)
    }

    /// Adds the loads of other nodes to a node's own.
    func addOthers(to status: inout BrokerStatus, at now: Duration) {
        guard let mine = ownFigures else { return }
        var all = [mine] + others(at: now).filter { $0.node != mine.node }
        all.sort { $0.node < $1.node }
        for figures in all where figures.node != mine.node { status.add(figures.status) }
        status.nodes = all.map { figures in
            NodeStatus(
                node: figures.node, isActive: figures.isActive,
                connectionCount: figures.status.connectionCount,
                deliveredCount: figures.status.deliveredCount,
                acknowledgedCount: figures.status.acknowledgedCount)
        }
    }

    /// The report of the active node; nil: there is none.
    func active(at now: Duration) -> NodeFigures? {
        // A formerly active node is one for as long as its last report is valid.
        reports.withLock { reports in
            reports.values.filter { $0.figures.isActive && now - $0.at < Self.life }
                .max { $0.at < $1.at }?.figures
        }
    }
}

extension BrokerStatus {
    /// Adds the load of another node. The store and the clock stay those of the asked node.
    fileprivate mutating func add(_ other: BrokerStatus) {
        connectionCount += other.connectionCount
        deliveredCount += other.deliveredCount
        acknowledgedCount += other.acknowledgedCount
        fellBehindCount += other.fellBehindCount
        commandsWaiting += other.commandsWaiting
        frameBytes += other.frameBytes
        requestBytes += other.requestBytes
        if let mine = allocatedBytes, let theirs = other.allocatedBytes {
            allocatedBytes = mine + theirs
        }
        for project in other.projects {
            if let index = projects.firstIndex(where: { $0.project == project.project }) {
                projects[index].add(project)
            } else if projects.count < Gauges.projectsMax {
                projects.append(project)
            }
        }
    }
}

extension ProjectStatus {
    /// Adds the load by the project of another node. The active node alone counts fanouts and shares.
    fileprivate mutating func add(_ other: ProjectStatus) {
        connectionCount += other.connectionCount
        deliveredCount += other.deliveredCount
        fanoutsInProgress += other.fanoutsInProgress
        fanoutsDeferred += other.fanoutsDeferred
        fanoutBytes += other.fanoutBytes
        frameBytes += other.frameBytes
        requestBytes += other.requestBytes
        share += other.share
    }
}
