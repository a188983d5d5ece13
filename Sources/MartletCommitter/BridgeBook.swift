// SPDX-License-Identifier: Apache-2.0
//
// What the committer and the senders know about the door to foreign push services (GW-11). The committer tells the door of
// changed addresses and keys after their transaction. The door notes projects whose keys a push service refuses. Without a
// door nothing is told. Rests on the engine's outcomes.

package import MartletBase
package import MartletEngine
import MartletRows
import Synchronization

/// The news between the broker and its door to push services.
package final class BridgeBook: Sendable {
    /// Whether this process hands over, and the listener that learns of a change.
    private struct Role {
        var isHandingOver = true
        var changed: (@Sendable (Bool) -> Void)?
    }

    private let listener = Mutex<(@Sendable ([BridgeNews]) -> Void)?>(nil)
    private let role = Mutex(Role())
    /// Projects whose keys a push service refuses.
    let faults = BridgeFaults()

    // MARK: The node that hands over

    /// OPS-7: of several nodes one hands over, the active one. A broker alone always hands over.
    package func handOver(_ isHandingOver: Bool) {
        role.withLock { role in
            guard role.isHandingOver != isHandingOver else { return }
            role.isHandingOver = isHandingOver
            role.changed?(isHandingOver)
        }
    }

    /// Tells whether this process hands over, now and after each change.
    /// - Parameter changed: called on any thread, one call after another. It must not hold up the thread, or call the
    ///   book. nil ends the telling.
    package func watchRole(_ changed: (@Sendable (Bool) -> Void)?) {
        role.withLock { role in
            role.changed = changed
            changed?(role.isHandingOver)
        }
    }

    /// OPS-7: whether this process has a door, and another node hands over.
    package var isForAnotherDoor: Bool {
        role.withLock { $0.changed != nil && !$0.isHandingOver }
    }

    // MARK: News

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
