// SPDX-License-Identifier: Apache-2.0
//
// GW-11: the door to push services of others, as the committer and the senders know it. The committer tells the door of
// changed addresses and keys after their transaction. The door notes projects whose keys a push service has refused: a
// sender to an instance behind such a key is refused until the project has another key. The note lives in memory, because
// a broker that starts again tries the keys again. Without a door nothing is told, and a send reads one number. Rests on
// the engine's outcomes.

package import MartletBase
package import MartletEngine
import MartletRows
import Synchronization

/// What the broker tells its door to push services, and the other way round.
package final class BridgeBook: Sendable {
    private struct State {
        var listener: (@Sendable ([BridgeNews]) -> Void)?
        /// Why the keys of projects are refused, by service.
        var refusedKeys: [ProjectNumber: [BridgeKind: String]] = [:]
    }

    private let state = Mutex(State())
    private let refusedCount = Atomic(0)

    /// Begins to tell of changes.
    /// - Parameter listener: called on the committer's thread, after each transaction with changes.
    package func listen(_ listener: @escaping @Sendable ([BridgeNews]) -> Void) {
        state.withLock { $0.listener = listener }
    }

    /// Ends the telling. The keys of all projects count as good.
    package func close() {
        state.withLock { $0 = State() }
        refusedCount.store(0, ordering: .releasing)
    }

    /// Tells the outcomes of a transaction.
    func tell(_ news: [BridgeNews]) {
        guard !news.isEmpty, let listener = state.withLock({ $0.listener }) else { return }
        listener(news)
    }

    var hasListener: Bool { state.withLock { $0.listener != nil } }

    // MARK: Refused keys

    /// Notes that a push service refuses a project's keys, or takes them again.
    /// - Parameter reason: the service's word; nil: the keys are good.
    /// - Returns: whether that is news.
    @discardableResult
    package func note(
        _ reason: String?, of kind: BridgeKind, in project: ProjectNumber
    ) -> Bool {
        state.withLock { state in
            let before = state.refusedKeys[project]?[kind]
            guard before != reason else { return false }
            state.refusedKeys[project, default: [:]][kind] = reason
            if state.refusedKeys[project]?.isEmpty ?? false { state.refusedKeys[project] = nil }
            refusedCount.store(state.refusedKeys.count, ordering: .releasing)
            return true
        }
    }

    /// Whether the keys of any project are refused.
    var hasRefusedKeys: Bool { refusedCount.load(ordering: .acquiring) > 0 }

    /// Why a service refuses the keys of a project; nil: the keys are good, as far as known.
    package func refusal(of kind: BridgeKind, in project: ProjectNumber) -> String? {
        guard hasRefusedKeys else { return nil }
        return state.withLock { $0.refusedKeys[project]?[kind] }
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
