// SPDX-License-Identifier: Apache-2.0
//
// Guards of a cluster given up on purpose: a simulator that misses a canary misses real faults too. Rests on DatabaseCanary.

/// OPS-7: a guard of a cluster that is given up on purpose.
package enum ClusterCanary: String, CaseIterable, Sendable {
    /// The log takes any row at its end.
    case fence
    /// A node applies rows of a server before the standby has confirmed the rows.
    case confirmation
    /// A row in doubt is committed and answered.
    case doubt
    /// The log reports a broken wait for its standby as a commit.
    case warning
    /// A node takes over at its own last row, and later rows are gone.
    case blindTakeover
    /// The active node counts on its lease without a renewal.
    case lease
    /// A row is committed and answered before the log has it.
    case answer
    /// A node believes its store to be as new as the log without a look at all rows.
    case reading
    /// Forwarded commands are applied again when they come again.
    case twice
    /// A follower opens connections of devices before it has the now-or-never messages of the time before.
    case overtaken

    var ofDatabase: DatabaseCanary? {
        switch self {
        case .fence: .fence
        case .confirmation: .confirmation
        case .warning: .warning
        case .blindTakeover: .blindTakeover
        case .doubt: .doubt
        case .lease: .lease
        case .answer: .answer
        case .reading: .reading
        case .twice, .overtaken: nil
        }
    }
}
