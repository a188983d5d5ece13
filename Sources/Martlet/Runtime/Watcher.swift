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
final class Watcher: Sendable {
    /// Events that wait for the embedder: some 100 KiB with the texts of the events.
    static let eventsMax = 1024
    /// Messages to many whose progress a watcher follows: more than a project may have in progress.
    private static let followedMax = 2048

    private typealias Waiter = CheckedContinuation<ProjectEvent?, Never>

    private struct Followed {
        var progress: FanoutProgress
        var toldCount: UInt64 = 0
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

        mutating func add(_ event: ProjectEvent) {
            guard events.count - takenCount < Watcher.eventsMax else {
                sums.droppedCount += 1
                return
            }
            events.append(event)
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
    private let state: Mutex<State>

    init(_ project: ProjectNumber, id: String, now: Instant, before: ProjectLoad) {
        self.project = project
        self.id = id
        var sums = ProjectSums(instant: now)
        sums.connectionCount = before.connectionCount
        state = Mutex(State(sums: sums, before: before))
    }

    /// The events that wait, sums first.
    func takeWaiting() -> [ProjectEvent] {
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

    /// Tells the progress and the sums of the time since the last tick.
    func tick(at now: Instant, _ load: ProjectLoad) {
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
            state.sums.connectionCount = load.connectionCount
            let connected = load.connectedTotal &- state.before.connectedTotal
            state.sums.connectedCount = connected
            // Each connection that is not open any more has ended.
            let open = connected &+ UInt64(state.before.connectionCount)
            state.sums.disconnectedCount = open &- UInt64(load.connectionCount)
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

    func next() async -> ProjectEvent? {
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
