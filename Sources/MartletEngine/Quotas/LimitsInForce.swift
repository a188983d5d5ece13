// SPDX-License-Identifier: Apache-2.0
//
// The limits of a running broker, which an operator may change while the broker serves (OPS-11). Each thread has a copy
// of its own, and compares one number to learn of a change. The rules of mailboxes never change while a broker runs,
// because the sessions of a loop and the engine must decide alike. Rests on MailboxLimits.

package import MartletBase
import Synchronization

/// The limits in force of one broker.
package final class LimitsInForce: Sendable {
    private let limits: Mutex<MailboxLimits>
    private let changes = Atomic<UInt64>(0)

    package init(_ limits: MailboxLimits) { self.limits = Mutex(limits) }

    /// A copy of the limits.
    package var value: MailboxLimits { limits.withLock { $0 } }
    /// Number of changes so far.
    package var changeCount: UInt64 { changes.load(ordering: .acquiring) }

    /// Changes the limits, except for the rules of mailboxes.
    /// - Returns: the limits in force from now on.
    package func change(to new: MailboxLimits) -> MailboxLimits {
        limits.withLock { limits in
            var new = new
            for rule in MailboxLimits.mailboxRules { new[keyPath: rule] = limits[keyPath: rule] }
            limits = new
            changes.add(1, ordering: .releasing)
            return new
        }
    }
}
