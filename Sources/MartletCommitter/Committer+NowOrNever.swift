// SPDX-License-Identifier: Apache-2.0
//
// Sends now-or-never messages for callers in the broker's own process (TTL-2). The calling thread sends the message, one
// caller at a time, and tells the loops at once. Rests on NowOrNeverSender.

package import MartletBase
package import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import Synchronization

extension Committer {
    /// Sends a now-or-never message.
    /// - Parameter message: accepted by `NowOrNeverSender.takes`.
    /// - Throws: `MartletError` for a fault of the message, and if the store cannot be read.
    package func sendNowOrNever(
        _ message: SendCommand, in project: ProjectNumber, now: Instant
    ) throws(MartletError) -> Outcome {
        let outcome: Outcome
        do {
            outcome = try nowOrNeverSender.withLock { sender in
                try store.read { (transaction) throws(StorageError) in
                    try sender.send(message, in: project, now: now, transaction)
                }
            }
        } catch {
            throw .unreadable(error)
        }
        switch outcome {
        case .accepted(_, let fanouts):
            acceptedCount.add(1, ordering: .relaxed)
            begin(nowOrNever: fanouts, now)
            watches.sent(message, in: project, outcome)
        case .refused(let error):
            watches.refused(error, in: project)
            metrics.refused(error, in: project)
            throw error
        default: break
        }
        return outcome
    }

    private func begin(nowOrNever fanouts: [Fanout], _ now: Instant) {
        guard let first = fanouts.first else { return }
        begin(first.progress, loops: allLoops.count, at: now)
        tellNodes(nowOrNever: fanouts) { tellLoops(nowOrNever: fanouts, at: now) }
    }

    /// Whether a loop or caller sends now-or-never messages itself.
    package var sendsNowOrNever: Bool { node?.sendsNowOrNever ?? true }

    /// Hands fanouts to the other nodes, and then to our own loops.
    /// - Parameter loops: tells the loops.
    package func tellNodes(nowOrNever fanouts: [Fanout], loops: () -> Void) {
        if let node { node.tell(nowOrNever: fanouts, loops: loops) } else { loops() }
    }

    /// Hands fanouts to the loops of this process. A loop with too many waiting messages is left out.
    package func tellLoops(nowOrNever fanouts: [Fanout], at now: Instant) {
        for loop in allLoops {
            if loop.inbox.count < NowOrNeverSending.waitingMax,
                case .taken(let mustWake) = loop.inbox.push(fanouts.map { .news(.fanout($0)) })
            {
                if mustWake { loop.waker.wake() }
                continue
            }
            for fanout in fanouts { fanout.progress?.endPart(at: now) }
        }
    }
}

extension MartletError {
    package static func unreadable(_ error: any Error) -> MartletError {
        MartletError(
            .unavailable, "The store cannot be read now (\(error)).", retryDelayMilliseconds: 1000)
    }
}
