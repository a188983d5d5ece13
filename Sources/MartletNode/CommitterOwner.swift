// SPDX-License-Identifier: Apache-2.0
//
// Who runs the committer of a node on a thread of its own: a simulator. Rests on the engine's commands.

package import MartletBase
package import MartletEngine
import MartletThreads

/// The owner of a committer's thread.
package struct CommitterOwner: Sendable {
    /// Wakes the thread.
    package var wake: @Sendable () -> Void
    /// Called with the time, the outcomes of due work, the commands and their outcomes, before the row of the
    /// transaction goes to the log.
    package var willLog: @Sendable (Instant, [Outcome], [(Command, Outcome)]) -> Void
    /// Called after the commit of the transaction, before anybody is told.
    package var committed: @Sendable () -> Void

    package init(
        wake: @escaping @Sendable () -> Void,
        willLog: @escaping @Sendable (Instant, [Outcome], [(Command, Outcome)]) -> Void,
        committed: @escaping @Sendable () -> Void
    ) {
        self.wake = wake
        self.willLog = willLog
        self.committed = committed
    }

    func logs(_ now: Instant, _ own: [Outcome], _ batch: [Request], _ outcomes: [Outcome]) {
        willLog(now, own, zip(batch, outcomes).map { ($0.command, $1) })
    }
}
