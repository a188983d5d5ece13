// SPDX-License-Identifier: Apache-2.0
//
// Brings a project's events to its watchers on other nodes (EMB-3). Each node tells the active node which projects its
// watchers follow, and the active node tells each follower which ones are followed elsewhere. A follower sends its events of
// those to the active node, which passes them on; the active node sends its own to the followers that want them. If nobody in
// the cluster watches, nothing is sent and nobody keeps events. Rests on WatchBook and NodeEvents.

import MartletBase
import MartletCluster
import MartletCommitter
import MartletRows
import MartletWire
import Synchronization

/// Exchanges events of watched projects with other nodes.
final class WatchRelay: Sendable {
    /// A project that another node watches: a watcher of our events, and the sums that we last sent.
    private struct Place {
        let place: WatchPlace
        let id: String
        var sums: ProjectSums
        var told = Duration.zero
    }

    /// After this time a node tells its connections even without news, because there may be new watchers.
    private static let pause = Duration.seconds(1)

    private struct Peer {
        let link: LinkOutbox
        /// Projects with watchers on the other node, or on nodes behind it.
        var wanted: [ProjectNumber: Place] = [:]
        /// Projects that our last NODE_WATCH named.
        var asked: [ProjectNumber: String] = [:]
    }

    private let node: String
    private let peers = Mutex<[Peer]>([])

    init(_ node: NodeName) { self.node = node.text }

    /// Another node has said hello on a link.
    func join(_ link: LinkOutbox) { peers.withLock { $0.append(Peer(link: link)) } }

    func leave(_ link: LinkOutbox) {
        peers.withLock { $0.removeAll { $0.link === link } }
    }

    /// Sends the other node the news. Called at least every 100 ms.
    func tell(_ link: LinkOutbox, _ book: WatchBook) {
        let followed = book.followed
        let now = ClusterState.now
        peers.withLock { peers in
            guard let index = peers.firstIndex(where: { $0.link === link }) else { return }
            ask(&peers, index, followed)
            for (project, var place) in peers[index].wanted {
                let isDue = now - place.told >= Self.pause
                guard
                    let events = NodeEvents(
                        node, project, place.place.watcher, &place.sums, isDue: isDue)
                else { continue }
                place.told = now
                peers[index].wanted[project] = place
                link.push(NodeFrame.events(events).bytes)
            }
        }
    }

    /// Asks for events of the projects that our watchers follow, or watchers of nodes behind us.
    private func ask(
        _ peers: inout [Peer], _ index: Int, _ followed: [ProjectNumber: String]
    ) {
        var asked = followed
        for other in peers.indices where other != index {
            for (project, place) in peers[other].wanted { asked[project] = place.id }
        }
        guard asked != peers[index].asked else { return }
        peers[index].asked = asked
        let entries = asked.sorted { $0.key < $1.key }.prefix(NodeLimits.watchedProjectsMax)
        let frame = NodeWatch(
            projects: entries.map { NodeWatch.Entry(project: $0.key, id: $0.value) })
        peers[index].link.push(NodeFrame.watch(frame).bytes)
    }

    /// Takes the other node's wishes.
    func take(_ frame: NodeWatch, from link: LinkOutbox, _ book: WatchBook) {
        let wanted = Dictionary(
            frame.projects.prefix(NodeLimits.watchedProjectsMax).map { ($0.project, $0.id) },
            uniquingKeysWith: { $1 })
        peers.withLock { peers in
            guard let index = peers.firstIndex(where: { $0.link === link }) else { return }
            peers[index].wanted = peers[index].wanted.filter { wanted[$0.key] != nil }
            for (project, id) in wanted where peers[index].wanted[project] == nil {
                let place = book.watch(project, id: id, isRelay: true)
                peers[index].wanted[project] = Place(
                    place: place, id: id, sums: place.watcher.sums)
            }
        }
    }

    /// Takes events from a link, and passes them on to other nodes that watch the project.
    func take(_ frame: NodeEvents, from link: LinkOutbox, _ book: WatchBook) {
        guard frame.node != node else { return }
        book.heard(frame)
        peers.withLock { peers in
            for peer in peers where peer.link !== link && peer.wanted[frame.project] != nil {
                peer.link.push(NodeFrame.events(frame).bytes)
            }
        }
    }
}

extension NodeEvents {
    /// A watcher's events; nil if there is nothing new.
    /// - Parameters:
    ///   - told: the sums that were last sent.
    ///   - isDue: whether to tell the connections even without news.
    fileprivate init?(
        _ node: String, _ project: ProjectNumber, _ watcher: Watcher, _ told: inout ProjectSums,
        isDue: Bool
    ) {
        var events: [Event] = []
        var news: ProjectSums?
        for event in watcher.takeWaiting() {
            switch event {
            case .sums(let sums): news = sums
            case .accepted(let message):
                events.append(
                    .accepted(
                        messageID: message.messageID, recipientCount: message.recipientCount,
                        isDeferred: message.isDeferred, isScheduled: message.isScheduled))
            case .progress(let progress):
                events.append(
                    .progress(
                        messageID: progress.messageID, recipientCount: progress.recipientCount,
                        deliveredCount: progress.deliveredCount, isDone: progress.isDone))
            case .refused(let error): events.append(.refused(error))
            }
        }
        guard isDue || news != nil || !events.isEmpty else { return nil }
        let sums = news ?? told
        self.init(
            node: node, project: project, connectionCount: UInt64(clamping: sums.connectionCount),
            sums: Sums(from: told, to: sums), events: events)
        told = sums
    }
}

extension NodeEvents.Sums {
    fileprivate init(from before: ProjectSums, to after: ProjectSums) {
        self.init()
        accepted = after.acceptedCount &- before.acceptedCount
        upstream = after.upstreamCount &- before.upstreamCount
        refused = after.refusedCount &- before.refusedCount
        connected = after.connectedCount &- before.connectedCount
        disconnected = after.disconnectedCount &- before.disconnectedCount
        dropped = after.droppedCount &- before.droppedCount
        for field in DeliveryCounts.fields {
            counts[keyPath: field] =
                after.counts[keyPath: field] &- before.counts[keyPath: field]
        }
    }
}
