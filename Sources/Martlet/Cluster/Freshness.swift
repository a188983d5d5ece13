// SPDX-License-Identifier: Apache-2.0
//
// Decides how recent a node's store must be before it answers a question (OPS-7). A question waits until the store has
// everything that any node had answered when the question came. Callers that must not hold up their thread wait first, by
// `Broker.newest`, and ask then: their questions find a store that is new enough, and return at once. Rests on ClusterState.

import Glibc
package import MartletBase
import MartletCluster
import MartletEngine
import MartletRows
import MartletStore
import Synchronization

/// How new the store must be for the questions of a call.
package enum Freshness: Sendable {
    /// The store is good as it is: the answer is good as of any moment, or a refusal is looked at again.
    case any
    /// The store has everything that any node had answered at a time, in nanoseconds of the monotonic clock.
    case since(UInt64)
    /// The store is behind, and the log does not answer. Each question is refused until the given time.
    case refused(MartletError, until: UInt64)

    /// The freshness of the calls of a task, or of the synchronous calls within `ask`; nil: each question waits.
    @TaskLocal static var current: Freshness?

    /// Asks questions with this freshness.
    package func ask<Answer, Failure: Error>(
        _ questions: () throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let result = Self.$current.withValue(self) { () -> Result<Answer, Failure> in
            do throws(Failure) { return .success(try questions()) } catch { return .failure(error) }
        }
        return try result.get()
    }

    /// Carries out the calls of a task with this freshness.
    package func carryOut<Answer: Sendable>(
        _ calls: () async throws -> Answer
    ) async throws -> Answer {
        try await Self.$current.withValue(self, operation: calls)
    }
}

extension ClusterState {
    /// A caller that waits for a newer store.
    struct Waiter: Sendable {
        /// The caller needs the state of the store at this time, and waits until the other.
        let asked: UInt64
        let end: UInt64
        let tell: @Sendable (_ isCurrent: Bool) -> Void
    }

    /// Waits until the store has everything that any node had answered at a time.
    /// - Returns: false if the store is not as new at the end of the wait, or if the broker ends.
    func current(at asked: UInt64, until end: UInt64) async -> Bool {
        await withCheckedContinuation { continuation in
            let isTaken = waiters.withLock { waiters in
                waiters?.append(
                    Waiter(asked: asked, end: end) { continuation.resume(returning: $0) })
                return waiters != nil
            }
            // The store may have become new enough before the waiter was there.
            if isTaken { settleWaiters() } else { continuation.resume(returning: false) }
        }
    }

    /// Tells the waiting callers that need not wait any more.
    func settleWaiters() {
        let now = SystemClock.monotonicNanoseconds()
        let settled = waiters.withLock { waiters -> [(Waiter, Bool)] in
            guard let all = waiters, !all.isEmpty else { return [] }
            var settled: [(Waiter, Bool)] = []
            var left: [Waiter] = []
            for waiter in all {
                let isCurrent = isCurrent(at: waiter.asked)
                if isCurrent || now >= waiter.end {
                    settled.append((waiter, isCurrent))
                } else {
                    left.append(waiter)
                }
            }
            waiters = left
            return settled
        }
        for (waiter, isCurrent) in settled { waiter.tell(isCurrent) }
    }

    /// Ends all waits, because the broker ends.
    func endWaits() {
        let left = waiters.withLock { waiters in
            defer { waiters = nil }
            return waiters ?? []
        }
        for waiter in left { waiter.tell(false) }
    }
}

extension Committer {
    /// When the question of a caller came.
    private enum Asked {
        case at(UInt64)
        /// The question need not wait: the store is new enough, or the question is refused.
        case settled(MartletError?)
    }

    /// - Parameter cluster: the state of the node.
    private func asked(_ cluster: ClusterState) -> Asked {
        let asked: UInt64
        switch Freshness.current {
        case .any: return .settled(nil)
        case .refused(let error, let end) where SystemClock.monotonicNanoseconds() < end:
            return .settled(error)
        // A task may go on after the end of the call. The refusal holds for the call alone.
        case .refused: asked = SystemClock.monotonicNanoseconds()
        case .since(let time): asked = time
        case nil: asked = SystemClock.monotonicNanoseconds()
        }
        guard !cluster.isCurrent(at: asked) else { return .settled(nil) }
        // The log has been away for a while, so a wait would hold up the caller for nothing.
        if let trouble = clusterTrouble { return .settled(.noActiveNode(trouble)) }
        return .at(asked)
    }

