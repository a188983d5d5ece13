// SPDX-License-Identifier: Apache-2.0
//
// Decides how new a node's store must be before it answers a question (OPS-7). A question waits until the store has everything
// that any node had answered when the question came. Rests on Freshness and BrokerNode.

package import MartletBase
import MartletThreads

extension Committer {
    /// When the question of a caller came.
    private enum Asked {
        /// The question has to wait, from this instant on. It is counted as waiting until its caller calls `endWait`.
        case at(UInt64)
        /// No need to wait: the store is new enough, or the question is refused.
        case settled(MartletError?)
    }

    private func asked(_ node: any BrokerNode) -> Asked {
        let asked: UInt64
        switch Freshness.current {
        case .any: return .settled(nil)
        case .refused(let error, let end) where SystemClock.monotonicNanoseconds() < end:
            return .settled(error)
        // A task may outlive the call, but the refusal is only for the call.
        case .refused: asked = SystemClock.monotonicNanoseconds()
        case .since(let time): asked = time
        case nil: asked = SystemClock.monotonicNanoseconds()
        }
        guard !node.isCurrent(at: asked) else { return .settled(nil) }
        // The log has been away for a while, so waiting would be for nothing.
        if let trouble = node.trouble { return .settled(.noActiveNode(trouble)) }
        node.beginWait(since: asked)
        wake()
        return .at(asked)
    }

    private static var late: MartletError { .noActiveNode("the log does not answer") }

    /// Blocks this thread until the store has everything that any node of the cluster has answered so far (OPS-7). A lone
    /// broker doesn't wait, and the active node only while a row is under way.
    /// - Returns: `UNAVAILABLE` if the log doesn't answer in time.
    package func waitForNewer() -> MartletError? {
        guard let node else { return nil }
        switch asked(node) {
        case .settled(let refusal): return refusal
        case .at(let asked):
            defer { node.endWait() }
            let end = asked + node.questionNanoseconds
            while !node.isCurrent(at: asked) {
                guard SystemClock.monotonicNanoseconds() < end else { return Self.late }
                SystemClock.pause(microseconds: 500)
            }
            return nil
        }
    }

    /// Like `waitForNewer`, without blocking a thread (OPS-7).
    package func newer() async -> MartletError? {
        guard let node else { return nil }
        switch asked(node) {
        case .settled(let refusal): return refusal
        case .at(let asked):
            defer { node.endWait() }
            let isCurrent = await node.current(
                at: asked, until: asked + node.questionNanoseconds)
            return isCurrent ? nil : Self.late
        }
    }
}
