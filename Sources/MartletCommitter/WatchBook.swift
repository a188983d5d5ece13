// SPDX-License-Identifier: Apache-2.0
//
// The watchers of a broker (EMB-3). The committer tells accepted and refused commands after their transaction is
// durable, hands over the counts that the transaction wrote to the day reports, and ticks once a second. Sums of
// connections come from the loads that the loops write once a second. No watcher is told of a single delivery, so a
// watcher costs the loops nothing; without watchers the committer reads one flag. Rests on Watcher.

package import MartletBase
import MartletDelivery
package import MartletEngine
import MartletRows
package import MartletThreads
package import MartletWire
import Synchronization

/// The watchers of a broker.
package final class WatchBook: Sendable {
    private static let tickNanoseconds: UInt64 = 1_000_000_000

    private struct State {
        var watchers: [UInt64: Watcher] = [:]
        var lastNumber: UInt64 = 0
        var loops: [LoopMetrics] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)
    private let lastTick = Atomic<UInt64>(0)
    private let ledgers: Ledgers

    init(_ ledgers: Ledgers) { self.ledgers = ledgers }

    /// Whether a watcher is there.
    var isWatched: Bool { count.load(ordering: .relaxed) > 0 }

    package func add(_ loop: LoopMetrics) { state.withLock { $0.loops.append(loop) } }

    // MARK: Watchers

    /// - Parameter isRelay: whether the watcher is for another node, and gets the events of this node alone.
    package func watch(_ project: ProjectNumber, id: String, isRelay: Bool = false) -> WatchPlace {
        let before = loads()[project] ?? ProjectLoad(project)
        let watcher = Watcher(
            project, id: id, now: SystemClock.now(), before: before, isRelay: isRelay)
        let (number, isClosed) = state.withLock { state in
            state.lastNumber += 1
            if !state.isClosed {
                state.watchers[state.lastNumber] = watcher
                if state.watchers.count == 1 { ledgers.watchCounts(true) }
                count.store(state.watchers.count, ordering: .relaxed)
            }
            return (state.lastNumber, state.isClosed)
        }
        if isClosed { watcher.close() }
        return WatchPlace(self, number, watcher)
    }

    fileprivate func leave(_ number: UInt64) {
        state.withLock { state in
            guard state.watchers.removeValue(forKey: number) != nil else { return }
            count.store(state.watchers.count, ordering: .relaxed)
            if state.watchers.isEmpty { ledgers.watchCounts(false) }
        }
    }

    /// OPS-7: the projects that watchers of this node follow.
    package var followed: [ProjectNumber: String] {
        guard isWatched else { return [:] }
        return state.withLock { state in
            let followers = state.watchers.values.filter { !$0.isRelay }
            return Dictionary(followers.map { ($0.project, $0.id) }, uniquingKeysWith: { $1 })
        }
    }

    /// Watchers in the book, for tests.
    package var watcherCount: Int { count.load(ordering: .relaxed) }

    /// Ends all watches with their last sums.
    package func close(at now: Instant) {
        tick(at: now)
        let watchers = state.withLock { state in
            state.isClosed = true
            defer { state.watchers = [:] }
            count.store(0, ordering: .relaxed)
            return state.watchers
        }
        for watcher in watchers.values { watcher.close() }
    }

    private func watchers(of project: ProjectNumber) -> [Watcher] {
        state.withLock { $0.watchers.values.filter { $0.project == project } }
    }

    // MARK: Events

    /// Tells of a command whose transaction is durable.
    func applied(_ command: Command, _ outcome: Outcome) {
        switch (command, outcome) {
        case (.send(let project, let message), .accepted): sent(message, in: project, outcome)
        case (.upstream(let message), .upstreamAccepted(_, let fanouts)):
            for watcher in watchers(of: message.project) {
                watcher.acceptedUpstream()
                watcher.follow(fanouts)
            }
        case (_, .refused(let error)):
            switch command.scope {
            case .project(let project): refused(error, in: project)
            case .registrations(let id):
                guard error.isOfQuota else { return }
                let watchers = state.withLock { $0.watchers.values.filter { $0.id == id } }
                for watcher in watchers { watcher.refused(error) }
            case .broker: break
            }
        default: break
        }
    }

    /// Tells of an accepted message. A validated message is none.
    package func sent(_ message: SendCommand, in project: ProjectNumber, _ outcome: Outcome) {
        guard isWatched, !message.validateOnly,
            case .accepted(let acceptance, let fanouts) = outcome
        else { return }
        let isScheduled =
            message.sendAt != nil && acceptance.recipientCount == 0 && fanouts.isEmpty
        for watcher in watchers(of: project) {
            watcher.accepted(acceptance, isScheduled: isScheduled, fanouts)
        }
    }

    /// Tells of a deferred or scheduled message that begins.
    func began(_ fanouts: [Fanout]) {
        guard let project = fanouts.first?.project else { return }
        for watcher in watchers(of: project) { watcher.follow(fanouts) }
    }

    /// Tells of a refusal, if a quota is its cause.
    package func refused(_ error: MartletError, in project: ProjectNumber) {
        guard isWatched, error.isOfQuota else { return }
        for watcher in watchers(of: project) { watcher.refused(error) }
    }

    /// Adds the counts of a durable transaction.
    func count(_ counts: [ProjectNumber: ReportCounts]) {
        guard !counts.isEmpty else { return }
        for watcher in state.withLock({ Array($0.watchers.values) }) {
            if let mine = counts[watcher.project] { watcher.count(mine) }
        }
    }

    /// OPS-7: tells of events on another node.
    package func heard(_ events: NodeEvents) {
        guard isWatched else { return }
        for watcher in watchers(of: events.project) where !watcher.isRelay { watcher.heard(events) }
    }

    /// Ticks if a second has passed since the last tick.
    /// - Parameter living: the other living nodes of a cluster.
    func tick(nanoseconds: UInt64, at now: Instant, living: @autoclosure () -> Set<String>) {
        guard nanoseconds &- lastTick.load(ordering: .relaxed) >= Self.tickNanoseconds else {
            return
        }
        lastTick.store(nanoseconds, ordering: .relaxed)
        tick(at: now, living: living())
    }

    private func tick(at now: Instant, living: Set<String> = []) {
        let watchers = state.withLock { Array($0.watchers.values) }
        guard !watchers.isEmpty else { return }
        let loads = loads()
        for watcher in watchers {
            watcher.tick(
                at: now, loads[watcher.project] ?? ProjectLoad(watcher.project), living: living)
        }
    }

    private func loads() -> [ProjectNumber: ProjectLoad] {
        var loads: [ProjectNumber: ProjectLoad] = [:]
        for loop in state.withLock({ $0.loops }) {
            for load in loop.projects.withLock({ $0 }) {
                loads[load.project, default: ProjectLoad(load.project)].add(load)
            }
        }
        return loads
    }
}

/// The place of a watcher in the book, until the embedder drops it.
package final class WatchPlace: Sendable {
    package let watcher: Watcher
    private let book: WatchBook
    private let number: UInt64

    init(_ book: WatchBook, _ number: UInt64, _ watcher: Watcher) {
        self.book = book
        self.number = number
        self.watcher = watcher
    }

    deinit { book.leave(number) }
}

extension MartletError {
    /// Whether a quota is the cause of the refusal.
    fileprivate var isOfQuota: Bool { word == .quotaExceeded || word == .resourceExhausted }
}
