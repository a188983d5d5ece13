// SPDX-License-Identifier: Apache-2.0
//
// The fanouts in progress of all projects, and whether one more may begin (FAN-1, QUO-5). The engine
// enters them, loops say when they have ended; both once for a fanout, so one lock is enough. Of
// a project without fanouts it only knows how fast the last ones ended. Rests on FanoutProgress.

public import MartletBase
import MartletBits
import Synchronization

/// What is in progress. One per broker.
public final class FanoutBook: Sendable {
    private struct Held {
        var count: Int
        var bytes: Int
    }

    private struct Running {
        /// Rises with each.
        var number: UInt64
        var progress: FanoutProgress
    }

    private struct Entry {
        var running: [ObjectIdentifier: Running] = [:]
        /// Fanouts in progress that take a place of the project (FAN-1).
        var placesTaken = 0
        var bytes = 0
        /// Sets of recipients that fanouts in progress have, each counted once.
        var sets: [ObjectIdentifier: Held] = [:]
        var weight = 1
        var deferredCount = 0
        var lastEnd: Instant?
        /// Between two ends; the last ones count most.
        var meanMilliseconds: Double?
        /// Refusals since room was last made: each is told to come back behind those before it.
        var refusedCount = 0

        var isIdle: Bool { running.isEmpty && deferredCount == 0 }

        private static let endsInMean = 8.0

        /// - Returns: bytes that are held from now on and were not before.
        mutating func enter(_ one: Running) -> Int {
            let before = bytes
            running[ObjectIdentifier(one.progress)] = one
            if one.progress.takesPlace { placesTaken += 1 }
            weight = one.progress.weight
            bytes += one.progress.bodyBytes
            for set in one.progress.recipients {
                var held = sets[ObjectIdentifier(set)] ?? Held(count: 0, bytes: set.bytes.count)
                if held.count == 0 { bytes += held.bytes }
                held.count += 1
                sets[ObjectIdentifier(set)] = held
            }
            return bytes - before
        }

        /// - Parameter now: when it ended; nil: it never began.
        /// - Returns: bytes that are held no more; nil if it was not here.
        mutating func leave(_ progress: FanoutProgress, at now: Instant?) -> Int? {
            guard running.removeValue(forKey: ObjectIdentifier(progress)) != nil else { return nil }
            if progress.takesPlace { placesTaken -= 1 }
            let before = bytes
            bytes -= progress.bodyBytes
            for set in progress.recipients {
                guard var held = sets[ObjectIdentifier(set)] else { continue }
                held.count -= 1
                if held.count == 0 { bytes -= held.bytes }
                sets[ObjectIdentifier(set)] = held.count == 0 ? nil : held
            }
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
        var projects: [ProjectNumber: Entry] = [:]
        var bytes = 0
        var lastNumber: UInt64 = 0
        /// Over all projects.
        var deferredCount = 0
    }

    private let limits: MailboxLimits
    private let state = Mutex(State())
    private let roomWasMade = Atomic(false)

    public init(limits: MailboxLimits = MailboxLimits()) { self.limits = limits }

    // MARK: The engine's side

    /// Whether a project may begin one more. One that has none in progress always may, so that each
    /// goes on whatever the others hold.
    func hasRoom(for project: ProjectNumber) -> Bool {
        state.withLock { state in
            guard let entry = state.projects[project], !entry.running.isEmpty else { return true }
            return isBelow(entry.placesTaken, limits.fanoutsInProgressMax)
                && hasMemory(entry, state)
        }
    }

    /// TTL-2: whether a project may begin one more that is now or never. These take no place from
    /// those that are stored; as many may be in progress beside them, so that memory stays bounded.
    func hasLiveRoom(for project: ProjectNumber) -> Bool {
        state.withLock { state in
            guard let entry = state.projects[project], !entry.running.isEmpty else { return true }
            let liveCount = entry.running.count - entry.placesTaken
            return isBelow(liveCount, limits.fanoutsInProgressMax) && hasMemory(entry, state)
        }
    }

