// SPDX-License-Identifier: Apache-2.0
//
// TTL-2, OPS-7: now-or-never messages of a cluster. The active node sends such a message from a snapshot, as a broker alone
// does, and hands the fanouts to the followers over their links: no row has the message, and nothing waits for the log.
// The log takes the message while a node with devices has no link, or a full one (`reachesAll`).
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
        /// The processes with devices, but for this one.
        var processes: Set<UInt64> = []
        /// The link to the active node, while messages may come over it.
        var link: LinkOutbox?
        /// Messages for which the store of this node has not the row yet, in the order of coming.
        var waiting: [(row: UInt64, fanouts: [ClusterEvent])] = []
        /// The value of the last PONG.
        var heard: UInt64 = 0
        /// When the first PING without PONG was sent.
        var asked: UInt64?
    }

    private let state = Mutex(State())
    /// The time, in nanoseconds of the monotonic clock, up to which the loops have all messages of the active node.
    private let settledThrough = Atomic<UInt64>(.max)
    /// Messages that are on the way to the links and loops of the active node.
    private let handing = Atomic<Int>(0)

    /// Whether the loops have all messages that any node had sent to a device at a time.
    func isSettled(at nanoseconds: UInt64) -> Bool {
        handing.load(ordering: .acquiring) == 0
            && settledThrough.load(ordering: .acquiring) >= nanoseconds
    }

    // MARK: The active node's side

    /// A follower that takes messages has presented itself.
    func join(_ link: LinkOutbox, process: UInt64) {
        state.withLock { $0.peers.append((link, process)) }
    }

    /// A link has ended.
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
        state.withLock { state in
            guard !state.peers.isEmpty else { return }
            let bytes = NodeFrame.fanout(
                NodeFanout(
                    row: row, events: ClusterEvent.bytes(of: fanouts.map { .fanout($0) }))
            ).bytes
            for peer in state.peers { peer.link.push(bytes) }
        }
        loops()
    }

    /// Answers PING, behind the messages that any device may have.
    func answer(_ ping: Ping, on link: LinkOutbox) {
        state.withLock { _ in _ = link.push(NodeFrame.pong(Pong(value: ping.value)).bytes) }
    }

    // MARK: The follower's side

    /// A link to the active node begins. Messages may come from now on.
    func open(_ link: LinkOutbox) {
        state.withLock { state in
            state.link = link
            state.heard = 0
            state.asked = nil
            settledThrough.store(0, ordering: .releasing)
        }
    }

    /// No message comes over the link any more.
    func close(_ link: LinkOutbox) {
        state.withLock { state in
            guard state.link === link else { return }
            state.link = nil
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
            guard state.link === link else { return false }
            // A follower far behind the log loses messages, as a loop far behind does.
            if state.waiting.count < LiveSending.waitingMax {
                state.waiting.append((frame.row, events))
            }
            return true
        }
    }

    func take(_ pong: Pong, from link: LinkOutbox) {
        state.withLock { state in
            guard state.link === link else { return }
            state.heard = max(state.heard, pong.value)
            state.asked = nil
        }
    }

    /// Asks whether all messages have come, for devices that wait. Ends a link whose active node does not answer.
    /// - Parameter nanoseconds: the monotonic clock.
    func ask(at nanoseconds: UInt64) {
        state.withLock { state in
            guard let link = state.link else { return }
            let asked = state.asked ?? nanoseconds
            state.asked = asked
            guard nanoseconds - asked <= ClusterLimits.linkSilenceNanoseconds else {
                return link.end()
            }
            link.push(NodeFrame.ping(Ping(value: nanoseconds)).bytes)
        }
    }

    /// The messages for the loops.
    /// - Parameter row: the last applied row.
    func due(through row: UInt64) -> [ClusterEvent] {
        state.withLock { state in
            let count = state.waiting.prefix { $0.row <= row }.count
            guard count > 0 else { return [] }
            defer { state.waiting.removeFirst(count) }
            return state.waiting.prefix(count).flatMap(\.fanouts)
        }
    }

    /// The loops have the messages that were due.
    func settle() {
        state.withLock { state in
            guard state.waiting.isEmpty else { return }
            settledThrough.store(
                state.link == nil ? .max : state.heard, ordering: .releasing)
        }
    }

    /// The node is active now: messages of the former active node are over.
    func lead(_ processes: Set<UInt64>) {
        state.withLock { state in
            state.waiting = []
            state.link = nil
            state.processes = processes
            settledThrough.store(.max, ordering: .releasing)
        }
    }
}

extension Committer {
    /// TTL-2: whether a loop or a caller sends now-or-never messages itself. The store of a node has everything that any
    /// node has answered while the node is active and no row is under way.
    var sendsLive: Bool {
        guard let cluster, let links else { return true }
        return !cluster.isAppending.load(ordering: .acquiring) && cluster.isActive
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

    /// TTL-2: hands now-or-never fanouts to the other nodes, and to loops of this node.
    /// - Parameter loops: tells the loops.
    func hand(live fanouts: [Fanout], loops: () -> Void) {
        guard let cluster, let links else { return loops() }
        links.live.hand(fanouts, row: cluster.applied.row, loops: loops)
    }
}
