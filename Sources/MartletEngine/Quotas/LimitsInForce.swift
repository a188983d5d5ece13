// SPDX-License-Identifier: Apache-2.0
//
// A running broker's limits, which an operator may change while it serves (OPS-11). Each thread has its own copy, and compares
// one number to learn of a change. The mailbox rules never change while a broker runs, because loops and engine must come
// to the same decisions. Rests on BrokerLimits.

package import MartletBase
import Synchronization

/// The limits in force of one broker.
package final class LimitsInForce: Sendable {
    private let limits: Mutex<BrokerLimits>
    private let changes = Atomic<UInt64>(0)

    package init(_ limits: BrokerLimits) { self.limits = Mutex(limits) }

    /// A copy of the limits.
    package var value: BrokerLimits { limits.withLock { $0 } }
    /// Number of changes so far.
    package var changeCount: UInt64 { changes.load(ordering: .acquiring) }

    /// Changes the limits, except for the rules of mailboxes.
    /// - Returns: the limits in force from now on.
    package func change(to new: BrokerLimits) -> BrokerLimits {
        limits.withLock { limits in
            var new = new
            for rule in BrokerLimits.mailboxRules { new[keyPath: rule] = limits[keyPath: rule] }
            limits = new
            changes.add(1, ordering: .releasing)
            return new
        }
    }
}
