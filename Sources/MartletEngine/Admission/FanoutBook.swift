// SPDX-License-Identifier: Apache-2.0
//
// Knows every project's fanouts in progress, and decides whether another may begin (FAN-1, QUO-5). A fanout is entered once
// and ended once, so a single lock will do. Of a project without fanouts it remembers only how fast the last ones ended, and
// how many messages were refused. Rests on FanoutProgress.

package import MartletBase
import MartletBits
import Synchronization

/// A moment in a fanout that is timed from its acceptance.
package enum FanoutMoment: Sendable {
    /// The first deliveries are queued.
    case first
    /// The message is queued for every connected recipient. Doesn't happen if there are none.
    case last
}

/// The fanouts in progress of a broker.
package final class FanoutBook: Sendable {
    private struct Held {
        var count: Int
        var bytes: Int
    }

    private struct Running {
        /// Each fanout has a higher one, over all projects.
        var number: UInt64
        var progress: FanoutProgress
    }

    private struct Entry {
        var running: [ObjectIdentifier: Running] = [:]
        /// Fanouts of stored messages. Each takes one of the project's places (FAN-1).
        var placesTaken = 0
        var bytes = 0
        /// The recipient sets in use, by identity. Fanouts that share one count its bytes once.
        var sets: [ObjectIdentifier: Held] = [:]
        var weight = 1
        var deferredCount = 0
        var lastEnd: Instant?
        /// Moving mean of the time from one fanout's end to the next. A new interval weighs 1 in `endsInMean`.
        var meanMilliseconds: Double?
        /// Refused messages that no fanout has ended for yet. Each further one gets a later retry.
        var refusedCount = 0

        var isIdle: Bool { running.isEmpty && deferredCount == 0 }

        private static let endsInMean = 8.0

        /// - Returns: the bytes that the fanout adds to those already held.
        mutating func enter(_ one: Running) -> Int {
            let bytesBefore = bytes
            let before = running.updateValue(one, forKey: ObjectIdentifier(one.progress))
            invariant(before == nil, "A fanout enters the book once.")
            if one.progress.takesPlace { placesTaken += 1 }
            weight = one.progress.weight
            bytes += one.progress.bodyBytes
            for set in one.progress.recipients {
                var held = sets[ObjectIdentifier(set)] ?? Held(count: 0, bytes: set.byteCount)
                if held.count == 0 { bytes += held.bytes }
                held.count += 1
                sets[ObjectIdentifier(set)] = held
            }
            invariant(bytes >= bytesBefore, "A fanout frees no memory when it begins.")
            return bytes - bytesBefore
        }

        /// - Parameter now: the instant of the end; nil: the fanout never began.
        /// - Returns: the bytes that are freed; nil if the book doesn't have it.
        mutating func leave(_ progress: FanoutProgress, at now: Instant?) -> Int? {
            guard running.removeValue(forKey: ObjectIdentifier(progress)) != nil else { return nil }
            if progress.takesPlace { placesTaken -= 1 }
            let before = bytes
            bytes -= progress.bodyBytes
            for set in progress.recipients {
                guard var held = sets[ObjectIdentifier(set)] else {
                    invariantFailure("The book has the recipients of each fanout in progress.")
                }
                invariant(held.count > 0, "The count of fanouts of a set is never negative.")
                held.count -= 1
                if held.count == 0 { bytes -= held.bytes }
                sets[ObjectIdentifier(set)] = held.count == 0 ? nil : held
            }
            invariant(placesTaken >= 0, "A project takes no fewer than no places.")
            invariant(
                placesTaken <= running.count,
                "Each place of a project is taken by a fanout in progress.")
            invariant(
                !running.isEmpty || bytes == 0 && sets.isEmpty,
                "A project without fanouts in progress holds no memory.")
            guard let now else { return before - bytes }
            if let lastEnd {
                let interval = Double(max(now.rawValue - lastEnd.rawValue, 0))
                let mean = meanMilliseconds ?? interval
                meanMilliseconds = mean + (interval - mean) / Self.endsInMean
            }
            lastEnd = now
            refusedCount = max(0, refusedCount - 1)
            return before - bytes
        }
    }

    private struct State {
        var limits: BrokerLimits
        var projects: [ProjectNumber: Entry] = [:]
        var bytes = 0
        var lastNumber: UInt64 = 0
        /// Deferred messages of all projects.
        var deferredCount = 0
    }

    private let state: Mutex<State>
    private let roomWasMade = Atomic(false)

    /// Called at most twice per fanout, with the instant of its acceptance.
    let tell: (@Sendable (FanoutMoment, _ began: Instant) -> Void)?

    /// Makes an empty book.
    /// - Parameter limits: the bounds of fanouts in progress (FAN-1).
    package init(
        limits: BrokerLimits = BrokerLimits(),
        tell: (@Sendable (FanoutMoment, _ began: Instant) -> Void)? = nil
    ) {
        state = Mutex(State(limits: limits))
        self.tell = tell
    }

    /// Changes the bounds (OPS-11). Fanouts in progress above a lower bound go on.
    package func change(limits: BrokerLimits) {
        state.withLock { $0.limits = limits }
        // There may be room for deferred messages now.
        roomWasMade.store(true, ordering: .releasing)
    }

    // MARK: The engine's side

    /// Whether a project may begin another stored fanout (FAN-1). If it has none in progress it always may, so that other
    /// projects can't bring it to a halt.
    func hasRoom(for project: ProjectNumber) -> Bool {
        state.withLock { state in
            guard let entry = state.projects[project], !entry.running.isEmpty else { return true }
            return isBelow(entry.placesTaken, state.limits.fanoutsInProgressMax)
                && hasMemory(entry, state)
        }
    }

    /// Whether a project may begin another now-or-never fanout (TTL-2). These don't take the places of stored ones, but have
    /// the same limit, because memory must stay bounded.
    func hasNowOrNeverRoom(for project: ProjectNumber) -> Bool {
        state.withLock { state in
            guard let entry = state.projects[project], !entry.running.isEmpty else { return true }
            let nowOrNeverCount = entry.running.count - entry.placesTaken
            return isBelow(nowOrNeverCount, state.limits.fanoutsInProgressMax)
                && hasMemory(entry, state)
        }
    }

    private func hasMemory(_ entry: Entry, _ state: State) -> Bool {
        isBelow(entry.bytes, state.limits.fanoutMegabytesPerProjectMax << 20)
            && isBelow(state.bytes, state.limits.fanoutMegabytesMax << 20)
    }

    private func isBelow(_ value: Int, _ limit: Int) -> Bool { limit == 0 || value < limit }

    func enter(_ progress: FanoutProgress) {
        state.withLock { state in
            state.lastNumber += 1
            let running = Running(number: state.lastNumber, progress: progress)
            state.bytes += state.projects[progress.project, default: Entry()].enter(running)
        }
    }

    /// Removes a fanout whose transaction failed.
    func takeBack(_ progress: FanoutProgress) { leave(progress, at: nil) }

    /// Sets the deferred messages of all projects.
    func setDeferred(_ counts: [ProjectNumber: Int]) {
        state.withLock { state in
            state.deferredCount = 0
            for project in state.projects.keys where counts[project] == nil {
                state.projects[project]?.deferredCount = 0
            }
            for (project, count) in counts {
                invariant(count > 0, "A project without deferred messages has no count.")
                state.projects[project, default: Entry()].deferredCount = count
                state.deferredCount += count
            }
        }
    }

    /// Sets the weight of a project's fanouts in progress. Fanouts entered later bring their own weight.
    package func setWeight(_ weight: Int, of project: ProjectNumber) {
        state.withLock { $0.projects[project]?.weight = weight }
    }

    /// When trying a refused message again makes sense: after as many of the project's fanouts will have ended as messages
    /// were refused, at the pace of the last ends.
    func retryMilliseconds(for project: ProjectNumber, at now: Instant) -> UInt32 {
        state.withLock { state in
            state.projects[project, default: Entry()].refusedCount += 1
            guard let entry = state.projects[project] else { return 0 }
            // If none has ended yet, it takes at least as long as the oldest has been going on.
            let since = entry.lastEnd ?? entry.running.values.map(\.progress.began).min() ?? now
            let quiet = Double(max(now.rawValue - since.rawValue, 0))
            let pace = max(entry.meanMilliseconds ?? 0, quiet)
            let delay = pace * Double(entry.refusedCount)
            return UInt32(min(max(delay, Self.retryMillisecondsMin), Self.retryMillisecondsMax))
        }
    }

    /// The refusal of a now-or-never message without room.
    func nowOrNeverRefusal(of project: ProjectNumber, at now: Instant) -> MartletError {
        MartletError(
            .resourceExhausted,
            """
            The project has as many messages to many instances in progress as it may, and this \
            cannot wait.
            """, field: "target",
            retryDelayMilliseconds: retryMilliseconds(for: project, at: now))
    }

    /// Bounds of the retry delay, in milliseconds.
    private static let retryMillisecondsMin = 10.0
    private static let retryMillisecondsMax = 60_000.0

    // MARK: The loops' side

    func end(_ progress: FanoutProgress, at now: Instant) {
        leave(progress, at: now)
        if progress.deliveredCount > 0 { tell?(.last, progress.began) }
    }

    /// - Parameter now: the instant of the end; nil: the fanout never began.
    private func leave(_ progress: FanoutProgress, at now: Instant?) {
        let makesRoom = state.withLock { state in
            guard let freed = state.projects[progress.project]?.leave(progress, at: now) else {
                return false
            }
            state.bytes -= freed
            invariant(state.bytes >= 0, "The fanouts in progress hold no less than no memory.")
            return state.deferredCount > 0
        }
        if makesRoom { roomWasMade.store(true, ordering: .releasing) }
    }

    /// Whether a fanout has ended since the last call while messages were deferred. Whoever gets true wakes the committer.
    package func takeRoom() -> Bool {
        guard roomWasMade.load(ordering: .acquiring) else { return false }
        return roomWasMade.exchange(false, ordering: .acquiringAndReleasing)
    }

    // MARK: Questions

    /// Stored fanouts in progress (QUO-5).
    package func inProgressCount(of project: ProjectNumber) -> Int {
        state.withLock { $0.projects[project]?.placesTaken ?? 0 }
    }

    /// A project's fanouts in progress (FAN-8).
    package struct Standing: Sendable {
        /// Project of the fanouts.
        package var project: ProjectNumber
        /// Fanouts that loops have begun, in that order. Numbers rise over all projects.
        package var running: [(number: UInt64, progress: FanoutProgress)]
        /// Messages that wait for room (FAN-1).
        package var deferredCount: Int
        /// Bytes of memory that its fanouts hold.
        package var bytes: Int
        /// The project's share, relative to other projects (FAN-2).
        package var weight: Int
        /// Its part of the capacity, from 0 to 1, among the projects with fanouts in progress.
        package var share: Double
    }

    /// Projects with fanouts in progress or deferred messages, in the order of project numbers.
    package var standings: [Standing] {
        state.withLock { state in
            let busy = state.projects.filter { !$0.value.isIdle }
            assert(busy.values.allSatisfy { $0.weight > 0 }, "A project with fanouts has a weight.")
            let weights = busy.values.reduce(0) { $0 + ($1.running.isEmpty ? 0 : $1.weight) }
            return busy.sorted { $0.key.rawValue < $1.key.rawValue }.map { project, entry in
                Standing(
                    project: project,
                    running: entry.running.values.sorted { $0.number < $1.number }
                        .filter(\.progress.isTold).map { ($0.number, $0.progress) },
                    deferredCount: entry.deferredCount, bytes: entry.bytes, weight: entry.weight,
                    share: entry.running.isEmpty ? 0 : Double(entry.weight) / Double(weights))
            }
        }
    }
}
