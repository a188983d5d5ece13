// SPDX-License-Identifier: Apache-2.0
//
// Writes entries to the log of administrators' actions from a thread of its own, for a process that serves: a disk that hangs,
// or another process that holds the lock, must not hold event loops. Entries wait in a bounded queue, and a caller waits a
// bounded time for its own. Rests on AuditLog and SystemThread.

package import Martlet
import MartletThreads
import Synchronization

/// The queue of a log of actions.
package final class AuditQueue: Sendable {
    private typealias Waiter = CheckedContinuation<MartletError?, Never>

    private struct State {
        var entries: [(number: UInt64, entry: AuditEntry)] = []
        /// Callers that still wait, by the numbers of their entries.
        var waiters: [UInt64: Waiter] = [:]
        var last: UInt64 = 0
        /// Entries in the queue and in the hands of the thread.
        var count = 0
        /// Whether the thread lives. It ends when the queue is empty: most processes write an entry every few minutes.
        var isRunning = false
    }

    private let log: AuditLog
    private let entriesMax: Int
    private let wait: Duration
    private let state = Mutex(State())

    /// - Parameters:
    ///   - entriesMax: entries that wait for the disk.
    ///   - wait: time for which a caller waits for its entry.
    package init(
        _ log: AuditLog, entriesMax: Int = Limits.auditWaitingMax,
        wait: Duration = .milliseconds(Limits.auditWaitMilliseconds)
    ) {
        (self.log, self.entriesMax, self.wait) = (log, entriesMax, wait)
    }

    /// Appends an entry, and returns when the entry is on disk.
    /// - Throws: `UNAVAILABLE` for a file that cannot be written; for a full queue; and after the wait, in which case the
    ///   entry is still written when the disk goes on.
    package func append(_ entry: AuditEntry) async throws(MartletError) {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        let late = Task { [wait] in
            try await Task.sleep(for: wait)
            answer(number, MartletError(.unavailable, "The disk has not taken the entry yet."))
        }
        let error = await withCheckedContinuation { put(entry, number, $0) }
        late.cancel()
        if let error { throw error }
    }

    private func put(_ entry: AuditEntry, _ number: UInt64, _ waiter: Waiter) {
        let (isTaken, mustStart) = state.withLock { state in
            guard state.count < entriesMax else { return (false, false) }
            state.count += 1
            state.entries.append((number, entry))
            state.waiters[number] = waiter
            defer { state.isRunning = true }
            return (true, !state.isRunning)
        }
        guard isTaken else {
            return waiter.resume(
                returning: MartletError(
                    .unavailable, "\(entriesMax) entries wait for the disk; this one is dropped."))
        }
        guard mustStart else { return }
        do throws(MartletError) {
            try SystemThread(name: "martlet-audit") { self.run() }.detach()
        } catch {
            // The next entry tries again, and takes those of now with it.
            state.withLock { $0.isRunning = false }
            answer(number, error)
        }
    }

    private func answer(_ number: UInt64, _ error: MartletError?) {
        state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: error)
    }

    // MARK: The thread

    private func run() {
        while let entries = next() {
            for (number, entry) in entries {
                var failure: MartletError?
                do throws(MartletError) { try log.append(entry) } catch { failure = error }
                state.withLock { $0.count -= 1 }
                answer(number, failure)
            }
        }
    }

    private func next() -> [(number: UInt64, entry: AuditEntry)]? {
        state.withLock { state in
            guard !state.entries.isEmpty else {
                state.isRunning = false
                return nil
            }
            defer { state.entries = [] }
            return state.entries
        }
    }
}
