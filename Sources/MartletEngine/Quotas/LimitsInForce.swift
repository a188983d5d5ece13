// SPDX-License-Identifier: Apache-2.0
//
// A running broker's limits, which an operator may change while it serves (OPS-11). Each thread has its own copy, and compares
// one number to learn of a change. The mailbox rules never change while a broker runs, because loops and engine must come
// to the same decisions. Rests on MailboxLimits.

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
