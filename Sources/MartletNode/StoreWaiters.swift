// SPDX-License-Identifier: Apache-2.0
//
// Callers that wait for a newer store without blocking a thread (OPS-7). Rests on ClusterState.

import MartletBase
import MartletThreads
import Synchronization

extension ClusterState {
    /// A caller that waits for a newer store.
    struct Waiter: Sendable {
        /// It needs the store as of this time, and waits until the other.
        let asked: UInt64
        let end: UInt64
        let tell: @Sendable (_ isCurrent: Bool) -> Void
    }

    /// Waits until the store has everything that any node had answered at this time.
    /// - Returns: false if it hasn't at the end of the wait, or if the broker ends.
    func current(at asked: UInt64, until end: UInt64) async -> Bool {
        await withCheckedContinuation { continuation in
            let isTaken = waiters.withLock { waiters in
                waiters?.append(
                    Waiter(asked: asked, end: end) { continuation.resume(returning: $0) })
                return waiters != nil
            }
            // The store may have become new enough before we were waiting.
            if isTaken { settleWaiters() } else { continuation.resume(returning: false) }
        }
    }

    /// Wakes callers that need wait no longer.
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

    /// The broker ends: ends all waits.
    func endWaits() {
        let left = waiters.withLock { waiters in
            defer { waiters = nil }
            return waiters ?? []
        }
        for waiter in left { waiter.tell(false) }
    }
}