    private func hasMemory(_ entry: Entry, _ state: State) -> Bool {
        isBelow(entry.bytes, limits.fanoutMegabytesPerProjectMax << 20)
            && isBelow(state.bytes, limits.fanoutMegabytesMax << 20)
    }

    private func isBelow(_ value: Int, _ limit: Int) -> Bool { limit == 0 || value < limit }

    func enter(_ progress: FanoutProgress) {
        state.withLock { state in
            state.lastNumber += 1
            let running = Running(number: state.lastNumber, progress: progress)
            state.bytes += state.projects[progress.project, default: Entry()].enter(running)
        }
    }

    /// Its transaction failed.
    func takeBack(_ progress: FanoutProgress) { leave(progress, at: nil) }

    /// Messages that wait for room, by project.
    func setDeferred(_ counts: [ProjectNumber: Int]) {
        state.withLock { state in
            state.deferredCount = 0
            for project in state.projects.keys where counts[project] == nil {
                state.projects[project]?.deferredCount = 0
            }
            for (project, count) in counts {
                state.projects[project, default: Entry()].deferredCount = count
                state.deferredCount += count
            }
        }
    }

    /// What is entered later has its own.
    public func setWeight(_ weight: Int, of project: ProjectNumber) {
        state.withLock { $0.projects[project]?.weight = weight }
    }

    /// When it makes sense to try again: when as many fanouts of the project have ended as there are
    /// others that were told to come back, at the pace at which the last ones ended.
    func retryMilliseconds(for project: ProjectNumber, at now: Instant) -> UInt32 {
        state.withLock { state in
            state.projects[project, default: Entry()].refusedCount += 1
            guard let entry = state.projects[project] else { return 0 }
            // None has ended so far: the oldest one's age says how long one takes at least.
            let since = entry.lastEnd ?? entry.running.values.map(\.progress.began).min() ?? now
            let quiet = Double(max(now.rawValue - since.rawValue, 0))
            let pace = max(entry.meanMilliseconds ?? 0, quiet)
            let delay = pace * Double(entry.refusedCount)
            return UInt32(min(max(delay, Self.retryMillisecondsMin), Self.retryMillisecondsMax))
        }
    }

    private static let retryMillisecondsMin = 10.0
    private static let retryMillisecondsMax = 60_000.0

    // MARK: The loops' side

    func end(_ progress: FanoutProgress, at now: Instant) { leave(progress, at: now) }

    /// - Parameter now: nil: it never began.
    private func leave(_ progress: FanoutProgress, at now: Instant?) {
        let makesRoom = state.withLock { state in
            guard let freed = state.projects[progress.project]?.leave(progress, at: now) else {
                return false
            }
            state.bytes -= freed
            return state.deferredCount > 0
        }
        if makesRoom { roomWasMade.store(true, ordering: .releasing) }
    }

    /// Whether there is room now for a message that waits for it, and nobody was told so. Whoever gets
    /// true tells the committer.
    public func takeRoom() -> Bool {
        guard roomWasMade.load(ordering: .acquiring) else { return false }
        return roomWasMade.exchange(false, ordering: .acquiringAndReleasing)
    }

    // MARK: Questions

    /// QUO-5.
    func inProgressCount(of project: ProjectNumber) -> Int {
        state.withLock { $0.projects[project]?.placesTaken ?? 0 }
    }

    /// What a project has in progress (FAN-8).
    public struct Standing: Sendable {
        public var project: ProjectNumber
        /// In the order in which they began, by numbers that rise over all projects.
        public var running: [(number: UInt64, progress: FanoutProgress)]
        public var deferredCount: Int
        /// Bytes held for them.
        public var bytes: Int
        public var weight: Int
        /// 0 to 1: the part of all capacity that the project has.
        public var share: Double
    }

    /// Those that have something in progress or deferred, in the order of their numbers.
    public var standings: [Standing] {
        state.withLock { state in
            let busy = state.projects.filter { !$0.value.isIdle }
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
