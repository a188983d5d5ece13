// SPDX-License-Identifier: Apache-2.0
//
// Remembers the projects whose keys a push service refuses (GW-11). The door to push services notes them, and whoever sends to
// an instance that can be reached no other way is refused. Only in memory: a broker that restarts tries the keys again. As
// long as there are no notes, a send to a token reads a single number. Rests on BridgeKind.

package import MartletBase
import MartletRows
import Synchronization

/// The refused keys of projects, shared by threads.
package final class BridgeFaults: Sendable {
    private let reasons = Mutex<[ProjectNumber: [BridgeKind: String]]>([:])
    private let count = Atomic(0)

    package init() {}

    /// A push service refuses a project's keys, or accepts them again.
    /// - Parameter reason: what the service says; nil if the keys are good.
    /// - Returns: whether that is news.
    package func note(
        _ reason: String?, of kind: BridgeKind, in project: ProjectNumber
    ) -> Bool {
        reasons.withLock { reasons in
            var own = reasons[project] ?? [:]
            guard own[kind] != reason else { return false }
            own[kind] = reason
            reasons[project] = own.isEmpty ? nil : own
            count.store(reasons.count, ordering: .releasing)
            return true
        }
    }

    /// Forgets all notes.
    package func clear() {
        reasons.withLock { reasons in
            reasons = [:]
            count.store(0, ordering: .releasing)
        }
    }

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    /// Why a service refuses a project's keys; nil if they are good as far as we know.
    package func reason(of kind: BridgeKind, in project: ProjectNumber) -> String? {
        isEmpty ? nil : reasons.withLock { $0[project]?[kind] }
    }
}
