// SPDX-License-Identifier: Apache-2.0
//
// The quotas of a project that the thread with all changes counts; of several nodes, the active one's. Pure.

/// A quota of changes.
package enum CountedQuota: UInt8, Sendable, Hashable, CaseIterable {
    /// QUO-4: changes of subscriptions.
    case topicChanges = 1
    /// REG-8: registrations.
    case registrations
    /// QUO-2: messages of devices.
    case upstream
}

/// What is left of a quota.
package struct QuotaLeft: Sendable, Hashable {
    /// Amount that the project can take now.
    package var remaining: UInt64
    /// Milliseconds until the whole amount is back if no more is taken.
    package var untilFullMilliseconds: UInt64

    package init(remaining: UInt64, untilFullMilliseconds: UInt64) {
        self.remaining = remaining
        self.untilFullMilliseconds = untilFullMilliseconds
    }
}
