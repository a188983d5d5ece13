// SPDX-License-Identifier: Apache-2.0
//
// GW-11: the door to foreign push services, as the committer and the senders know it. The committer tells the door of
// changed addresses and keys after their transaction. The door notes projects whose keys a push service refuses. Without a
// door nothing is told. Rests on the engine's outcomes.

package import MartletBase
package import MartletEngine
import MartletRows
import Synchronization

/// The news between the broker and its door to push services.
package final class BridgeBook: Sendable {
    private let listener = Mutex<(@Sendable ([BridgeNews]) -> Void)?>(nil)
    /// Projects whose keys a push service refuses.
    let faults = BridgeFaults()

    /// Begins to tell of changes.
    /// - Parameter tell: called on the committer's thread, after each transaction with changes.
    package func listen(_ tell: @escaping @Sendable ([BridgeNews]) -> Void) {
        listener.withLock { $0 = tell }
    }

    /// Ends the telling. The keys of all projects count as good.
    package func close() {
        listener.withLock { $0 = nil }
        faults.clear()
    }

    /// Tells the outcomes of a transaction.
    func tell(_ news: [BridgeNews]) {
        guard !news.isEmpty, let tell = listener.withLock({ $0 }) else { return }
        tell(news)
    }

    var hasListener: Bool { listener.withLock { $0 != nil } }

    /// Notes that a push service refuses a project's keys, or takes them again.
    /// - Parameter reason: the service's word; nil: the keys are good.
    /// - Returns: whether that is news.
    @discardableResult
    package func note(
        _ reason: String?, of kind: BridgeKind, in project: ProjectNumber
    ) -> Bool {
        faults.note(reason, of: kind, in: project)
    }
}

extension Outcome {
    /// What the door to push services has to know of the outcome.
    func bridgeNews(of command: Command) -> BridgeNews? {
        switch self {
        case .bridgeChanged(let news): news
        case .unregistered(let project, let ordinal, _): .unregistered(project, ordinal)
        case .registered(let instance, _):
            if case .register(let new) = command, new.bridging != nil {
                .instance(instance.project, instance.ordinal)
            } else {
                nil
            }
        default: nil
        }
    }
}
