// SPDX-License-Identifier: Apache-2.0
//
// Carries now-or-never messages across a cluster (TTL-2, OPS-7). The active node sends them from a snapshot, like a lone
// broker, and hands the fanouts to the followers over their links: no row, no waiting for the log. Only while a node that has
// devices has no link, or a full one, do they go through the log (`reachesAll`).
//
// A device that moves gets the message once. The active node puts a message on all links before any loop sends it. A follower
// opens a device's connection only when it has all earlier messages: it sends PING, and PONG comes after them. Rests on
// LinkOutbox and NodeFanout.

import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import MartletThreads
import MartletWire
import Synchronization

/// The now-or-never messages on a node's links.
final class NowOrNeverRelay: Sendable {
    private struct State {
        /// Links of followers that take messages, and the numbers of their processes.
        var peers: [(link: LinkOutbox, process: UInt64)] = []
        /// Other nodes' processes that may have devices.
        var processes: Set<UInt64> = []
        /// The link to the active node, while messages may come over it.
        var activeLink: LinkOutbox?
        /// Messages whose row is not applied yet, the oldest first.
        var waiting: [(row: UInt64, fanouts: [Fanout])] = []
        var waitingBytes = 0
        /// The last PONG's value.
        var heard: UInt64 = 0
        /// When we sent a PING that hasn't been answered; nil if there is none.
        var asked: UInt64?

        mutating func drop() { (waiting, waitingBytes) = ([], 0) }
    }

    private let state = Mutex(State())
    /// The loops have all messages that the active node sent up to this time, in nanoseconds of the monotonic clock.
    private let completeThrough = Atomic<UInt64>(.max)
    /// Messages on their way to the active node's links and loops.
    private let handing = Atomic<Int>(0)

    /// Whether the loops have every message that any node had sent to a device at this time.
    func hasAllMessages(before nanoseconds: UInt64) -> Bool {
        handing.load(ordering: .acquiring) == 0
            && completeThrough.load(ordering: .acquiring) >= nanoseconds
    }

    // MARK: The active node's side

    /// A follower that takes messages has said hello.
    func join(_ link: LinkOutbox, process: UInt64) {
        state.withLock { state in
            // A process has one link, but its former one may not have ended here yet.
            state.peers.removeAll { $0.process == process }
            state.peers.append((link, process))
        }
    }

    /// A follower's link has ended.
    func leave(_ link: LinkOutbox) {
        state.withLock { state in state.peers.removeAll { $0.link === link } }
    }

    /// Notes which processes of other nodes have devices.
    func expect(_ processes: Set<UInt64>) { state.withLock { $0.processes = processes } }

    /// Whether the links reach all devices.
    /// - Parameter nodes: how many nodes are alive.
    func reachesAll(nodes: Int) -> Bool {
        state.withLock { state in
            guard state.peers.count + 1 >= nodes else { return false }
            for process in state.processes {
                guard state.peers.contains(where: { $0.process == process }) else { return false }
            }
            return state.peers.allSatisfy { $0.link.hasRoom(below: ClusterLimits.linkBytesReady) }
        }
    }

    /// Hands fanouts to the followers, and then to our own loops.
    /// - Parameters:
    ///   - row: a row that the log has, at or after the fanouts' snapshot.
    ///   - loops: tells those loops that don't send the message in this turn.
    func hand(_ fanouts: [Fanout], row: UInt64, loops: () -> Void) {
        handing.add(1, ordering: .acquiringAndReleasing)
        defer { handing.subtract(1, ordering: .acquiringAndReleasing) }
        if state.withLock({ !$0.peers.isEmpty }) {
            let bytes = NodeFrame.fanout(
                NodeFanout(
                    row: row, events: ClusterEvent.bytes(of: fanouts.map { .news(.fanout($0)) }))
            ).bytes
            // Under the lock, so that a PONG comes after the message on every link or on none.
            state.withLock { state in for peer in state.peers { peer.link.push(bytes) } }
        }
        loops()
    }

    /// Answers PING, after all messages that any device may have had.
    func answer(_ ping: Ping, on link: LinkOutbox) {
        let bytes = NodeFrame.pong(Pong(value: ping.value)).bytes
        state.withLock { _ in _ = link.push(bytes) }
    }

    // MARK: The follower's side

    /// A link to the active node has begun. From now on messages may come.
    func open(_ link: LinkOutbox) {
        state.withLock { state in
            state.activeLink = link
            state.heard = 0
            state.asked = nil
            completeThrough.store(0, ordering: .releasing)
        }
    }

    /// No more messages come over this link.
    func close(_ link: LinkOutbox) {
        state.withLock { state in
            guard state.activeLink === link else { return }
            state.activeLink = nil
            state.asked = nil
        }
    }

    /// Takes a message from the active node.
    /// - Returns: false if the link must end.
    func take(_ frame: NodeFanout, from link: LinkOutbox) -> Bool {
        guard let events = try? ClusterEvent.events(frame.events) else { return false }
        let fanouts = events.compactMap(\.fanout)
        guard fanouts.count == events.count else { return false }
        return state.withLock { state in
            guard state.activeLink === link else { return false }
            // A follower that is far behind the log loses messages, just as a loop does that is far behind.
            if state.waiting.count < NowOrNeverSending.waitingMax,
                state.waitingBytes < ClusterLimits.heldBytesMax
            {
                state.waiting.append((frame.row, fanouts))
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

    /// Asks, for devices that wait, whether all messages have come. If the active node doesn't answer, ends the link.
    /// - Parameters:
    ///   - awaited: the latest time that somebody needs to know about.
    ///   - nanoseconds: the monotonic clock.
    func ask(for awaited: UInt64, at nanoseconds: UInt64) {
        state.withLock { state in
            guard let link = state.activeLink, state.heard < awaited else { return }
            // Only one PING at a time: every PONG begins a turn, so with one in each turn they would multiply.
            if let asked = state.asked {
                if nanoseconds - asked > ClusterLimits.pongNanoseconds { link.end() }
                return
            }
            state.asked = nanoseconds
            link.push(NodeFrame.ping(Ping(value: nanoseconds)).bytes)
        }
    }

    /// Messages whose time has come.
    /// - Parameter row: the last applied row.
    func due(through row: UInt64) -> [Fanout] {
        state.withLock { state in
            let count = state.waiting.prefix { $0.row <= row }.count
            guard count > 0 else { return [] }
            let due = state.waiting.prefix(count).flatMap(\.fanouts)
            state.waiting.removeFirst(count)
            if state.waiting.isEmpty { state.drop() }
            return due
        }
    }

    /// When we sent the last PING that was answered, in nanoseconds of the monotonic clock; 0 without a link or an answer.
    var heard: UInt64 { state.withLock { $0.activeLink == nil ? 0 : $0.heard } }

    /// The loops now have the messages that were due.
    func noteHanded() {
        state.withLock { state in
            guard state.waiting.isEmpty else { return }
            completeThrough.store(
                state.activeLink == nil ? .max : state.heard, ordering: .releasing)
        }
    }

    /// A device has waited too long for PONG: ends the link. Messages still on it are dropped.
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

    /// Drops what waits, because we don't follow any more.
    func drop() {
        state.withLock { $0.drop() }
        noteHanded()
    }

    /// We are active now, so the former active node's messages are dropped.
    func lead(_ processes: Set<UInt64>) {
        state.withLock { state in
            state.drop()
            state.activeLink = nil
            state.processes = processes
            completeThrough.store(.max, ordering: .releasing)
        }
    }
}
