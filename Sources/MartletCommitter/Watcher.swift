// SPDX-License-Identifier: Apache-2.0
//
// One watcher of a project (EMB-3): a bounded queue of events, and sums. The thread that applies a command, accepts a
// now-or-never message or ticks puts events in; the task of the embedder takes events out. Rests on ProjectEvent.

import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import MartletWire
import Synchronization

/// A watcher of a project.
package final class Watcher: Sendable {
    /// Events that wait for the embedder: some 100 KiB with the texts of the events.
    static let eventsMax = 1024
    /// Messages to many whose progress a watcher follows: more than a project may have in progress.
    private static let followedMax = 2048

    private typealias Waiter = CheckedContinuation<ProjectEvent?, Never>

    private struct Followed {
        var progress: FanoutProgress
        var toldCount: UInt64 = 0
    }

    /// The connections of the project on another node.
    private struct Node {
        var connectionCount: Int
        /// Whether the node has told its load. A node that tells no load any more is gone.
        var wasLiving = false
    }

    private struct State {
        var events: [ProjectEvent] = []
        /// Events at the beginning of `events` that were taken.
        var takenCount = 0
        var sums: ProjectSums
        /// The last sums told; nil before the first.
        var told: ProjectSums?
        var areSumsDue = false
        /// The project's connections when the watch began.
        var before: ProjectLoad
        var followed: [UInt64: Followed] = [:]
        var waiter: Waiter?
        var isClosed = false
        /// OPS-7: by name, the other nodes with connections of the project.
        var nodes: [String: Node] = [:]
        /// Connections that began and ended on other nodes.
        var connectedElsewhere: UInt64 = 0
        var disconnectedElsewhere: UInt64 = 0

        mutating func add(_ event: ProjectEvent) {
            guard events.count - takenCount < Watcher.eventsMax else {
                sums.droppedCount += 1
                return
            }
            events.append(event)
        }

        /// Counts the connections of another node.
        mutating func hear(of news: NodeEvents) {
            let count = Int(min(news.connectionCount, UInt64(UInt32.max)))
            connectedElsewhere &+= news.sums.connected
            disconnectedElsewhere &+= news.sums.disconnected
            guard var node = nodes[news.node] else {
                nodes[news.node] = Node(connectionCount: count)
                return
            }
            // What began and ended between two links is not among the sums.
            let expected =
                Int64(node.connectionCount) &+ Int64(bitPattern: news.sums.connected)
                &- Int64(bitPattern: news.sums.disconnected)
            let missing = Int64(count) &- expected
            if missing > 0 {
                connectedElsewhere &+= UInt64(missing)
            } else {
                disconnectedElsewhere &+= missing.magnitude
            }
            node.connectionCount = count
            nodes[news.node] = node
        }

        /// The connections of nodes that are gone have ended.
        mutating func forgetNodes(but living: Set<String>) {
            for (name, node) in nodes {
                if living.contains(name) {
                    nodes[name]?.wasLiving = true
                } else if node.wasLiving {
                    disconnectedElsewhere &+= UInt64(node.connectionCount)
                    nodes[name] = nil
                }
            }
        }

        mutating func take() -> ProjectEvent? {
            if areSumsDue {
                areSumsDue = false
                told = sums
                return .sums(sums)
            }
            guard takenCount < events.count else { return nil }
            defer {
                takenCount += 1
                // Moving the rest costs no more than the events taken before.
                if takenCount * 2 >= events.count {
                    events.removeFirst(takenCount)
                    takenCount = 0
                }
            }
            return events[takenCount]
        }
    }

    let project: ProjectNumber
    let id: String
    /// OPS-7: whether the watcher is for another node. Such a watcher hears of no other node.
    let isRelay: Bool
    private let state: Mutex<State>

    init(
        _ project: ProjectNumber, id: String, now: Instant, before: ProjectLoad,
        isRelay: Bool = false
    ) {
        self.isRelay = isRelay
        self.project = project
        self.id = id
        var sums = ProjectSums(instant: now)
        sums.connectionCount = before.connectionCount
        state = Mutex(State(sums: sums, before: before))
    }

    /// The sums so far.
    package var sums: ProjectSums { state.withLock { $0.sums } }

    /// The events that wait, sums first.
    package func takeWaiting() -> [ProjectEvent] {
        state.withLock { state in
            var taken: [ProjectEvent] = []
            while let event = state.take() { taken.append(event) }
            return taken
        }
    }

    // MARK: The broker's side

    func accepted(_ acceptance: Acceptance, isScheduled: Bool, _ fanouts: [Fanout]) {
        change { state in
            state.sums.acceptedCount += 1
            state.add(
                .accepted(
                    AcceptedMessage(
                        messageID: messageID(acceptance.messageNumber),
                        recipientCount: acceptance.recipientCount,
                        isDeferred: acceptance.deferredPlace > 0, isScheduled: isScheduled)))
        }
        follow(fanouts)
    }

    /// Follows a message to many from now on.
    func follow(_ fanouts: [Fanout]) {
        guard let progress = fanouts.first?.progress else { return }
        state.withLock { state in
            guard state.followed.count < Self.followedMax else {
                state.sums.droppedCount += 1
                return
            }
            state.followed[progress.number] = Followed(progress: progress)
        }
    }

    func refused(_ error: MartletError) {
        change { state in
            state.sums.refusedCount += 1
            state.add(.refused(error))
        }
    }

    func acceptedUpstream() { state.withLock { $0.sums.upstreamCount += 1 } }

    func count(_ counts: ReportCounts) {
        state.withLock { $0.sums.counts += DeliveryCounts(counts) }
    }

    /// OPS-7: adds the events and sums of another node.
    func heard(_ news: NodeEvents) {
        change { state in
            state.sums.acceptedCount &+= news.sums.accepted
            state.sums.upstreamCount &+= news.sums.upstream
            state.sums.refusedCount &+= news.sums.refused
            state.sums.droppedCount &+= news.sums.dropped
            state.sums.counts += news.sums.counts
            state.hear(of: news)
            for event in news.events { state.add(ProjectEvent(event)) }
        }
    }

    /// Tells the progress and the sums of the time since the last tick.
    /// - Parameter living: OPS-7: the other nodes of the cluster.
    func tick(at now: Instant, _ load: ProjectLoad, living: Set<String> = []) {
        change { state in
            for (number, followed) in state.followed.sorted(by: { $0.key < $1.key }) {
                let isDone = !followed.progress.isTold
                let count = followed.progress.deliveredCount
                if isDone { state.followed[number] = nil }
                guard isDone || count > followed.toldCount else { continue }
                if !isDone { state.followed[number]?.toldCount = count }
                state.add(
                    .progress(
                        DeliveryProgress(
                            messageID: messageID(number),
                            recipientCount: followed.progress.recipientCount,
                            deliveredCount: count, isDone: isDone)))
            }
            state.forgetNodes(but: living)
            state.sums.connectionCount =
                load.connectionCount + state.nodes.values.reduce(0) { $0 + $1.connectionCount }
            let connected = load.connectedTotal &- state.before.connectedTotal
            state.sums.connectedCount = connected &+ state.connectedElsewhere
            // Each connection that is not open any more has ended.
            let open = connected &+ UInt64(state.before.connectionCount)
            state.sums.disconnectedCount =
                open &- UInt64(load.connectionCount) &+ state.disconnectedElsewhere
            var known = state.told
            known?.instant = state.sums.instant
            if known != state.sums { state.areSumsDue = true }
            state.sums.instant = now
        }
    }

    func close() {
        let (waiter, event) = state.withLock { state -> (Waiter?, ProjectEvent?) in
            state.isClosed = true
            state.areSumsDue = true
            guard let waiter = state.waiter else { return (nil, nil) }
            state.waiter = nil
            return (waiter, state.take())
        }
        waiter?.resume(returning: event)
    }

    private func messageID(_ number: UInt64) -> String { MessageID.text(number, projectID: id) }

    private func change(_ body: (inout State) -> Void) {
        let (waiter, event) = state.withLock { state -> (Waiter?, ProjectEvent?) in
            body(&state)
            guard state.waiter != nil, let event = state.take() else { return (nil, nil) }
            defer { state.waiter = nil }
            return (state.waiter, event)
        }
        waiter?.resume(returning: event)
    }

    // MARK: The embedder's side

    package func next() async -> ProjectEvent? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: Waiter) in
                let first = state.withLock { state -> ProjectEvent?? in
                    if Task.isCancelled { return .some(nil) }
                    if let event = state.take() { return event }
                    if state.isClosed { return .some(nil) }
                    guard state.waiter == nil else {
                        fatalError(
                            "next() was called while a copy of the iterator waits in next().")
                    }
                    state.waiter = waiter
                    return nil
                }
                if let first { waiter.resume(returning: first) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: nil)
        }
    }
}

extension ProjectEvent {
    fileprivate init(_ event: NodeEvents.Event) {
        switch event {
        case .accepted(let messageID, let recipientCount, let isDeferred, let isScheduled):
            self = .accepted(
                AcceptedMessage(
                    messageID: messageID, recipientCount: recipientCount, isDeferred: isDeferred,
                    isScheduled: isScheduled))
        case .progress(let messageID, let recipientCount, let deliveredCount, let isDone):
            self = .progress(
                DeliveryProgress(
                    messageID: messageID, recipientCount: recipientCount,
                    deliveredCount: deliveredCount, isDone: isDone))
        case .refused(let error): self = .refused(error)
        }
    }
}
