// SPDX-License-Identifier: Apache-2.0
//
// The load of every node, as this one knows it: its own as of now, the others' from their last reports, and the quotas that
// the active node counts (FAN-8, QUO-4). So any node can answer questions about the whole cluster. Rests on NodeFigures.

import MartletBase
import MartletCluster
import MartletEngine
import MartletThreads
import MartletWire
import Synchronization

/// Other nodes' reports.
final class NodeFigureBook: Sendable {
    /// How long a report is good for: some may be late.
    private static let life = Duration.seconds(5)
    /// Time between two reports.
    static let pause = Duration.seconds(1)

    private struct Report {
        var at: Duration
        var figures: NodeFigures
    }

    private let reports = Mutex<[String: Report]>([:])
    /// The active node's last quotas, and when they came (QUO-4).
    private let quotas = Mutex<(at: Duration, frame: NodeQuotas)?>(nil)
    /// Reads our own quotas.
    private let ownQuotas = Mutex<(@Sendable () -> NodeQuotas)?>(nil)
    /// Reads our own figures; nil until the broker has all its parts.
    private let own = Mutex<(@Sendable () -> NodeFigures?)?>(nil)
    /// Our own figures, at most a second old.
    private let latest = Mutex<Report?>(nil)

    /// Begins to report.
    func report(
        _ figures: @escaping @Sendable () -> NodeFigures?,
        quotas: @escaping @Sendable () -> NodeQuotas
    ) {
        own.withLock { $0 = figures }
        ownQuotas.withLock { $0 = quotas }
    }

    /// The frame that reports quotas.
    static func frame(of quotas: ProjectQuotas, at now: Instant) -> NodeQuotas {
        NodeQuotas(
            entries: quotas.counted(at: now, limit: NodeLimits.quotaEntriesMax)
                .map { NodeQuotas.Entry(project: $0, quota: $1, left: $2) })
    }

    /// Takes the active node's quotas.
    func take(_ frame: NodeQuotas, at now: Duration) { quotas.withLock { $0 = (now, frame) } }

    /// A project's quotas that aren't full, as the active node counts them; nil if we have no valid report.
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

    /// Reads our own figures, at most once a second. Called on the thread that looks for the active node, because that one
    /// ends before the store is closed.
    func refresh(at now: Duration) {
        if let last = latest.withLock({ $0 }), now - last.at < Self.pause { return }
        guard let figures = own.withLock({ $0 })?() else { return }
        latest.withLock { $0 = Report(at: now, figures: figures) }
    }

    /// Our own figures, at most a second old.
    var ownFigures: NodeFigures? { latest.withLock { $0?.figures } }

    /// Takes another node's report.
    func take(_ figures: NodeFigures, at now: Duration) {
        reports.withLock { reports in
            reports = reports.filter { now - $0.value.at < Self.life }
            guard reports.count < ClusterLimits.linksMax || reports[figures.node] != nil else {
                return
            }
            reports[figures.node] = Report(at: now, figures: figures)
        }
    }

    /// Other nodes' valid reports, by name.
    func others(at now: Duration) -> [NodeFigures] {
        reports.withLock { reports in
            reports.values.filter { now - $0.at < Self.life }.map(\.figures)
        }.sorted { $0.node < $1.node }
    }

    /// Tells a node all loads but its own, once a second.
    /// - Parameters:
    ///   - reported: when it was last told.
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

    /// Tells the active node our load, once a second.
    func tellOwn(_ link: LinkOutbox, _ reported: inout Duration) {
        let now = ClusterState.now
        guard now - reported >= Self.pause, let own = ownFigures else { return }
        reported = now
        link.push(NodeFrame.figures(own).bytes)
    }

    /// Adds other nodes' loads to our own.
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

    /// The active node's report, if there is one.
    func active(at now: Duration) -> NodeFigures? {
        // A node that was active still counts as such while its last report is valid.
        reports.withLock { reports in
            reports.values.filter { $0.figures.isActive && now - $0.at < Self.life }
                .max { $0.at < $1.at }?.figures
        }
    }
}

extension BrokerStatus {
    /// Adds another node's load. Store and clock stay our own.
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
            } else if projects.count < RefusalBook.projectsMax {
                projects.append(project)
            }
        }
    }
}

extension ProjectStatus {
    /// Adds a project's load on another node. Only the active node counts fanouts and shares.
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
