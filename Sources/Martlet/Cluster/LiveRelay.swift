// SPDX-License-Identifier: Apache-2.0
//
// Carries now-or-never messages across a cluster (TTL-2, OPS-7). The active node sends such a message from a snapshot, as a
// broker alone does, and hands the fanouts to the followers over their links: no row has the message, and nothing waits for
// the log. The log takes the message while a node with devices has no link, or a full one (`reachesAll`).
//
// A device that moves gets the message once. The active node hands a message to all links before any loop sends the message.
// A follower opens the connection of a device when it has all messages of the time before: it sends PING, and PONG comes
// behind these messages. Rests on LinkOutbox and NodeFanout.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import MartletWire
import Synchronization

/// The now-or-never messages on a node's links.
final class LiveRelay: Sendable {
    private struct State {
        /// The links of followers that take messages, with the numbers of their processes.
        var peers: [(link: LinkOutbox, process: UInt64)] = []
        /// The processes of other nodes that may have devices.
        var processes: Set<UInt64> = []
        /// The link to the active node, while messages may come over it.
        var activeLink: LinkOutbox?
        /// Messages whose row is not applied yet, the oldest first.
        var waiting: [(row: UInt64, fanouts: [ClusterEvent])] = []
        var waitingBytes = 0
        /// The value of the last PONG.
        var heard: UInt64 = 0
        /// When the PING without PONG was sent; nil: there is none.
        var asked: UInt64?

        mutating func drop() { (waiting, waitingBytes) = ([], 0) }
    }

    private let state = Mutex(State())
    /// The time, in nanoseconds of the monotonic clock, up to which the loops have all messages of the active node.
    private let completeThrough = Atomic<UInt64>(.max)
    /// Messages that are on the way to the links and loops of the active node.
    private let handing = Atomic<Int>(0)

