// SPDX-License-Identifier: Apache-2.0
//
// Does what the operator asks of a node: hand over the active role, or send its clients to other nodes (OPS-7). Rests on
// NodeKeeper and the wishes in the log.

import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletRows
import MartletThreads
import MartletTransport

/// What the node's thread knows about wishes.
struct WishBook {
    /// Our last row at each of the last looks, the newest last. A successor that has the first of them is near the end of the
    /// log: it can read the rest while no row comes.
    var rows: [UInt64] = []
    /// Whether wishes about the node's former process have been withdrawn.
    var hasBegun = false
    /// The successor that a wish named which we are withdrawing. The log may withdraw it without answering in time.
    var named: NodeName?
    /// Since when the active node's disk takes nothing new, and when it last gave the role away because of that.
    var troubleSince: Duration?
    var gaveWay: Duration?
}

extension NodeKeeper {
    /// How far a successor may be behind: by the rows of this many looks, which are a second apart (OPS-7).
    private static let looksBehind = 3

    /// Reads operators' wishes, and meets those about this node.
    func meet(
        _ book: inout WishBook, _ news: NodeNews, _ log: any ReplicationLog,
        _ committer: Committer
    ) throws(LogError) {
        var wishes = news.wishes
        if !book.hasBegun {
            // A wish is about a process: an operator who starts a node wants it to serve.
            for kind in [NodeWish.Kind.drain, .handOver(to: configuration.node)] {
                try withdraw(NodeWish(node: configuration.node, kind: kind), log)
            }
            book.hasBegun = true
            wishes.removeAll { $0.node == configuration.node }
        }
        book.rows = book.rows.suffix(Self.looksBehind - 1) + [cluster.applied.row]
        let isDrained = wishes.contains { $0.node == configuration.node && $0.kind == .drain }
        // Having stopped following, we have no new messages for our devices, but another node has.
        let isStopped = cluster.withLock { $0.stopped != nil }
        note(isDrained: isDrained || isStopped, committer)

        let drained = Set(wishes.filter { $0.kind == .drain }.map(\.node))
        let ready = news.nodes.filter { sighting in
            sighting.report.name != configuration.node && !sighting.report.hasEnded
                && sighting.age < ClusterLimits.away && sighting.report.applied >= book.rows[0]
        }.map(\.report)
        let next = ready.filter { !drained.contains($0.name) }.max { $0.applied < $1.applied }
        cluster.withLock { $0.successor = next }
        guard cluster.isActive else {
            book.named = nil
            return
        }
        for wish in wishes where wish.node == configuration.node {
            guard case .handOver(let name) = wish.kind else { continue }
            guard ready.contains(where: { $0.name == name }) else { return }
            book.named = name
            try withdraw(wish, log)
            break
        }
        if let name = book.named {
            book.named = nil
            if let successor = ready.first(where: { $0.name == name }) {
                return handOver(to: successor, committer)
            }
        }
        if isDrained, let next { return handOver(to: next, committer) }
        guard hasDiskTrouble(committer) else {
            book.troubleSince = nil
            return
        }
        // The next by name, so that the role gets round to every node if several have trouble.
        let sound = ready.filter { !drained.contains($0.name) }.sorted { $0.name < $1.name }
        let now = ClusterState.now
        let since = book.troubleSince ?? now
        book.troubleSince = since
        guard now - since >= ClusterLimits.diskTrouble,
            book.gaveWay.map({ now - $0 >= ClusterLimits.diskTroublePause }) ?? true,
            let other = sound.first(where: { $0.name > configuration.node }) ?? sound.first
        else { return }
        book.gaveWay = now
        logger.error(
            "the disk of this node takes nothing new; the active role goes to another node",
            metadata: ["to": "\(other.name)"])
        handOver(to: other, committer)
    }

    private func withdraw(_ wish: NodeWish, _ log: any ReplicationLog) throws(LogError) {
        try cluster.call { (limit) throws(LogError) in try log.withdraw(wish, within: limit) }
    }

    private func handOver(to successor: NodeReport, _ committer: Committer) {
        logger.notice(
            "the active role is handed over", metadata: ["to": "\(successor.name)"])
        cluster.withLock { state in
            guard state.hold != nil else { return }
            state.successor = successor
            state.mustHandOver = true
        }
        committer.wake()
    }

    /// Notes whether our clients should go elsewhere, and tells the loops if that has changed.
    func note(isDrained: Bool, _ committer: Committer) {
        let isNew = cluster.withLock { state in
            defer { state.isDrained = isDrained }
            return state.isDrained != isDrained
        }
        guard isNew else { return }
        logger.notice(
            isDrained
                ? "this node is drained: clients are told to go to other nodes"
                : "this node is undrained, and takes clients again")
        for loop in committer.allLoops {
            _ = loop.inbox.push([.rest(isDrained)])
            loop.waker.wake()
        }
    }
}