    private static var late: MartletError { .noActiveNode("the log does not answer") }

    /// OPS-7: waits on this thread until the store has everything that any node of the cluster has answered until now.
    /// A broker alone does not wait, and the active node waits only while a row is under way.
    /// - Returns: `UNAVAILABLE` if the log does not answer in time.
    func waitForNewer() -> MartletError? {
        guard let cluster else { return nil }
        switch asked(cluster) {
        case .settled(let refusal): return refusal
        case .at(let asked):
            cluster.beginWait(since: asked)
            defer { cluster.waiterCount.subtract(1, ordering: .relaxed) }
            wake()
            let end = asked + ClusterLimits.questionNanoseconds
            while !cluster.isCurrent(at: asked) {
                guard SystemClock.monotonicNanoseconds() < end else { return Self.late }
                usleep(500)
            }
            return nil
        }
    }

    /// OPS-7: as `waitForNewer`, and holds up no thread.
    func newer() async -> MartletError? {
        guard let cluster else { return nil }
        switch asked(cluster) {
        case .settled(let refusal): return refusal
        case .at(let asked):
            cluster.beginWait(since: asked)
            defer { cluster.waiterCount.subtract(1, ordering: .relaxed) }
            wake()
            let isCurrent = await cluster.current(
                at: asked, until: asked + ClusterLimits.questionNanoseconds)
            return isCurrent ? nil : Self.late
        }
    }
}

extension Broker {
    /// OPS-7: whether a question asked now need not wait.
    package var isCurrent: Bool {
        committer.cluster?.isCurrent(at: SystemClock.monotonicNanoseconds()) ?? true
    }

    /// OPS-7: waits, without holding up a thread, until the store has everything that any node of the cluster has
    /// answered until now. Questions with the returned freshness do not wait.
    package func newest() async -> Freshness {
        let asked = SystemClock.monotonicNanoseconds()
        if let refusal = await committer.newer() {
            let now = SystemClock.monotonicNanoseconds()
            return .refused(refusal, until: now + ClusterLimits.questionNanoseconds)
        }
        return .since(asked)
    }

    /// Answers a question from a snapshot. The wait for newer rows holds up no thread.
    /// - Throws: the error of the question; `UNAVAILABLE` if the store cannot be read, or is behind the cluster's log.
    func ask<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) async throws(MartletError) -> Answer {
        if committer.cluster != nil, let refusal = await committer.newer() { throw refusal }
        return try read(question)
    }

    /// Answers a question from a snapshot. In a cluster the wait for newer rows holds up the thread, unless the caller has
    /// waited before (`Freshness`).
    /// - Throws: the error of the question; `UNAVAILABLE` if the store cannot be read, or is behind the cluster's log.
    func ask<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) throws(MartletError) -> Answer {
        if let refusal = committer.waitForNewer() { throw refusal }
        return try read(question)
    }

    /// Answers a question from a snapshot that may be behind the log of the cluster. For settings that the next question
    /// reads anew, and for callers that know the store to have what they ask for.
    /// - Throws: the error of the question; `UNAVAILABLE` if the store cannot be read.
    func read<Answer>(
        _ question: (borrowing Transaction) throws -> Answer
    ) throws(MartletError) -> Answer {
        do {
            return try store.read { (transaction) throws in try question(transaction) }
        } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }

    // MARK: Numbers of projects

    /// The number of a project. A known project keeps its number, so only an unknown ID waits for newer rows.
    /// - Throws: `NOT_FOUND` for the project.
    func number(of id: String) throws(MartletError) -> ProjectNumber {
        if committer.cluster != nil, let known = try knownNumber(of: id) { return known }
        return try ask { try Authentication.project(id: id, in: $0) }.number
    }

    /// The number of a project, as above. The wait holds up no thread.
    func number(of id: String) async throws(MartletError) -> ProjectNumber {
        if committer.cluster != nil {
            if let known = try knownNumber(of: id) { return known }
            if let refusal = await committer.newer() { throw refusal }
        }
        return try read { try Authentication.project(id: id, in: $0) }.number
    }

    private func knownNumber(of id: String) throws(MartletError) -> ProjectNumber? {
        do throws(MartletError) {
            return try read { try Authentication.project(id: id, in: $0) }.number
        } catch {
            guard error.word == .notFound else { throw error }
            return nil
        }
    }
}