    /// Whether the loops have all messages that any node had sent to a device at a time.
    func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        handing.load(ordering: .acquiring) == 0
            && completeThrough.load(ordering: .acquiring) >= nanoseconds
    }

    // MARK: The active node's side

    /// A follower that takes messages has presented itself.
    func join(_ link: LinkOutbox, process: UInt64) {
        state.withLock { state in
            // A process has one link. Its former link may not have ended here yet.
            state.peers.removeAll { $0.process == process }
            state.peers.append((link, process))
        }
    }

    /// The link of a follower has ended.
    func leave(_ link: LinkOutbox) {
        state.withLock { state in state.peers.removeAll { $0.link === link } }
    }

    /// Notes which processes have devices.
    /// - Parameter processes: those of other nodes.
    func expect(_ processes: Set<UInt64>) { state.withLock { $0.processes = processes } }

    /// Whether the links reach all devices.
    /// - Parameter nodes: the living nodes.
    func reachesAll(nodes: Int) -> Bool {
        state.withLock { state in
            guard state.peers.count + 1 >= nodes else { return false }
            for process in state.processes {
                guard state.peers.contains(where: { $0.process == process }) else { return false }
            }
            return state.peers.allSatisfy { $0.link.hasRoom(below: ClusterLimits.linkBytesReady) }
        }
    }

    /// Hands fanouts to the followers, then to loops of this node.
    /// - Parameters:
    ///   - row: a row that the log has, and that is not before the snapshot of the fanouts.
    ///   - loops: tells the loops that do not send the message in this turn.
    func hand(_ fanouts: [Fanout], row: UInt64, loops: () -> Void) {
        handing.add(1, ordering: .acquiringAndReleasing)
        defer { handing.subtract(1, ordering: .acquiringAndReleasing) }
        if state.withLock({ !$0.peers.isEmpty }) {
            let bytes = NodeFrame.fanout(
                NodeFanout(
                    row: row, events: ClusterEvent.bytes(of: fanouts.map { .fanout($0) }))
            ).bytes
            // Under the lock, so that a PONG is behind the message on all links or on none.
            state.withLock { state in for peer in state.peers { peer.link.push(bytes) } }
        }
        loops()
    }

    /// Answers PING, behind the messages that any device may have.
    func answer(_ ping: Ping, on link: LinkOutbox) {
        let bytes = NodeFrame.pong(Pong(value: ping.value)).bytes
        state.withLock { _ in _ = link.push(bytes) }
    }

    // MARK: The follower's side

    /// A link to the active node begins. Messages may come from now on.
    func open(_ link: LinkOutbox) {
        state.withLock { state in
            state.activeLink = link
            state.heard = 0
            state.asked = nil
            completeThrough.store(0, ordering: .releasing)
        }
    }

    /// No message comes over the link any more.
    func close(_ link: LinkOutbox) {
        state.withLock { state in
            guard state.activeLink === link else { return }
            state.activeLink = nil
            state.asked = nil
        }
    }

    /// Takes a message of the active node.
    /// - Returns: false if the link must end.
    func take(_ frame: NodeFanout, from link: LinkOutbox) -> Bool {
        guard let events = try? ClusterEvent.events(frame.events),
            events.allSatisfy({ if case .fanout = $0 { true } else { false } })
        else { return false }
        return state.withLock { state in
            guard state.activeLink === link else { return false }
            // A follower far behind the log loses messages, as a loop far behind does.
            if state.waiting.count < LiveSending.waitingMax,
                state.waitingBytes < ClusterLimits.heldBytesMax
            {
                state.waiting.append((frame.row, events))
                state.waitingBytes += frame.events.count
            }
            return true
        }
    }

    func take(_ pong: Pong, from link: LinkOutbox) {
        state.withLock { state in
            guard state.activeLink === link else { return }
            state.heard = max(state.heard, pong.value)
            state.asked = nil
        }
    }

    /// Asks whether all messages have come, for devices that wait. Ends a link whose active node does not answer.
    /// - Parameters:
    ///   - awaited: the last time of which somebody needs to know.
    ///   - nanoseconds: the monotonic clock.
    func ask(for awaited: UInt64, at nanoseconds: UInt64) {
        state.withLock { state in
            guard let link = state.activeLink, state.heard < awaited else { return }
            // A link has a single PING under way. With a PING in each turn the frames multiply, because each PONG begins
            // a turn.
            if let asked = state.asked {
                if nanoseconds - asked > ClusterLimits.pongNanoseconds { link.end() }
                return
            }
            state.asked = nanoseconds
            link.push(NodeFrame.ping(Ping(value: nanoseconds)).bytes)
        }
    }

    /// The messages for the loops.
    /// - Parameter row: the last applied row.
    func due(through row: UInt64) -> [ClusterEvent] {
        state.withLock { state in
            let count = state.waiting.prefix { $0.row <= row }.count
            guard count > 0 else { return [] }
            let due = state.waiting.prefix(count).flatMap(\.fanouts)
            state.waiting.removeFirst(count)
            if state.waiting.isEmpty { state.drop() }
            return due
        }
    }

    /// When the last PING with a PONG was sent, in nanoseconds of the monotonic clock; 0: there is no link, or no PONG.
    var heard: UInt64 { state.withLock { $0.activeLink == nil ? 0 : $0.heard } }

    /// The loops have the messages that were due.
    func noteHanded() {
        state.withLock { state in
            guard state.waiting.isEmpty else { return }
            completeThrough.store(
                state.activeLink == nil ? .max : state.heard, ordering: .releasing)
        }
    }

    /// Ends a link without PONG, because a device has waited too long. The messages on the link are dropped.
    func giveUp(at nanoseconds: UInt64) {
        state.withLock { state in
            guard completeThrough.load(ordering: .relaxed) < nanoseconds else { return }
            state.activeLink?.end()
            state.activeLink = nil
            state.asked = nil
            state.drop()
            completeThrough.store(.max, ordering: .releasing)
        }
    }

    /// Drops the messages that wait, because the node does not follow.
    func drop() {
        state.withLock { $0.drop() }
        noteHanded()
    }

    /// The node is active now: messages of the former active node are dropped.
    func lead(_ processes: Set<UInt64>) {
        state.withLock { state in
            state.drop()
            state.activeLink = nil
            state.processes = processes
            completeThrough.store(.max, ordering: .releasing)
        }
    }
}

extension Committer {
    /// TTL-2: whether a loop or a caller sends now-or-never messages itself. A follower may have answered from a row that
    /// the store of the active node does not have yet, so the messages go into the log while a row with such answers is
    /// under way.
    var sendsLive: Bool {
        guard let cluster, let links else { return true }
        return !cluster.isChangingRecipients.load(ordering: .acquiring) && cluster.isActive
            && links.live.reachesAll(nodes: cluster.nodes.value)
    }

    /// TTL-2: begins to count a now-or-never fanout.
    /// - Parameters:
    ///   - loops: the loops that are told.
    ///   - isForNodes: whether other nodes are told.
    func beginLive(
        _ progress: FanoutProgress?, loops: Int, isForNodes: Bool, at now: Instant
    ) {
        guard let progress else { return }
        if isForNodes, let links {
            links.parts.begin(progress, loops: loops, at: now, clock: ClusterState.now)
        } else {
            progress.begin(loops: loops, at: now)
        }
    }

    /// TTL-2: hands now-or-never fanouts to the other nodes, and then to loops of this node.
    /// - Parameter loops: tells the loops.
    func tellNodes(live fanouts: [Fanout], loops: () -> Void) {
        guard let cluster, let links else { return loops() }
        links.live.hand(fanouts, row: cluster.applied.row, loops: loops)
    }
}
